//! What RADV's compiler makes of the kernels on AMD cards: nothing spilled, the width that was asked for, matrix and
//! dot instructions where the code has them, and as many waves per SIMD as the committed baseline.
//!
//! The pipelines are those that the backend makes for published models (`crates/vulkan/tests/published.rs`), seen by
//! the layer in `tools/pipeline-report`: new kernels and variants need no entry here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::baseline::{Baseline, Code};
use super::binaries::Binaries;
use super::jobs::{Job, TESTS_PASSED};
use super::{FAMILIES, Place};

const LAYER: &str = "VK_LAYER_ZINC_pipeline_report";

/// Processes that share the eleven models: a pretended one has 3 GiB in all, and gives nothing back.
const N_PARTS: usize = 11;

/// Where RDNA 4 has a matrix's elements in waves of 64, by AMD's description: rows one lane apart, four columns a lane, the next four 16
/// lanes on. No card was asked.
const FRAGMENT: (&str, &str) = ("gfx1201", "16x16x4x1x16");
/// Parts whose models are recorded with weights that go straight to matrix cores too: Q4_K with Q6_K, Q8_0, MXFP4, Q4_0.
const STRAIGHT: [usize; 4] = [1, 4, 9, 10];

/// Records published models on each card, with the layer between.
pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Result<Vec<Job>, String> {
    let manifest = json!({
        "file_format_version": "1.2.0",
        "layer": {
            "name": LAYER,
            "type": "GLOBAL",
            "library_path": binaries.layer,
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "Writes down every compute pipeline",
        },
    });
    let layers = place.output.join("layers");
    let path = layers.join("pipeline_report.json");
    fs::create_dir_all(&layers).map_err(|e| format!("{}: {e}", layers.display()))?;
    fs::write(&path, manifest.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
    let job = |family: &str, part: usize, way: &str| {
        let report = report(place, family, part, way);
        let _ = fs::remove_file(&report);
        Job::new(
            &format!("published models, {family}{way}, {part}/{N_PARTS}"),
            &["--family", family],
            binaries.program("published"),
            TESTS_PASSED,
        )
        .arg("--nocapture")
        .env("VK_INSTANCE_LAYERS", LAYER)
        .env("VK_LAYER_PATH", layers.to_string_lossy())
        .env("ZINC_PIPELINE_REPORT", report.to_string_lossy())
        .env("ZINC_PART", format!("{part}/{N_PARTS}"))
    };
    let (family, fragment) = FRAGMENT;
    let straight = STRAIGHT.iter().map(|&part| job(family, part, AS_STRAIGHT).env("ZINC_FRAGMENT", fragment));
    let all = FAMILIES.iter().flat_map(|family| (1..=N_PARTS).map(move |part| (family, part)));
    Ok(all.map(|(family, part)| job(family, part, "")).chain(straight).collect())
}

/// What marks the jobs and reports of weights that go straight to matrix cores.
const AS_STRAIGHT: &str = "-straight";

fn report(place: &Place, family: &str, part: usize, way: &str) -> PathBuf {
    place.output.join(format!("pipelines-{family}{way}-{part}.jsonl"))
}

/// All reports of a card.
fn reports(place: &Place, family: &str) -> Vec<PathBuf> {
    let straight =
        STRAIGHT.iter().filter(|_| family == FRAGMENT.0).map(|&part| report(place, family, part, AS_STRAIGHT));
    (1..=N_PARTS).map(|part| report(place, family, part, "")).chain(straight).collect()
}

/// Holds the reports to the limits and to the baseline, or writes the baseline anew.
///
/// # Errors
/// Every pipeline at fault.
pub(super) fn check(place: &Place, mesa: &str, bless: bool) -> Result<(), String> {
    let kernels = Kernels::read(&place.root.join("crates/vulkan/spv"))?;
    let mut faults = Vec::new();
    let mut made = BTreeMap::new();
    for family in FAMILIES {
        let mut text = String::new();
        for path in reports(place, family) {
            let of_part = fs::read_to_string(&path);
            text += &of_part.map_err(|e| format!("{}: {e}: no pipeline was reported", path.display()))?;
        }
        let mut n = 0;
        for line in text.lines() {
            let pipeline: Value = serde_json::from_str(line).map_err(|e| format!("pipelines on {family}: {e}"))?;
            let (variant, code) = look_at(family, &pipeline, &kernels, &mut faults)?;
            n += usize::from(made.insert(variant, code).is_none());
        }
        let used: BTreeSet<&str> = kernels.used(&text);
        eprintln!("vulkan: {family}: {n} pipelines of {} kernels by RADV", used.len());
        for stem in kernels.dotting().intersection(&used) {
            let of_kernel = format!("{family} {stem} ");
            if !made.iter().any(|(variant, code): (&String, &Code)| variant.starts_with(&of_kernel) && code.dot > 0) {
                faults.push(format!("{of_kernel}: no variant has v_dot4, the code has integer dot products"));
            }
        }
        let unused: Vec<&str> = kernels.stems().into_iter().filter(|stem| !used.contains(stem)).collect();
        if !unused.is_empty() {
            eprintln!("vulkan: {family}: no published model uses {}", unused.join(", "));
        }
    }
    if !faults.is_empty() {
        return Err(format!("kernels on AMD cards:\n{}", faults.join("\n")));
    }
    let path = place.root.join("crates/vulkan/baselines/rdna.txt");
    let made = Baseline { mesa: mesa.to_owned(), variants: made };
    match bless {
        true => made.write(&path),
        false => made.check_against(&Baseline::read(&path)?),
    }
}

/// One pipeline: its name and what is compared with the baseline. Broken limits are added to `faults`.
fn look_at(
    family: &str,
    pipeline: &Value,
    kernels: &Kernels,
    faults: &mut Vec<String>,
) -> Result<(String, Code), String> {
    let hash = pipeline["code"].as_str().unwrap_or_default();
    let Some(kernel) = kernels.by_hash.get(hash) else {
        return Err(format!("a pipeline's code ({hash}) is none of crates/vulkan/spv"));
    };
    let constants = pipeline["constants"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let constants: Vec<String> = constants.map(|n| n.to_string()).collect();
    let variant = format!("{family} {} {}", kernel.stem, constants.join(","));
    let mut statistic = |name: &str| {
        pipeline["statistics"][name].as_u64().unwrap_or_else(|| {
            faults.push(format!("{variant}: RADV gives no `{name}`"));
            0
        })
    };
    let spilled = ["Spilled VGPRs", "Spilled SGPRs", "Scratch size"].map(|name| (name, statistic(name)));
    let subgroups = statistic("Subgroups per SIMD");
    let (matrix, dot) = (statistic("v_wmma"), statistic("v_dot4"));
    let asked = pipeline["wave_asked"].as_u64().unwrap_or(0);
    let wave = pipeline["wave"].as_u64().unwrap_or(0);
    for (name, n) in spilled.into_iter().filter(|(_, n)| *n > 0) {
        faults.push(format!("{variant}: {name} is {n}"));
    }
    if asked != wave || wave == 0 {
        faults.push(format!("{variant}: waves of {wave}, asked for {asked}"));
    }
    if kernel.multiplies_matrices && matrix == 0 {
        faults.push(format!("{variant}: multiplies matrices without v_wmma"));
    }
    // RADV counts in halves of a wave of 64.
    let waves = subgroups * 32 / wave.max(32);
    Ok((variant, Code { wave, waves, matrix, dot }))
}

/// The committed code, by the hash that the layer gives.
struct Kernels {
    by_hash: HashMap<String, Kernel>,
}

struct Kernel {
    stem: String,
    multiplies_matrices: bool,
    dots: bool,
}

impl Kernels {
    fn read(folder: &Path) -> Result<Kernels, String> {
        let mut by_hash = HashMap::new();
        let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "spv") {
                continue;
            }
            let code = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let kernel = Kernel { stem, multiplies_matrices: has(&code, MATRIX_MUL_ADD), dots: has(&code, DOTS) };
            by_hash.insert(format!("{:016x}", fnv1a(&code)), kernel);
        }
        Ok(Kernels { by_hash })
    }

    fn stems(&self) -> BTreeSet<&str> {
        self.by_hash.values().map(|kernel| kernel.stem.as_str()).collect()
    }

    /// Those with integer dot products, which a constant may leave out of a variant.
    fn dotting(&self) -> BTreeSet<&str> {
        self.by_hash.values().filter(|kernel| kernel.dots).map(|kernel| kernel.stem.as_str()).collect()
    }

    /// Those whose hash stands in a report.
    fn used(&self, report: &str) -> BTreeSet<&str> {
        let used = self.by_hash.iter().filter(|(hash, _)| report.contains(hash.as_str()));
        used.map(|(_, kernel)| kernel.stem.as_str()).collect()
    }
}

