//! Anthropic's API: messages, and the count of their tokens.

pub(crate) mod messages;
mod request;
mod stream;
