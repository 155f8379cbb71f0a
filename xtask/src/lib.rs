//! The checks of the tree, as a library so that they are tests too.

pub mod tidy;
