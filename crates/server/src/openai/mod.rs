//! OpenAI's API: chat completions, completions, responses, models, embeddings, and the tokens behind them.

pub(crate) mod chat;
mod chat_request;
pub(crate) mod completions;
pub(crate) mod embeddings;
mod message;
pub(crate) mod models;
pub(crate) mod responses;
mod responses_request;
mod responses_stream;
mod sampling;
pub(crate) mod tokens;
mod tools;
mod usage;

pub(crate) use chat_request::EFFORTS;
pub(crate) use sampling::check_stops;
pub(crate) use tools::{check_schema, checked_name};
pub(crate) use usage::ms;

/// What answers name as the system that made them.
const FINGERPRINT: &str = concat!("zinc-", env!("CARGO_PKG_VERSION"));
