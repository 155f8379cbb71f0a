//! From what a client asks to a stream of pieces: prompt, request to the engine, text, thinking, calls.
//!
//! The three APIs make an [`Ask`] of their requests; [`prepare`] makes a [`Plan`] of it for one model; a [`Generation`]
//! carries it out. What is built here knows nothing of HTTP and of the shapes of answers.

mod ask;
mod choice;
mod forced;
mod generation;
mod prepare;

pub(crate) use ask::{Ask, Format, Prompt, SamplingChoice, Thinking, ToolChoice};
pub(crate) use choice::{Finish, TokenLogprob};
pub(crate) use generation::{Generation, Piece, Summary};
pub(crate) use prepare::{prepare, request_id};
