//! `cargo xtask test`: everything that gates a change, in the order in which it fails fastest.

use std::path::Path;

use crate::serving::{self, Wanting};
use crate::{fetch, kernels, run, vulkan};

/// Fetches the test models, then checks format, lints and documentation and runs every test. `--no-vulkan` leaves out
/// the part that needs Mesa's drivers; with `--complete` no suite is left out because a package is missing.
pub(crate) fn all(root: &Path, words: &[String]) -> Result<(), String> {
    let (mut with_vulkan, mut wanting) = (true, Wanting::LeavesOut);
    for word in words {
        match word.as_str() {
            "--no-vulkan" => with_vulkan = false,
            "--complete" => wanting = Wanting::Fails,
            _ => return Err(format!("`cargo xtask test` takes --no-vulkan and --complete, not `{word}`")),
        }
    }
    if run::cargo(root).args(["fmt", "--version"]).output().is_ok_and(|o| o.status.success()) {
        run::shown(run::cargo(root).args(["fmt", "--all", "--check"]))?;
    } else {
        eprintln!("SKIP: rustfmt is not installed (rustup component add rustfmt)");
    }
    fetch::all(root)?;
    if run::cargo(root).args(["clippy", "--version"]).output().is_ok_and(|o| o.status.success()) {
        run::shown(run::cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    } else {
        eprintln!("SKIP: clippy is not installed (rustup component add clippy)");
    }
    kernels::check(root)?;
    // The models are here, so a test that cannot find one has failed.
    run::shown(run::cargo(root).env("ZINC_TEST_REQUIRE_MODELS", "1").args(["test", "--workspace"]))?;
    serving::suites(root, wanting)?;
    match with_vulkan {
        true => vulkan::run(root, &vulkan::Request::everything()),
        false => {
            eprintln!("SKIP: the Vulkan backend on Mesa's drivers (--no-vulkan)");
            Ok(())
        }
    }
}
