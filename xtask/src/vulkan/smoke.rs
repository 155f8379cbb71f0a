//! The whole program on the pretended cards, under the validation layer: loading, uploading, every pipeline and every
//! submission through the real RADV. Nothing is executed there, so only the use of the API and the exit are checked.

use std::path::PathBuf;

use super::binaries::Binaries;
use super::jobs::Job;
use super::{FAMILIES, Place};

/// One model on each card per job.
pub(super) fn jobs(place: &Place, binaries: &Binaries) -> Result<Vec<Job>, String> {
    let folder = place.root.join(".cache/synth-tiny");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e} (`cargo xtask fetch`)", folder.display()))?;
    let mut models: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    models.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    models.sort();
    if models.is_empty() {
        return Err(format!("{} holds no models: `cargo xtask fetch`", folder.display()));
    }
    let mut jobs = Vec::new();
    for family in FAMILIES {
        for model in &models {
            let name = format!("smoke, {}, {family}", model.file_stem().unwrap_or_default().to_string_lossy());
            let driver = ["--family", family, "--validate"];
            let job = Job::new(&name, &driver, binaries.program("zinc"), "");
            let words =
                ["--device", "vulkan:0", "--trace-steps", "--temperature", "0", "-n", "2", "--prompt", "a b c", "-m"];
            let job = words.into_iter().fold(job, Job::arg);
            jobs.push(job.arg(model.to_string_lossy()));
        }
    }
    Ok(jobs)
}
