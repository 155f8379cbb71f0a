//! The server over loopback: tiny models from `fixtures/tiny`, and one that says what a test tells it to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, missing_docs, reason = "a test has no users")]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "numbers of tests are small")]

mod answers;
mod client;
mod engine_faults;
mod guard;
mod harness;
mod hostile;
mod management;
mod resuming;
mod scripted;
mod streams;
mod thinking_and_tools;
