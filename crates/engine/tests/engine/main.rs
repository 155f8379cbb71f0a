//! The engine on the scalar reference, with a tiny random model: what it generates, what it
//! refuses, how it ends, and its thread.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod architectures;
mod formats;
mod generation;
mod golden;
mod probe;
mod refusals;
mod runtime;
mod sharing;
mod structured;
mod tiny;
mod turns;
mod windows;
