//! `zinc --check` through the real loader: what its probes find on Mesa's CPU driver and on the pretended cards.
//!
//! The pretended cards compute nothing, so there the check has to find just that. Versions and measured figures are
//! left out of what is expected; the report's other lines are those of machines that the program's own tests make up.

use std::path::PathBuf;

use super::Place;
use super::binaries::Binaries;
use super::jobs::Job;

/// The line of each pretended card, and the one below it. A window into all of the memory is not pretended.
const CARDS: [(&str, &str); 2] = [
    (
        "gfx1100",
        "device\n  [OK]   vulkan:0 AMD Radeon Graphics (RADV NAVI31): discrete GPU, profile amd-rdna3-24gb \
         (1002:744c, PCI 0000:04:00.0)\n  [OK]   subgroups of 64, matrix cores 16x16x16, integer dot products\n",
    ),
    (
        "gfx1201",
        "device\n  [OK]   vulkan:0 AMD Radeon Graphics (RADV GFX1201): discrete GPU, profile amd-rdna4-16gb \
         (1002:7550, PCI 0000:04:00.0)\n  [OK]   subgroups of 64, matrix cores 16x16x16, integer dot products\n",
    ),
];

pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Result<Vec<Job>, String> {
    let cut = cut_model(place)?;
    let cache = place.output.join("check-cache").to_string_lossy().into_owned();
    let check = |name: &str, driver: &[&str], expects| {
        let job = Job::new(&format!("check, {name}"), driver, binaries.program("zinc"), expects);
        job.arg("--check").arg("-p").arg("0").env("XDG_CACHE_HOME", &cache)
    };
    let model = place.root.join("fixtures/tiny/llama-a.F32.gguf").to_string_lossy().into_owned();
    let mut jobs = Vec::new();
    for (family, device) in CARDS {
        let job = check(family, &["--family", family, "--validate"], device).arg("-m").arg(&model);
        let job = job.expect("cases are not as they are defined").expect("zinc selftest --device vulkan:0\n");
        jobs.push(job.expect("the device did not do the work").expect("NOT READY [FAIL]").exits(1));
    }
    // Not fifty gigabytes of keys on a card of twenty-four.
    let job = check("too little memory", &["--family", "gfx1100"], "the model does not fit: ").arg("-m").arg(&model);
    let job = job.arg("--kv-memory").arg("50GB").arg("-c").arg("16000000").arg("--max-seqs").arg("8");
    jobs.push(job.expect("zinc --check --kv-memory ").exits(1));

    let named = "vulkan:0 llvmpipe";
    let job = check("lavapipe", &["--lavapipe"], named).arg("--device").arg("vulkan:0").arg("-m").arg(&model);
    let job = job.expect("subgroups of 8, matrix cores 8x8x8").expect(" ops hold (").expect("a copy moves ");
    jobs.push(job.expect("READY WITH WARNINGS [WARN]"));
    let job = check("lavapipe, subgroups of 4", &["--lavapipe"], "subgroups of 4, no matrix cores");
    jobs.push(job.arg("--device").arg("vulkan:0").env("LP_NATIVE_VECTOR_WIDTH", "128"));
    // Without a name it is never taken.
    let only = "only Mesa's driver for the CPU (lavapipe) has a device here";
    jobs.push(check("lavapipe alone", &["--lavapipe"], only).expect("CPU (").expect("profile cpu\n"));
    let job = check("no such device", &["--lavapipe"], "there is no Vulkan device `vulkan:5`");
    jobs.push(job.arg("--device").arg("vulkan:5").exits(1));
    let job = check("broken model", &["--lavapipe"], "model\n  [FAIL] ").arg("-m").arg(cut.to_string_lossy());
    jobs.push(job.exits(1));
    Ok(jobs)
}

/// A model whose last bytes are missing.
fn cut_model(place: &Place) -> Result<PathBuf, String> {
    let whole = place.root.join("fixtures/tiny/llama-a.F32.gguf");
    let bytes = std::fs::read(&whole).map_err(|e| format!("{}: {e}", whole.display()))?;
    let cut = place.output.join("cut.gguf");
    let kept = bytes.len().saturating_sub(1000);
    std::fs::write(&cut, &bytes[..kept]).map_err(|e| format!("{}: {e}", cut.display()))?;
    Ok(cut)
}
