//! `cargo xtask clients`: the official clients, at pinned versions, against a server with two small real models.
//!
//! The suites are in `tests/clients`. Python's packages go into a virtual environment under `target`, Node's beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{Profile, Program, Server};
use super::{Missing, packages};
use crate::run;

/// The model of the chat suites, by the catalog's id and by the name of its file.
pub(super) const CHAT: (&str, &str) = ("smollm2-135m-instruct-q4_1", "SmolLM2-135M-Instruct.Q4_1.gguf");
/// The model of the tool suites: its template knows tools. The cache of the server has it under the catalog's name.
const TOOLS: (&str, &str, &str) =
    ("qwen25-coder-0.5b-q4k-m", "qwen2.5-coder-0.5b-instruct.q4.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");

/// Runs every suite; schemathesis makes requests for `fuzz_seconds`.
///
/// # Errors
/// What could not be installed, and what a suite found.
pub(crate) fn run(root: &Path, fuzz_seconds: u32) -> Result<(), Missing> {
    let folder = root.join("target/clients");
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let suites = root.join("tests/clients");
    let python = packages::python(&folder.join("venv"), &suites.join("requirements.txt")).map_err(Missing::Package)?;
    for file in ["package.json", "package-lock.json", "openai_client.mjs"] {
        std::fs::copy(suites.join(file), folder.join(file)).map_err(|e| format!("cannot copy {file}: {e}"))?;
    }
    packages::node(&folder).map_err(Missing::Package)?;
    let zinc = Program::Built(Profile::Dev).path(root)?;
    let server = start(root, &zinc)?;
    let with = |command: &mut Command| -> Result<(), String> {
        command.env("ZINC_URL", &server.url).env("ZINC_CHAT_MODEL", CHAT.0).env("ZINC_TOOLS_MODEL", TOOLS.0);
        run::shown(command)
    };
    with(Command::new(&python).current_dir(&suites).arg("openai_client.py"))?;
    with(Command::new(&python).current_dir(&suites).arg("anthropic_client.py"))?;
    with(Command::new("node").current_dir(&folder).arg("openai_client.mjs"))?;
    let schemathesis = python.with_file_name("schemathesis");
    let seconds = fuzz_seconds.to_string();
    with(Command::new("sh").current_dir(&folder).arg(suites.join("fuzz.sh")).arg(schemathesis).arg(seconds))?;
    Ok(())
}

/// A server that has the two models in its cache.
pub(super) fn start(root: &Path, zinc: &Path) -> Result<Server, String> {
    let cache = cache(root)?;
    let arguments = ["-c", "2048", "--device", "cpu", "--model-id", CHAT.0];
    Server::start(zinc, &arguments, &[("XDG_CACHE_HOME", &cache)])
}

/// A cache folder with the fetched models where the server looks for models of the catalog, as a pull would have left them.
fn cache(root: &Path) -> Result<PathBuf, String> {
    let (models, cache) = (root.join(".cache/models"), root.join("target/clients/cache"));
    let files = [(CHAT.0, CHAT.1, CHAT.1), (TOOLS.0, TOOLS.1, TOOLS.2)];
    for (id, file, name) in files {
        let source = models.join(file);
        let size =
            std::fs::metadata(&source).map_err(|e| format!("{}: {e}; run cargo xtask fetch", source.display()))?;
        let sum = crate::fetch::sha256_of(&source).ok_or_else(|| format!("{} cannot be read", source.display()))?;
        let folder = cache.join("zinc/models").join(id);
        std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let target = folder.join(name);
        if !target.exists() {
            std::fs::hard_link(&source, &target)
                .or_else(|_| std::fs::copy(&source, &target).map(drop))
                .map_err(|e| format!("cannot put {} in place: {e}", target.display()))?;
        }
        let manifest = serde_json::json!({
            "id": id, "repository": "fetched/for-tests", "revision": "main",
            "files": [{ "name": name, "size_bytes": size.len(), "sha256": sum }],
            "verification": "sha256", "source": "cargo xtask fetch", "installed_at_unix": 0,
        });
        std::fs::write(folder.join("manifest.json"), manifest.to_string())
            .map_err(|e| format!("cannot write the manifest of {id}: {e}"))?;
    }
    Ok(cache)
}
