//! What a client asks for and what it is told: requests and events, in token ids.
//!
//! Text does not exist here. Who knows stop strings watches the text and cancels.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::sampler::Sampling;
use crate::timings::Timings;

/// Most top log probabilities that a request may ask for at each token.
pub const TOP_LOGPROBS_MAX: u32 = 100;

/// A request's name for as long as its engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// Gives out the ids of one engine; clones share one count.
#[derive(Clone, Debug, Default)]
pub struct RequestIds(Arc<AtomicU64>);

impl RequestIds {
    /// An id that was not given out before.
    #[must_use]
    pub fn next(&self) -> RequestId {
        RequestId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A prompt to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most, at least one. The context may end a request earlier.
    pub max_tokens: u32,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Token `i` of this request depends on the seed, `i` and the logits, and on nothing else.
    pub seed: u64,
    /// Ids that end the request: the model's end of generation, unless the client ignores it.
    pub stop_ids: Vec<u32>,
    /// `Some(n)`: log probabilities of each token and of the `n` likeliest beside it.
    pub logprobs: Option<u32>,
    /// Send the whole row of logits with each token, as the model gave it: for tools.
    pub echo_logits: bool,
}

/// What happens to a request: any number of `Prefill`, then of `Token`, then one `Done`.
#[derive(Clone, Debug)]
pub enum Event {
    /// Part of the prompt was computed.
    Prefill {
        /// Prompt tokens computed so far.
        computed: u32,
        /// Prompt tokens.
        total: u32,
    },
    /// One token more.
    Token(Token),
    /// The last event.
    Done(Done),
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its log probability under the model, before bias, penalties, filters and temperature;
    /// only if the request asked.
    pub logprob: Option<f32>,
    /// The likeliest ids and their log probabilities, likeliest first.
    pub top: Vec<Logprob>,
    /// The row that the token was chosen from, `[n_vocab]`; only if the request asked.
    pub logits: Option<Box<[f32]>>,
}

/// An id and its log probability (natural).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Done {
    /// Why.
    pub reason: FinishReason,
    /// What was computed.
    pub usage: Usage,
    /// How long it took.
    pub timings: Timings,
}

/// Why a request ended.
#[derive(Clone, Debug)]
pub enum FinishReason {
    /// The model chose one of the stop ids; no `Token` event tells of it.
    Stop {
        /// Which.
        id: u32,
    },
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// The client cancelled.
    Cancelled,
    /// It could not go on, or was refused.
    Error(Arc<Error>),
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were computed before the request ended.
    pub computed_prompt_tokens: u32,
    /// Tokens chosen, a stop id included.
    pub generated_tokens: u32,
}
