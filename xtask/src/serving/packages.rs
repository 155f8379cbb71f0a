//! What the suites need of other people's programs: Debian's packages, Python's and Node's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::run;

/// Makes sure that a program of the system is there; root on Debian may install it.
///
/// # Errors
/// It is not there and could not be installed.
pub(super) fn system(program: &str, packages: &[&str]) -> Result<(), String> {
    let is_there = || {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if is_there() {
        return Ok(());
    }
    install(packages)?;
    if is_there() {
        Ok(())
    } else {
        Err(format!("`{program}` does not run after {} was installed", packages.join(", ")))
    }
}

/// Installs Debian's packages.
fn install(packages: &[&str]) -> Result<(), String> {
    static UPDATED: OnceLock<()> = OnceLock::new();
    eprintln!("installing {} through apt-get", packages.join(", "));
    UPDATED.get_or_init(|| {
        // An old list may do; if it does not, the installation says so.
        let _ = run::quiet(Command::new("apt-get").arg("update"));
    });
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "--no-install-recommends"]).args(packages);
    run::quiet(&mut apt).map_err(|error| format!("Debian's {} could not be installed: {error}", packages.join(", ")))
}

/// A virtual environment with pinned packages; its interpreter.
pub(super) fn python(environment: &Path, requirements: &Path) -> Result<PathBuf, String> {
    let python = environment.join("bin/python");
    let make = || run::quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment));
    let has_pip = || run::quiet(Command::new(&python).args(["-m", "pip", "--version"])).is_ok();
    if !has_pip() {
        // Debian keeps a part of venv in a package of its own.
        if make().is_err() || !has_pip() {
            install(&["python3-venv"])?;
            make()?;
        }
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    run::quiet(pip.arg(requirements))?;
    Ok(python)
}

/// Installs the packages of a folder's `package-lock.json`, running none of their scripts.
pub(super) fn node(folder: &Path) -> Result<(), String> {
    system("node", &["nodejs"])?;
    system("npm", &["npm"])?;
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    run::quiet(Command::new("npm").current_dir(folder).args(words))
}
