//! The programs that are run on the drivers: built once, found by what cargo says of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

/// Test programs of the backend, the product, and the layer that reports pipelines.
pub(super) struct Binaries {
    executables: HashMap<String, PathBuf>,
    /// The shared library of `tools/pipeline-report`.
    pub(super) layer: PathBuf,
}

impl Binaries {
    /// Compiles the backend's tests, the layer, and the programs of `packages`.
    ///
    /// # Errors
    /// What does not compile.
    pub(super) fn build(root: &Path, packages: &[&str]) -> Result<Binaries, String> {
        let mut executables = HashMap::new();
        let mut layer = None;
        let tests = ["test", "--no-run", "--package", "zinc-vulkan", "--tests"];
        let mut programs = vec!["build", "--package", "zinc-pipeline-report"];
        programs.extend(packages.iter().flat_map(|package| ["--package", package]));
        for arguments in [&tests[..], &programs[..]] {
            for artifact in artifacts(root, arguments)? {
                let name = artifact["target"]["name"].as_str().unwrap_or_default().to_owned();
                if let Some(executable) = artifact["executable"].as_str() {
                    executables.insert(name.clone(), PathBuf::from(executable));
                }
                if name == "zinc_pipeline_report" {
                    layer = artifact["filenames"][0].as_str().map(PathBuf::from);
                }
            }
        }
        let layer = layer.ok_or("cargo built no zinc-pipeline-report")?;
        Ok(Binaries { executables, layer })
    }

    /// The program of that target.
    pub(super) fn program(&self, target: &str) -> PathBuf {
        self.executables.get(target).cloned().unwrap_or_else(|| PathBuf::from(target))
    }
}

/// What cargo compiled, as it reports it.
fn artifacts(root: &Path, arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut cargo = crate::run::cargo(root);
    cargo.args(arguments).args(["--quiet", "--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {}` failed: {}", arguments.join(" "), output.status));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter(|message| message["reason"] == "compiler-artifact").collect())
}
