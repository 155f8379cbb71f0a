//! The backend's tests on Mesa's CPU driver, which computes for real: subgroups of 8, with and without cooperative matrices, and
//! again subgroups of 4, where the driver has no matrices.
//!
//! Nearly all of the time of the op table goes into LLVM, once per distinct pipeline that then runs once or twice:
//! there LLVM's optimiser is off (cases of `matmul_add`: 39 s of CPU, with it 56 s). The models run few pipelines
//! many hundred times; for them it is on: `llama-a.F32` takes 54 s of CPU where nothing is compiled yet, and then 7
//! s; without it 43 s and 15 s, and later models find most pipelines compiled. The short prompt of SmolLM2: 23 s and
//! 4 s, without it 30 s and 10 s. What is compiled for one program is cached for the others. All 28 tiny models take
//! 836 s of CPU in two processes, and 318 s where all is compiled; the three real ones 115 s.

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

/// Cases whose weights go straight to matrices, which the family of CPU drivers leaves out: blocks of 256 and of 32 weights, in planes
/// and not, every epilogue, and values kept in f16.
const STRAIGHT: [&str; 5] =
    ["matmul/Q4_K/", "matmul_glu/Q6_K", "matmul/Q8_0/", "matmul_add/Q4_K", "matmul/block/Q6_K/3"];

/// What that family leaves out as well: products of integers, and several items of a row under way, for which a subgroup must make
/// many rows.
const WITH_INTEGERS: &str =
    "matrix_cores=0,integer_dot=1,matvec_ahead=2,matvec_workgroups=1,matvec_threads=8,matvec_threads_least=8";

/// Processes that share the conformance table, and the tiny models.
const N_PARTS: usize = 2;

/// Real models, by the beginning of their goldens' names.
const REAL: [&str; 3] = ["smollm2", "gemma3", "qwen2.5"];

/// The op table and the backend's own tests.
pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Vec<Job> {
    let wide = |name: &str, target: &str| unoptimised(wide(place, binaries, name, target));
    let narrow = |name: &str, target: &str| unoptimised(test(place, binaries, name, target, &["--lavapipe"]));
    let mut jobs = Vec::new();
    for part in 1..=N_PARTS {
        let shard = format!("{part}/{N_PARTS}");
        let job = wide(&format!("conformance, subgroups of 8, {shard}"), "conformance").env("ZINC_PART", &shard);
        jobs.push(job.env("ZINC_TUNING", "matrix_cores=0"));
        let job = narrow(&format!("conformance, subgroups of 4, {shard}"), "conformance");
        jobs.push(job.env("LP_NATIVE_VECTOR_WIDTH", "128").env("ZINC_PART", &shard));
    }
    for cases in WITH_MATRICES {
        jobs.push(wide(&format!("conformance with matrices, {cases}"), "conformance").env("ZINC_CASE", cases));
    }
    for cases in STRAIGHT {
        let job = wide(&format!("conformance, weights straight to matrices, {cases}"), "conformance");
        jobs.push(job.env("ZINC_CASE", cases).env("ZINC_TUNING", "direct_most=16"));
    }
    let job = wide("conformance with integer products", "conformance").env("ZINC_CASE", "matmul/");
    jobs.push(job.env("ZINC_TUNING", WITH_INTEGERS));
    jobs.push(wide("backend, subgroups of 8", "backend"));
    jobs.push(wide("memory, loss and cache", "host"));
    jobs.push(wide("devices of several threads", "threads"));
    jobs.push(wide("fit against what the device gives", "footprint"));
    jobs
}

/// Every tiny model, and the short prompts of the real ones.
pub(super) fn models(place: &Place, binaries: &Binaries) -> Vec<Job> {
    let tiny = (1..=N_PARTS).map(|part| {
        let shard = format!("{part}/{N_PARTS}");
        wide(place, binaries, &format!("tiny models, {shard}"), "models").env("ZINC_PART", &shard)
    });
    let real = REAL
        .iter()
        .map(|model| wide(place, binaries, &format!("real models, {model}"), "real_models").env("ZINC_MODEL", *model));
    tiny.chain(real).collect()
}

fn test(place: &Place, binaries: &Binaries, name: &str, target: &str, driver: &[&str]) -> Job {
    let cache = place.output.join("shader-cache").to_string_lossy().into_owned();
    Job::new(name, driver, binaries.program(target), TESTS_PASSED)
        .arg("--nocapture")
        .env("MESA_SHADER_CACHE_DISABLE", "false")
        .env("MESA_SHADER_CACHE_DIR", cache)
        .env("ZINC_TEST_REQUIRE_MODELS", "1")
}

fn unoptimised(job: Job) -> Job {
    job.env("GALLIVM_PERF", "nopt")
}

fn wide(place: &Place, binaries: &Binaries, name: &str, target: &str) -> Job {
    let job = test(place, binaries, name, target, &["--lavapipe", "--validate"]);
    job.env("VK_LAYER_MESSAGE_ID_FILTER", FALSE_ALARMS)
}
