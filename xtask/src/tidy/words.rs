//! Names and words that the tree does without.

use super::{Tree, Violation};

/// File names that say nothing.
const EMPTY_NAMES: [&str; 5] = ["utils.rs", "helpers.rs", "misc.rs", "common.rs", "util.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.rust() {
        let file = source.path.rsplit('/').next().unwrap_or_default();
        if EMPTY_NAMES.contains(&file) {
            violations.push(format!("{}: name the file for what it holds", source.path));
        }
        let tool = ["xtask/", "fuzz/", "tools/"].iter().any(|folder| source.path.starts_with(folder));
        let test =
            source.path.contains("/tests/") || source.path.contains("/examples/") || source.path.ends_with("build.rs");
        for (number, line) in source.text.lines().enumerate() {
            let place = format!("{}:{}", source.path, number + 1);
            // Written in two halves so that this file does not offend itself.
            for word in [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:")] {
                if line.contains(word) {
                    violations.push(format!("{place}: `{word}`: open an issue or do it"));
                }
            }
            let environment = line.contains(concat!("std::", "env::var")) || line.contains(concat!("env::", "var("));
            if environment
                && !tool
                && !test
                && !source.path.starts_with("crates/cli/")
                && !source.path.starts_with("crates/testkit/")
            {
                violations.push(format!("{place}: only `cli` reads the environment"));
            }
        }
    }
    for source in &tree.sources {
        for (number, line) in source.text.lines().enumerate() {
            for path in [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")] {
                if line.contains(path) && !source.path.ends_with("Cargo.lock") {
                    violations.push(format!("{}:{}: a path of one machine", source.path, number + 1));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn offending_words_are_found() {
        let text = format!(
            "//! x\n// {}\nlet v = std::{}(\"A\");\n// {}x\n",
            concat!("TO", "DO"),
            concat!("env::", "var"),
            concat!("/ho", "me/")
        );
        let source = Source { path: "crates/gguf/src/utils.rs".into(), text };
        assert_eq!(super::check(&Tree { sources: vec![source], files: Vec::new() }).len(), 4);
    }
}
