//! What a client asks for and what it is told: requests and events, in token ids.
//!
//! Text does not exist here. Who knows stop strings watches the text and cancels.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::constraint::Constraint;
use crate::error::Error;
use crate::sampler::Sampling;
use crate::timings::Timings;

/// Most top log probabilities that a request may ask for at each token.
pub const TOP_LOGPROBS_MAX: u32 = 100;
/// Most answers to one prompt.
pub const CHOICES_MAX: u32 = 128;

/// A request's name for as long as its engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// One answer to a request. Sorted, they are in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId {
    /// The request.
    pub request: RequestId,
    /// Which of its choices.
    pub choice: u32,
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, choice {}", self.request, self.choice)
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
    /// Answers wanted, at least one. They share the pages of the prompt, and each draws from numbers of its own.
    pub n_choices: u32,
    /// What every answer has to match.
    pub constraint: Option<Constraint>,
    /// The request ends then, wherever it is.
    pub deadline: Option<Instant>,
    /// With whom computed pages are shared.
    pub cache: PromptCache,
    /// Positions of the prompt at which messages end, in any order. A model with recurrent state keeps a
    /// snapshot there, so that a conversation that is the same up to it need not be computed again.
    pub boundaries: Vec<u32>,
}

impl Request {
    /// One answer of the likeliest tokens, without stop ids: what other requests are made from with `..`.
    #[must_use]
    pub fn greedy(prompt: Vec<u32>, max_tokens: u32) -> Request {
        Request {
            prompt,
            max_tokens,
            sampling: Sampling::greedy(),
            seed: 0,
            stop_ids: Vec::new(),
            logprobs: None,
            echo_logits: false,
            n_choices: 1,
            constraint: None,
            deadline: None,
            cache: PromptCache::Shared,
            boundaries: Vec::new(),
        }
    }
}

/// With whom the pages of a request are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptCache {
    /// With every other request that says so.
    Shared,
    /// With requests that give the same number. Times then tell nobody else what was asked.
    Salted(u64),
    /// With no other request.
    Off,
}

/// What happens to a request: any number of `Queued` and of `Prefill`, then `Token` and `ChoiceDone` of all its
/// choices, then one `Done`.
#[derive(Clone, Debug)]
pub enum Event {
    /// It has to wait; told when it is submitted and whenever the number changes.
    Queued {
        /// Requests and interrupted sequences that are before it.
        ahead: u32,
    },
    /// Part of the prompt was computed.
    Prefill {
        /// Prompt tokens that need not be computed any more, `cached` among them.
        computed: u32,
        /// Prompt tokens that were taken over from earlier requests.
        cached: u32,
        /// Prompt tokens.
        total: u32,
    },
    /// One token more.
    Token(Token),
    /// A choice ended by itself or was cancelled alone. Not told of choices that end with the whole request.
    ChoiceDone {
        /// Which.
        choice: u32,
        /// Why.
        reason: FinishReason,
    },
    /// The last event.
    Done(Done),
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The answer it belongs to, below [`Request::n_choices`].
    pub choice: u32,
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
    /// Why: the reason of the choice that ended last, or of the whole request.
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
    /// The answer is complete: its constraint allows nothing more.
    Grammar,
    /// The client cancelled.
    Cancelled,
    /// The deadline has passed.
    Deadline,
    /// It could not go on, or was refused.
    Error(Arc<Error>),
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were taken over from earlier requests.
    pub cached_prompt_tokens: u32,
    /// Prompt tokens that were computed before the request ended. What an interruption made necessary once more
    /// does not count.
    pub computed_prompt_tokens: u32,
    /// Tokens chosen for all choices, stop ids included.
    pub generated_tokens: u32,
}
