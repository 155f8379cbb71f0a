//! What test programs take from their environment: real models, and the part of a table that a process runs.

use std::path::{Path, PathBuf};

/// A real model of `.cache/models`; `None`, after a line that says why the test is skipped, where there is none.
///
/// # Panics
/// The model is missing and `ZINC_TEST_REQUIRE_MODELS` is set.
#[must_use]
pub fn model_file(root: &Path, name: &str) -> Option<PathBuf> {
    let path = root.join(".cache/models").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("ZINC_TEST_REQUIRE_MODELS").is_none(), "{} is missing", path.display());
    eprintln!("SKIP: {name} is not here; `cargo xtask fetch` brings it");
    None
}

/// `ZINC_PART` as numbers: `2/3` is the second of three parts; all of it without the variable.
///
/// # Panics
/// Anything else.
#[must_use]
pub fn part() -> (usize, usize) {
    let text = std::env::var("ZINC_PART").unwrap_or("1/1".to_owned());
    let parsed = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    let (part, of) = parsed.unwrap_or_else(|| panic!("ZINC_PART is `{text}`; it must be like 1/2"));
    assert!(0 < part && part <= of, "ZINC_PART is `{text}`");
    (part, of)
}
