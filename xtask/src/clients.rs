//! `cargo xtask clients`: the official clients, at pinned versions, against a server with two small real models.
//!
//! The suites are in `tests/clients`. Python's packages go into a virtual environment under `target`, Node's beside it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::run;

/// The model of the chat suites, by the catalog's id and by the name of its file.
const CHAT: (&str, &str) = ("smollm2-135m-instruct-q4_1", "SmolLM2-135M-Instruct.Q4_1.gguf");
/// The model of the tool suites: its template knows tools. The cache of the server has it under the catalog's name.
const TOOLS: (&str, &str, &str) =
    ("qwen25-coder-0.5b-q4k-m", "qwen2.5-coder-0.5b-instruct.q4.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
/// Seconds of requests that schemathesis makes.
const FUZZ_SECONDS: &str = "180";

/// Runs every suite.
pub(crate) fn all(root: &Path) -> Result<(), String> {
    let folder = root.join("target/clients");
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let suites = root.join("tests/clients");
    let python = python(&folder, &suites)?;
    node(&folder, &suites)?;
    run::shown(Command::new(cargo()).current_dir(root).args(["build", "--release", "-p", "zinc"]))?;
    let server = Server::start(root, &folder)?;
    let with = |command: &mut Command| -> Result<(), String> {
        command.env("ZINC_URL", &server.url).env("ZINC_CHAT_MODEL", CHAT.0).env("ZINC_TOOLS_MODEL", TOOLS.0);
        run::shown(command)
    };
    with(Command::new(&python).current_dir(&suites).arg("openai_client.py"))?;
    with(Command::new(&python).current_dir(&suites).arg("anthropic_client.py"))?;
    with(Command::new("node").current_dir(&folder).arg("openai_client.mjs"))?;
    let schemathesis = python.with_file_name("schemathesis");
    with(Command::new("sh").arg(suites.join("fuzz.sh")).arg(schemathesis).arg(FUZZ_SECONDS))
}

/// A virtual environment with the pinned packages.
fn python(folder: &Path, suites: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("venv");
    let python = environment.join("bin/python");
    if !python.exists() {
        run::shown(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    run::shown(pip.arg(suites.join("requirements.txt")))?;
    Ok(python)
}

/// The pinned package, and the suite beside it, where Node looks for it.
fn node(folder: &Path, suites: &Path) -> Result<(), String> {
    for file in ["package.json", "openai_client.mjs"] {
        std::fs::copy(suites.join(file), folder.join(file)).map_err(|e| format!("cannot copy {file}: {e}"))?;
    }
    run::shown(Command::new("npm").current_dir(folder).args(["install", "--no-audit", "--no-fund", "--loglevel=error"]))
}

/// A server that ends with its owner.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts `zinc` on a port that the system chooses.
    fn start(root: &Path, folder: &Path) -> Result<Server, String> {
        let models = root.join(".cache/models");
        let cache = folder.join("cache");
        install(&models, &cache)?;
        let mut zinc = Command::new(root.join("target/release/zinc"));
        zinc.args(["serve", "-p", "0", "-c", "2048", "--model-id", CHAT.0]);
        // No client of these suites may fetch a model.
        zinc.env("XDG_CACHE_HOME", &cache).env("HF_ENDPOINT", "http://127.0.0.1:9");
        let mut child = zinc.stderr(Stdio::piped()).spawn().map_err(|e| format!("cannot start zinc: {e}"))?;
        let stderr = child.stderr.take().ok_or("zinc has no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let url = loop {
            let Some(Ok(line)) = lines.next() else { return Err("zinc ended before it served".to_owned()) };
            if let Some((_, rest)) = line.split_once("serving on ") {
                break rest.split(' ').next().unwrap_or_default().to_owned();
            }
        };
        // Nobody reads the log, and a full pipe would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Server { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts the fetched models where the server looks for models of the catalog, as a pull would have left them.
fn install(models: &Path, cache: &Path) -> Result<(), String> {
    let files = [(CHAT.0, CHAT.1, CHAT.1), (TOOLS.0, TOOLS.1, TOOLS.2)];
    for (id, file, name) in files {
        let source = models.join(file);
        let size =
            std::fs::metadata(&source).map_err(|e| format!("{}: {e}; run cargo xtask fetch", source.display()))?;
        let sum = crate::fetch::sha256_of(&source).ok_or_else(|| format!("{} cannot be read", source.display()))?;
        let folder = cache.join("zinc/models").join(id);
        std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let target = folder.join(name);
        if !target.exists() {
            std::fs::hard_link(&source, &target)
                .or_else(|_| std::fs::copy(&source, &target).map(drop))
                .map_err(|e| format!("cannot put {} in place: {e}", target.display()))?;
        }
        let manifest = serde_json::json!({
            "id": id, "file": name, "size_bytes": size.len(), "sha256": sum, "verification": "sha256",
            "source": "cargo xtask fetch", "installed_at_unix": 0,
        });
        std::fs::write(folder.join("manifest.json"), manifest.to_string())
            .map_err(|e| format!("cannot write the manifest of {id}: {e}"))?;
    }
    Ok(())
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
