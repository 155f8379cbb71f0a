//! The rules of the tree that the compiler does not check.
//!
//! Every rule is a function from sources to violations and has its own test on a made-up
//! offender; `tests/tidy.rs` runs all of them on the tree.

mod imports;
mod names;
mod ops;
mod sizes;
mod tree;
mod words;

use std::path::Path;

pub use tree::{Source, Tree};

/// A broken rule, as `path:line: message`.
pub type Violation = String;

/// Every violation in the repository at `root`.
///
/// # Errors
/// A file that cannot be read.
pub fn check(root: &Path) -> Result<Vec<Violation>, String> {
    let tree = Tree::read(root)?;
    let rules: [fn(&Tree) -> Vec<Violation>; 6] =
        [sizes::check, imports::check, names::check, ops::check, words::check, tree::check_documents];
    Ok(rules.iter().flat_map(|rule| rule(&tree)).collect())
}

/// Prints the violations; `Err` if there are any.
///
/// # Errors
/// The violations, one a line.
pub fn report(root: &Path) -> Result<(), String> {
    let violations = check(root)?;
    match violations.is_empty() {
        true => Ok(()),
        false => Err(format!("{} rule(s) broken:\n{}", violations.len(), violations.join("\n"))),
    }
}
