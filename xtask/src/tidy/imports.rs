//! Which crate may import which: the arrows of ARCHITECTURE.md.

use super::{Tree, Violation};

/// For each crate, the crates of this workspace that it may depend on.
const ARROWS: [(&str, &[&str]); 11] = [
    ("gguf", &[]),
    ("tokenizer", &["gguf"]),
    ("graph", &["gguf"]),
    ("models", &["graph", "gguf"]),
    ("cpu", &["graph", "gguf"]),
    ("vulkan", &["graph", "gguf"]),
    ("engine", &["models", "graph", "gguf"]),
    ("hub", &["models", "gguf"]),
    ("testkit", &["gguf", "graph", "models"]),
    ("cli", &["gguf", "tokenizer", "graph", "models", "cpu", "vulkan", "engine", "hub", "server"]),
    ("server", &["engine", "tokenizer", "hub"]),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.sources.iter().filter(|s| s.path.starts_with("crates/") && s.path.ends_with("Cargo.toml")) {
        let name = source.path.split('/').nth(1).unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            violations.push(format!(
                "{}: crate `{name}` is not in the table of imports (xtask/src/tidy/imports.rs)",
                source.path
            ));
            continue;
        };
        for (number, dependency) in dependencies(&source.text) {
            if !allowed.contains(&dependency) {
                violations.push(format!("{}:{number}: `{name}` must not import `{dependency}`", source.path));
            }
        }
    }
    let walled = ["crates/engine/src/scheduler", "crates/engine/src/kv"];
    for source in tree.rust().filter(|s| walled.iter().any(|w| s.path.starts_with(w))) {
        for (number, line) in source.text.lines().enumerate() {
            if line.contains("zinc_graph") && !line.trim_start().starts_with("//") {
                let path = &source.path;
                violations
                    .push(format!("{path}:{}: the scheduler and the page pool know nothing of the graph", number + 1));
            }
        }
    }
    violations
}

/// Crates of this workspace under `[dependencies]`, with their line numbers.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        }
        if let (true, Some(rest)) = (inside, line.strip_prefix("zinc-")) {
            found.push((number + 1, rest.split(['.', ' ', '=']).next().unwrap_or(rest)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn a_wrong_arrow_is_found() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = vec![
            source(
                "crates/graph/Cargo.toml",
                "[dependencies]\nzinc-models.workspace = true\n[dev-dependencies]\nzinc-cpu.workspace = true\n",
            ),
            source("crates/engine/src/kv/pool.rs", "use zinc_graph::Graph;\n"),
        ];
        let found = super::check(&Tree { sources, files: Vec::new() });
        assert_eq!(found[0], "crates/graph/Cargo.toml:2: `graph` must not import `models`");
        assert!(found[1].starts_with("crates/engine/src/kv/pool.rs:1:"));
        assert_eq!(found.len(), 2);
    }
}
