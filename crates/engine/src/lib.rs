//! The inference engine: requests in, tokens out, in token ids.
//!
//! A [`request::Request`] becomes a [`sequence::Sequence`]; the [`scheduler`] chooses which tokens
//! of which sequences the next step computes; [`batch`] lays them out as flat arrays; the
//! [`engine`] hands those to a backend, reads what came out and asks each sequence's [`sampler`]
//! for its next token. The [`runtime`] runs that loop on a thread of its own. Pages of common
//! prefixes are shared ([`kv`]), and an answer can be held to a grammar ([`constraint`]). Text,
//! templates and stop strings belong to the callers. No state outlives or is shared between engines.

#![forbid(unsafe_code)]

pub mod batch;
mod check;
pub mod config;
pub mod constraint;
pub mod engine;
mod error;
mod evaluate;
pub mod fit;
pub mod kv;
mod ledger;
mod output;
pub mod pace;
mod plans;
pub mod profile;
pub mod request;
mod requests;
pub mod runtime;
pub mod sampler;
pub mod scheduler;
pub mod sequence;
#[cfg(test)]
mod simulation;
pub mod stats;
pub mod timings;

pub use config::EngineConfig;
pub use engine::Engine;
pub use error::Error;
pub use request::{Event, Request};
pub use runtime::Runtime;
