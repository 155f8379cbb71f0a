//! What a kernel was compiled from, as one hash: shared by the build script, which refuses stale
//! SPIR-V, and by `cargo xtask kernels`, which makes it.
//!
//! `spv/SOURCES` has one line per kernel, in the format of `sha256sum`: the hash of the `.comp`
//! and of everything that it includes, and the kernel's stem. Lines that begin with `#` are notes.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Stems of the kernels in `shaders`, sorted.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn stems(shaders: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(shaders).map_err(|e| format!("{}: {e}", shaders.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let kernels = paths.filter(|path| path.extension().is_some_and(|extension| extension == "comp"));
    let mut stems: Vec<String> =
        kernels.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    stems.sort();
    Ok(stems)
}

/// SHA-256 of the kernel `stem` and of its includes, in the order in which the compiler reads them.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn hash(shaders: &Path, stem: &str) -> Result<String, String> {
    let mut seen = Vec::new();
    let mut hasher = Sha256::new();
    feed(shaders, &PathBuf::from(format!("{stem}.comp")), &mut seen, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn feed(shaders: &Path, file: &Path, seen: &mut Vec<PathBuf>, hasher: &mut Sha256) -> Result<(), String> {
    if seen.iter().any(|path| path == file) {
        return Ok(());
    }
    seen.push(file.to_owned());
    let path = shaders.join(file);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    // A checkout with other line ends is the same source.
    let text = text.replace("\r\n", "\n");
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(&text);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            feed(shaders, Path::new(name), seen, hasher)?;
        }
    }
    Ok(())
}

/// The kernels whose SPIR-V was not made from what lies in `shaders`, each with the reason.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn stale(shaders: &Path, spv: &Path) -> Result<Vec<String>, String> {
    let list = spv.join("SOURCES");
    let list = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut recorded: Vec<(&str, &str)> =
        list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once("  ")).collect();
    let mut reasons = Vec::new();
    for stem in stems(shaders)? {
        match recorded.iter().position(|(_, known)| *known == stem) {
            None => reasons.push(format!("shaders/{stem}.comp was never compiled")),
            Some(at) => {
                let (sum, _) = recorded.swap_remove(at);
                if sum != hash(shaders, &stem)? {
                    reasons.push(format!("shaders/{stem}.comp or a file that it includes has changed"));
                }
            }
        }
    }
    reasons.extend(recorded.iter().map(|(_, stem)| format!("spv/{stem}.spv has no shaders/{stem}.comp")));
    Ok(reasons)
}
