//! Chat templates against what transformers renders, against conversations that try to speak for others, and against
//! templates that try to take the machine with them.

#![allow(clippy::unwrap_used, reason = "a test fails where its fixture is broken")]

mod attacks;
mod files;
mod forms;
mod hostile;
mod rendered;
mod support;
