//! `cargo xtask browser`: the chat page in a real browser, against a scripted server, and its streams against `zinc` with a
//! small model.
//!
//! The suite is in `crates/server/tests/browser`.

use std::path::Path;
use std::process::Command;

use super::server::{Profile, Program};
use super::{Missing, clients, packages};
use crate::run;

/// Runs the suite against both servers.
///
/// # Errors
/// What could not be installed, and what the suite found.
pub(crate) fn run(root: &Path) -> Result<(), Missing> {
    let suite = root.join("crates/server/tests/browser");
    packages::node(&suite).map_err(Missing::Package)?;
    packages::system("chromium", &["chromium"]).map_err(Missing::Package)?;
    let zinc = Program::Built(Profile::Dev).path(root)?;
    let node = || {
        let mut node = Command::new("node");
        node.current_dir(&suite).arg("run.mjs");
        node
    };
    run::shown(node().arg("--mock"))?;
    let server = clients::start(root, &zinc)?;
    // Everything else is the same against the script, and quicker.
    run::shown(node().args(["--base", &server.url, "--only", "stream"]))?;
    Ok(())
}
