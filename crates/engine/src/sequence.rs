//! The state of one request inside the engine: its tokens, how far they are computed, and what is
//! needed to choose the next one.
//!
//! A [`Sequence`] waits; with pages and a slot it is [`Running`]. It can lose them and wait again
//! without losing a token, since keys and values can be computed once more.

use std::time::Instant;

use crate::kv::Allocation;
use crate::request::{FinishReason, Request, RequestId, Usage};
use crate::sampler::{Sampler, SamplingError};
use crate::timings::Marks;

/// A request's tokens and progress.
#[derive(Debug)]
pub struct Sequence {
    /// The request.
    pub id: RequestId,
    /// The prompt and what was generated since.
    pub tokens: Vec<u32>,
    /// Tokens whose keys and values are in the cache.
    pub n_computed: u32,
    /// Chooses the next token.
    pub sampler: Sampler,
    /// When things happened.
    pub marks: Marks,
    /// As in [`Request::logprobs`].
    pub logprobs: Option<u32>,
    /// As in [`Request::echo_logits`].
    pub echo_logits: bool,
    n_prompt: u32,
    tokens_max: u32,
    stop_ids: Vec<u32>,
}

/// A sequence with memory.
#[derive(Debug)]
pub struct Running {
    /// The sequence.
    pub sequence: Sequence,
    /// Its pages and slot.
    pub kv: Allocation,
}

impl Sequence {
    /// A sequence of a prompt that is shorter than the context.
    ///
    /// # Errors
    /// A sampling parameter that makes no sense.
    ///
    /// # Panics
    /// If the prompt fills the context: the caller refuses that.
    pub fn new(id: RequestId, request: Request, bounds: Bounds, now: Instant) -> Result<Sequence, SamplingError> {
        let n_prompt = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        assert!(n_prompt < bounds.context_tokens, "a prompt of {n_prompt} tokens fills the context");
        Ok(Sequence {
            id,
            n_computed: 0,
            sampler: Sampler::new(request.sampling, request.seed, &request.prompt, bounds.n_vocab)?,
            tokens: request.prompt,
            marks: Marks::submitted(now),
            logprobs: request.logprobs,
            echo_logits: request.echo_logits,
            n_prompt,
            tokens_max: n_prompt.saturating_add(request.max_tokens).min(bounds.context_tokens),
            stop_ids: request.stop_ids,
        })
    }

    /// Tokens so far.
    #[must_use]
    pub fn n_tokens(&self) -> u32 {
        u32::try_from(self.tokens.len()).expect("a sequence is no longer than the context")
    }

    /// Tokens that the sequence may come to have.
    #[must_use]
    pub fn tokens_max(&self) -> u32 {
        self.tokens_max
    }

    /// Tokens of the prompt.
    #[must_use]
    pub fn n_prompt(&self) -> u32 {
        self.n_prompt
    }

    /// Tokens generated.
    #[must_use]
    pub fn n_generated(&self) -> u32 {
        self.n_tokens() - self.n_prompt
    }

    /// Tokens that are not computed yet: one while decoding, more during prefill.
    #[must_use]
    pub fn n_pending(&self) -> u32 {
        self.n_tokens() - self.n_computed
    }

    /// Appends a chosen token and says whether it is the last one.
    pub fn accept(&mut self, id: u32, now: Instant) -> Option<FinishReason> {
        self.tokens.push(id);
        self.sampler.accept(id);
        self.marks.token(now);
        if self.stop_ids.contains(&id) {
            return Some(FinishReason::Stop { id });
        }
        (self.n_tokens() >= self.tokens_max).then_some(FinishReason::Length)
    }

    /// What it has cost so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.n_prompt,
            computed_prompt_tokens: self.n_computed.min(self.n_prompt),
            generated_tokens: self.n_generated(),
        }
    }
}

/// What the engine allows every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tokens of a sequence, prompt and answer together.
    pub context_tokens: u32,
    /// Entries of the vocabulary.
    pub n_vocab: u32,
}