// Opcodes of SPIR-V: OpCooperativeMatrixMulAddKHR; OpSDot to OpSUDotAccSat.
const MATRIX_MUL_ADD: std::ops::RangeInclusive<u32> = 4459..=4459;
const DOTS: std::ops::RangeInclusive<u32> = 4450..=4455;

/// Whether a module has an instruction of these opcodes.
fn has(code: &[u8], opcodes: std::ops::RangeInclusive<u32>) -> bool {
    let words: Vec<u32> = code.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    let mut at = 5;
    while let Some(word) = words.get(at) {
        if opcodes.contains(&(word & 0xffff)) {
            return true;
        }
        at += (word >> 16).max(1) as usize;
    }
    false
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels() -> Kernels {
        let kernel = Kernel { stem: "gemm".into(), multiplies_matrices: true, dots: false };
        Kernels { by_hash: [("00ff".to_owned(), kernel)].into() }
    }

    fn pipeline(change: impl FnOnce(&mut Value)) -> Value {
        let mut value = json!({
            "code": "00ff", "constants": [256, 64], "wave_asked": 64, "wave": 64,
            "statistics": {
                "Spilled VGPRs": 0, "Spilled SGPRs": 0, "Scratch size": 0,
                "Subgroups per SIMD": 20, "v_wmma": 4, "v_dot4": 0,
            },
        });
        change(&mut value);
        value
    }

    #[test]
    fn each_limit_is_held() {
        let faults = |change: fn(&mut Value)| {
            let mut faults = Vec::new();
            look_at("gfx1201", &pipeline(change), &kernels(), &mut faults).map(|_| faults.join("; "))
        };
        let name = "gfx1201 gemm 256,64: ";
        assert_eq!(faults(|_| ()), Ok(String::new()));
        for (change, fault) in [
            ((|p| p["statistics"]["Spilled SGPRs"] = json!(2)) as fn(&mut Value), "Spilled SGPRs is 2"),
            (|p| p["statistics"]["Scratch size"] = json!(512), "Scratch size is 512"),
            (|p| p["wave"] = json!(32), "waves of 32, asked for 64"),
            (|p| p["statistics"]["v_wmma"] = json!(0), "multiplies matrices without v_wmma"),
            (|p| p["statistics"]["v_dot4"] = Value::Null, "RADV gives no `v_dot4`"),
        ] {
            assert_eq!(faults(change), Ok(format!("{name}{fault}")));
        }
        assert!(faults(|p| p["code"] = json!("beef")).unwrap_err().contains("(beef)"));
    }

    #[test]
    fn waves_are_counted_at_their_own_width() {
        let waves = |wave: u64| {
            let pipeline = pipeline(|p| (p["wave"], p["wave_asked"]) = (json!(wave), json!(wave)));
            look_at("gfx1100", &pipeline, &kernels(), &mut Vec::new()).unwrap().1.waves
        };
        assert_eq!((waves(64), waves(32)), (10, 20));
    }

    #[test]
    fn instructions_are_found_in_code() {
        let code = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        // An operand that looks like the opcode is none.
        let without = code(&[0, 0, 0, 0, 0, (2 << 16) | 1, 4459]);
        assert!(!has(&without, MATRIX_MUL_ADD));
        let with = code(&[0, 0, 0, 0, 0, (2 << 16) | 1, 4450, (1 << 16) | 4459]);
        assert!(has(&with, MATRIX_MUL_ADD) && !has(&with, DOTS));
    }
}
