//! Runs a program and turns a failure into a message that names it.

use std::path::Path;
use std::process::Command;

/// `cargo` itself, in the root of the repository.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Runs `command` with its output shown.
pub(crate) fn shown(command: &mut Command) -> Result<(), String> {
    eprintln!("$ {}", text(command));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed: {status}", text(command))),
        Err(error) => Err(format!("`{}` could not be started: {error}", text(command))),
    }
}

/// Runs `command` silently; its error output becomes the message of a failure.
pub(crate) fn quiet(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(format!("`{}` failed: {}\n{stderr}", text(command), output.status))
        }
        Err(error) => Err(format!("`{}` could not be started: {error}", text(command))),
    }
}

fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
