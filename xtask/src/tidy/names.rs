//! An architecture's name stands only in `models`, the catalog and the tests.

use super::{Tree, Violation};

/// Words that only a model's own file may know.
const ARCHITECTURES: [&str; 6] = ["qwen35", "qwen3moe", "gemma3", "gemma4", "gpt-oss", "smollm"];
/// Crates where no architecture may be named.
const WALLED: [&str; 5] =
    ["crates/graph/src", "crates/cpu/src", "crates/vulkan/src", "crates/metal/src", "crates/engine/src"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.rust().filter(|s| WALLED.iter().any(|w| s.path.starts_with(w))) {
        for (number, line) in code_lines(&source.text) {
            for name in ARCHITECTURES.iter().filter(|name| line.contains(*name)) {
                violations.push(format!("{}:{number}: names the architecture `{name}`", source.path));
            }
        }
    }
    violations
}

/// Lines before the test module, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    code.lines().enumerate().map(|(i, line)| (i + 1, line.split("//").next().unwrap_or(line)))
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn a_named_architecture_is_found() {
        let text = "// gemma3 in a comment is fine\nif name == \"gemma3\" {}\n#[cfg(test)]\nmod tests { \"gemma3\" }\n";
        let tree = Tree {
            sources: vec![Source { path: "crates/engine/src/a.rs".into(), text: text.into() }],
            files: Vec::new(),
        };
        assert_eq!(super::check(&tree), ["crates/engine/src/a.rs:2: names the architecture `gemma3`"]);
    }
}
