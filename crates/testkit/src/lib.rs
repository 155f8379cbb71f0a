//! What tests of several crates share: one sequence through any backend, and the comparison with golden files.
//!
//! Only tests depend on this crate. It holds no expected values of its own; they come from `fixtures/`.

pub mod crowd;
pub mod environment;
mod error;
pub mod golden;
pub mod session;
pub mod synthetic;

pub use crate::error::Error;
