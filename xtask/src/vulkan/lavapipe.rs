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

/// Cases that run on cooperative matrices too: the tuned types and attention. LLVM takes five times as long over those kernels, so
/// the other types run on their plain twins here, and on matrices where there is a GPU.
const WITH_MATRICES: [&str; 3] = ["/Q4_K/", "/Q8_0/", "attention/"];

/// Parts of the conformance table and of the tiny models, which run side by side.
const N_PARTS: usize = 2;

pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Vec<Job> {
    let test = |name: &str, target: &str, driver: &[&str]| {
        let cache = place.output.join("shader-cache").to_string_lossy().into_owned();
        Job::new(name, driver, binaries.program(target), TESTS_PASSED)
            .arg("--nocapture")
            .env("GALLIVM_PERF", "nopt")
            .env("MESA_SHADER_CACHE_DISABLE", "false")
            .env("MESA_SHADER_CACHE_DIR", cache)
            .env("ZINC_TEST_REQUIRE_MODELS", "1")
    };
    let wide = |name: &str, target: &str| {
        test(name, target, &["--lavapipe", "--validate"]).env("VK_LAYER_MESSAGE_ID_FILTER", FALSE_ALARMS)
    };
    let narrow = |name: &str, target: &str| test(name, target, &["--lavapipe"]).env("LP_NATIVE_VECTOR_WIDTH", "128");
    let mut jobs = Vec::new();
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        let job = wide(&format!("conformance, subgroups of 8, {shard}"), "conformance").env("ZINC_PART", &shard);
        jobs.push(job.env("ZINC_TUNING", "matrix_cores=0"));
    }
    for cases in WITH_MATRICES {
        jobs.push(wide(&format!("conformance with matrices, {cases}"), "conformance").env("ZINC_CASE", cases));
    }
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        jobs.push(wide(&format!("tiny models, subgroups of 8, {shard}"), "models").env("ZINC_PART", &shard));
    }
    jobs.push(wide("real models, subgroups of 8", "real_models"));
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        jobs.push(narrow(&format!("conformance, subgroups of 4, {shard}"), "conformance").env("ZINC_PART", &shard));
    }
    jobs.push(wide("backend, subgroups of 8", "backend"));
    jobs
}
