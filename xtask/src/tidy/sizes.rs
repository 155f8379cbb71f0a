//! Files stay small, and each says what it is.

use super::{Source, Tree, Violation};

/// Lines of a Rust file.
const LINES_MAX: usize = 700;
/// Lines of a script or style sheet of the chat page.
const PAGE_LINES_MAX: usize = 300;
/// Characters of a line.
const COLUMNS_MAX: usize = 180;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.rust() {
        check_size(source, LINES_MAX, &mut violations);
        if !source.text.starts_with("//!") && !source.text.starts_with("#!") {
            violations.push(format!("{}:1: begins without `//!` that says what it is", source.path));
        }
    }
    for source in tree.page() {
        check_size(source, PAGE_LINES_MAX, &mut violations);
        if !source.text.starts_with("// ") && !source.text.starts_with("/* ") {
            violations.push(format!("{}:1: begins without a comment that says what it is", source.path));
        }
    }
    violations
}

fn check_size(source: &Source, lines_max: usize, violations: &mut Vec<Violation>) {
    let n_lines = source.text.lines().count();
    if n_lines > lines_max {
        violations.push(format!("{}: {n_lines} lines, more than {lines_max}; split it by noun", source.path));
    }
    for (number, line) in source.text.lines().enumerate() {
        if line.chars().count() > COLUMNS_MAX {
            let place = format!("{}:{}", source.path, number + 1);
            violations.push(format!("{place}: a line of more than {COLUMNS_MAX} characters"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn the_page_is_held_to_the_same_but_not_what_is_vendored() {
        let text = "x();\n".repeat(301);
        let source = |path: &str| Source { path: path.into(), text: text.clone() };
        let sources = vec![source("crates/server/page/js/a.js"), source("crates/server/page/vendor/b.js")];
        let found = super::check(&Tree { sources, files: Vec::new() });
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|violation| violation.contains("a.js")));
    }

    #[test]
    fn long_and_unexplained_files_are_found() {
        let text = format!("fn f() {{}}\n{}", "\n".repeat(700));
        let tree = Tree { sources: vec![Source { path: "a.rs".into(), text }], files: Vec::new() };
        assert_eq!(super::check(&tree).len(), 2);
    }
}
