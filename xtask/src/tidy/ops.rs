//! One stem everywhere: every op has its file, its row in `docs/ops.md` and its cases.

use super::{Tree, Violation};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let rows = tree.text("docs/ops.md").unwrap_or_default();
    for source in tree.rust().filter(|s| s.path.starts_with("crates/graph/src/ops/")) {
        let stem = source.path.trim_start_matches("crates/graph/src/ops/").trim_end_matches(".rs");
        if stem == "mod" {
            continue;
        }
        if !rows.contains(&format!("| `{stem}` |")) {
            violations.push(format!("docs/ops.md: no row for `{stem}`"));
        }
        if !source.text.contains("pub(super) fn cases()") {
            violations.push(format!("{}: an op without cases does not exist", source.path));
        }
        if !source.text.contains("fn reference") {
            violations.push(format!("{}: an op without a reference does not exist", source.path));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::{Source, Tree};

    #[test]
    fn an_op_without_row_cases_and_reference_is_found() {
        let source = Source { path: "crates/graph/src/ops/new.rs".into(), text: "//! x".into() };
        assert_eq!(super::check(&Tree { sources: vec![source], files: Vec::new() }).len(), 3);
    }
}
