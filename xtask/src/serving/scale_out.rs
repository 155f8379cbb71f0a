//! `cargo xtask scale-out`: LiteLLM's proxy in front of two servers, one of which dies in the middle of its streams.
//!
//! The checks are in `tests/clients/scale_out.py`, the recipe in `docs/scale-out.md`.

use std::path::Path;
use std::process::Command;

use super::server::{Profile, Program, Server, small_model};
use super::{Missing, packages};
use crate::run;

/// Starts both servers and hands them to the checks.
///
/// # Errors
/// What could not be installed, and what did not hold.
pub(crate) fn run(root: &Path) -> Result<(), Missing> {
    let suites = root.join("tests/clients");
    let folder = root.join("target/clients");
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let requirements = suites.join("requirements-scale-out.txt");
    let python = packages::python(&folder.join("venv-scale-out"), &requirements).map_err(Missing::Package)?;
    let zinc = Program::Built(Profile::Dev).path(root)?;
    let model = small_model(root)?;
    let arguments = ["-c", "1024", "--device", "cpu", "--threads", "1", "-m", &model.to_string_lossy()];
    let servers = [Server::start(&zinc, &arguments, &[])?, Server::start(&zinc, &arguments, &[])?];
    let mut checks = Command::new(&python);
    checks.current_dir(&folder).arg(suites.join("scale_out.py"));
    for server in &servers {
        checks.arg(&server.url).arg(server.pid().to_string());
    }
    run::shown(&mut checks)?;
    Ok(())
}
