//! The backend's tests on Mesa's CPU driver, which computes for real: subgroups of 8, with and without cooperative matrices, and
//! again subgroups of 4, where the driver has no matrices.
//!
//! Nearly all of the time goes into LLVM, once per distinct pipeline. So LLVM's optimiser is off, which makes that five
//! times shorter, and what is compiled for one program is cached for the others.

use super::Place;
use super::binaries::Binaries;
use super::jobs::{Job, TESTS_PASSED};

/// The validation layer reads a matrix's size from a specialization constant's default instead of its value, and so
/// finds sizes that lavapipe lacks; these two rules say nothing there.
const FALSE_ALARMS: &str =
    "VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10163,VUID-RuntimeSpirv-OpCooperativeMatrixMulAddKHR-10060";

/// Cases that run on cooperative matrices too: the commonest type and attention. LLVM takes five times as long over those kernels, so
/// the other types run on their plain twins here, and on matrices where there is a GPU.
const WITH_MATRICES: [&str; 3] = ["/Q4_K/", "attention/grouped", "attention/before_matmul"];

/// Parts of the conformance table and of the tiny models, which run side by side.
const N_PARTS: usize = 2;

/// Tiny models that gate a change: attention alone, and with delta nets.
const TINY: [&str; 2] = ["llama-a.F32", "qwen35-a.F32"];

/// What gates a change.
pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Vec<Job> {
    let wide = |name: &str, target: &str| wide(place, binaries, name, target);
    let mut jobs = Vec::new();
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        let job = wide(&format!("conformance, subgroups of 8, {shard}"), "conformance").env("ZINC_PART", &shard);
        jobs.push(job.env("ZINC_TUNING", "matrix_cores=0"));
        let job =
            test(place, binaries, &format!("conformance, subgroups of 4, {shard}"), "conformance", &["--lavapipe"]);
        jobs.push(job.env("LP_NATIVE_VECTOR_WIDTH", "128").env("ZINC_PART", &shard));
    }
    for cases in WITH_MATRICES {
        jobs.push(wide(&format!("conformance with matrices, {cases}"), "conformance").env("ZINC_CASE", cases));
    }
    for model in TINY {
        jobs.push(wide(&format!("tiny models, {model}"), "models").env("ZINC_MODEL", model));
    }
    jobs.push(wide("backend, subgroups of 8", "backend"));
    jobs.push(wide("devices of several threads", "threads"));
    jobs.push(wide("fit against what the device gives", "footprint"));
    jobs
}

/// Every tiny model, and the short prompts of the real ones.
pub(super) fn models(place: &Place, binaries: &Binaries) -> Vec<Job> {
    let mut jobs = Vec::new();
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        let job = wide(place, binaries, &format!("tiny models, subgroups of 8, {shard}"), "models");
        jobs.push(job.env("ZINC_PART", &shard));
    }
    jobs.push(wide(place, binaries, "real models, subgroups of 8", "real_models"));
    jobs
}

fn test(place: &Place, binaries: &Binaries, name: &str, target: &str, driver: &[&str]) -> Job {
    let cache = place.output.join("shader-cache").to_string_lossy().into_owned();
    Job::new(name, driver, binaries.program(target), TESTS_PASSED)
        .arg("--nocapture")
        .env("GALLIVM_PERF", "nopt")
        .env("MESA_SHADER_CACHE_DISABLE", "false")
        .env("MESA_SHADER_CACHE_DIR", cache)
        .env("ZINC_TEST_REQUIRE_MODELS", "1")
}

fn wide(place: &Place, binaries: &Binaries, name: &str, target: &str) -> Job {
    let job = test(place, binaries, name, target, &["--lavapipe", "--validate"]);
    job.env("VK_LAYER_MESSAGE_ID_FILTER", FALSE_ALARMS)
}
