//! Every tiny model of `fixtures/tiny` through Vulkan: logits and greedy tokens whatever the steps in which a prompt is
//! fed, resumed from copied states, in a crowd, and every layer's activations.
//!
//! Goldens were computed in f32 on (dequantised) weights; these kernels work in f32 with an f32 cache, so they must come
//! within 2e-4 for every storage type. `ZINC_MODEL=qwen` runs only the models whose name contains that; `ZINC_PART=1/2`
//! runs every second model and `ZINC_PART=2/2` the others.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use zinc_graph::Backend;
use zinc_graph::backend::KvFormat;
use zinc_testkit::crowd::check_crowd;
use zinc_testkit::environment;
use zinc_testkit::golden::{Demand, Golden, check, check_resumed, check_trace};
use zinc_vulkan::{Device, Vulkan, device};

/// An expert that is ahead by less than this may lose to rounding.
const DEMAND: Demand<'_> =
    Demand { kv_format: KvFormat::F32, logit_tolerance: 2e-4, router_gap_min: 1e-4, chunks: &[usize::MAX, 1, 16] };

fn goldens() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".golden.json"));
    paths.sort();
    paths
}

#[test]
fn tiny_models_agree() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().next()) else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    // One device for all models: its pipelines are compiled once.
    let mut device = Device::open(&candidate.id, &[]).unwrap();
    // Matrix cores and integer products round their operands, which the op table allows for and these goldens do not.
    for entry in ["matrix_cores=0", "integer_dot=0"] {
        device.tune(entry).unwrap();
    }
    eprintln!("{} ({})", candidate.name, candidate.driver);
    let filter = std::env::var("ZINC_MODEL").unwrap_or_default();
    let paths = goldens();
    assert!(paths.len() >= 20, "only {} goldens", paths.len());
    let mut failures = Vec::new();
    let (part, n_parts) = environment::part();
    let paths = paths.iter().skip(part - 1).step_by(n_parts);
    for path in paths.filter(|path| path.file_name().unwrap().to_string_lossy().contains(&filter)) {
        let golden = Golden::load(path).unwrap();
        let start = Instant::now();
        match agrees(&golden, &device) {
            Ok(worst) => eprintln!("{}: {worst:.1e} in {:.1} s", golden.name, start.elapsed().as_secs_f32()),
            Err(failure) => {
                eprintln!("{failure}");
                failures.push(failure);
            }
        }
    }
    assert!(failures.is_empty(), "{} failed", failures.len());
}

/// The largest difference of a logit or an activation.
fn agrees(golden: &Golden, device: &Device) -> Result<f32, String> {
    let make = || -> Box<dyn Backend> { Box::new(Vulkan::new(device).unwrap()) };
    let outcomes =
        [check(golden, make(), &DEMAND), check_resumed(golden, make(), &DEMAND), check_crowd(golden, make(), &DEMAND)];
    let mut worst = 0.0f32;
    for outcome in outcomes {
        let outcome = outcome.map_err(|e| e.to_string())?;
        assert!(outcome.n_rows > 0, "{}: nothing was compared", golden.name);
        worst = worst.max(outcome.logit_difference_max);
    }
    if golden.trace.is_some() {
        worst = worst.max(check_trace(golden, make(), DEMAND.logit_tolerance).map_err(|e| e.to_string())?);
    }
    Ok(worst)
}
