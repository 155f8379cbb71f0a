//! `cargo xtask test`: everything that gates a change, in the order in which it fails fastest.

use std::path::Path;
use std::process::Command;

use crate::{fetch, kernels, run};

/// Fetches the test models, then checks format, lints and documentation and runs every test.
pub(crate) fn all(root: &Path) -> Result<(), String> {
    if cargo(root).args(["fmt", "--version"]).output().is_ok_and(|o| o.status.success()) {
        run::shown(cargo(root).args(["fmt", "--all", "--check"]))?;
    } else {
        eprintln!("SKIP: rustfmt is not installed (rustup component add rustfmt)");
    }
    fetch::all(root)?;
    if cargo(root).args(["clippy", "--version"]).output().is_ok_and(|o| o.status.success()) {
        run::shown(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    } else {
        eprintln!("SKIP: clippy is not installed (rustup component add clippy)");
    }
    kernels::check(root)?;
    // The models are here, so a test that cannot find one has failed.
    run::shown(cargo(root).env("ZINC_TEST_REQUIRE_MODELS", "1").args(["test", "--workspace"]))
}

fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}
