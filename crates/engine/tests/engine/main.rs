//! The engine on the scalar reference, with a tiny random model: what it generates, what it
//! refuses, how it ends, and its thread.

mod generation;
mod golden;
mod probe;
mod refusals;
mod runtime;
mod tiny;
