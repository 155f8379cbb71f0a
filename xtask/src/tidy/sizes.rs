//! Files stay small, and each says what it is.

use super::{Tree, Violation};

/// Lines of a Rust file.
const LINES_MAX: usize = 700;
/// Characters of a line.
const COLUMNS_MAX: usize = 180;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.rust() {
        let n_lines = source.text.lines().count();
        if n_lines > LINES_MAX {
            violations.push(format!("{}: {n_lines} lines, more than {LINES_MAX}; split it by noun", source.path));
        }
        if !source.text.starts_with("//!") && !source.text.starts_with("#!") {
            violations.push(format!("{}:1: begins without `//!` that says what it is", source.path));
        }
        for (number, line) in source.text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX {
                violations.push(format!(
                    "{}:{}: a line of more than {COLUMNS_MAX} characters",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn long_and_unexplained_files_are_found() {
        let text = format!("fn f() {{}}\n{}", "\n".repeat(700));
        let tree = Tree { sources: vec![Source { path: "a.rs".into(), text }], files: Vec::new() };
        assert_eq!(super::check(&tree).len(), 2);
    }
}
