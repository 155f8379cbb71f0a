//! A `zinc` that serves on a port of its own and ends with its owner.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::run;

/// How `zinc` is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// As for tests: already there when they have run.
    Dev,
    /// As for users: what figures are measured with.
    Release,
}

/// The small model of load, cost and routers.
pub(super) const SMALL_MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Where the fetched test models lie; checked, so that a missing one is named before anything starts.
pub(super) fn small_model(root: &Path) -> Result<PathBuf, String> {
    let path = root.join(".cache/models").join(SMALL_MODEL);
    if path.exists() { Ok(path) } else { Err(format!("{} is missing; run cargo xtask fetch", path.display())) }
}

/// The `zinc` that is run.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// The one of this tree.
    Built(Profile),
    /// Another, as it is.
    Given(PathBuf),
}

impl Program {
    /// The one that the word after `--program` names.
    pub(super) fn given(word: Option<&String>) -> Result<Program, String> {
        match word.map(PathBuf::from) {
            Some(path) if path.is_file() => Ok(Program::Given(path)),
            Some(path) => Err(format!("--program is {}, which is no file", path.display())),
            None => Err("--program needs a file".to_owned()),
        }
    }

    /// Where it lies; compiled if need be.
    pub(super) fn path(&self, root: &Path) -> Result<PathBuf, String> {
        let profile = match self {
            Program::Given(path) => return Ok(path.clone()),
            Program::Built(profile) => *profile,
        };
        let mut cargo = run::cargo(root);
        cargo.args(["build", "-p", "zinc", "--quiet", "--message-format", "json-render-diagnostics"]);
        if profile == Profile::Release {
            cargo.arg("--release");
        }
        let output = cargo.stderr(Stdio::inherit()).output().map_err(|e| format!("cargo: {e}"))?;
        if !output.status.success() {
            return Err(format!("`cargo build -p zinc` failed: {}", output.status));
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut programs = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
        programs.next_back().ok_or_else(|| "cargo built no program `zinc`".to_owned())
    }
}

/// A server that ends with its owner.
pub(super) struct Server {
    child: Child,
    /// As in `http://127.0.0.1:8080`.
    pub(super) url: String,
}

impl Server {
    /// Starts `zinc serve -p 0` with more arguments, and waits until it listens.
    pub(super) fn start(zinc: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> Result<Server, String> {
        let mut command = Command::new(zinc);
        command.args(["serve", "-p", "0"]).args(arguments).envs(environment.iter().copied());
        // Nothing that is tested here may fetch a model.
        command.env("HF_ENDPOINT", "http://127.0.0.1:9").stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", zinc.display()))?;
        let stderr = child.stderr.take().ok_or("zinc has no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        let url = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                return Err(format!("zinc ended before it served:\n{said}"));
            };
            if let Some((_, rest)) = line.split_once("serving on ") {
                break rest.split(' ').next().unwrap_or_default().to_owned();
            }
            said.push_str(&line);
            said.push('\n');
        };
        // Nobody reads the log, and a full pipe would stop the server.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Server { child, url })
    }

    /// The process, for what the system knows of it.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
