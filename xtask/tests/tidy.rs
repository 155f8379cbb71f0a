//! The tree keeps its own rules.

use std::path::Path;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let violations = xtask::tidy::check(root).unwrap();
    assert!(violations.is_empty(), "{} rule(s) broken:\n{}", violations.len(), violations.join("\n"));
}
