//! The state of one answer inside the engine: its tokens, how far they are computed, and what is
//! needed to choose the next one.
//!
//! A [`Sequence`] waits; with pages and a slot it is [`Running`]. It can lose them and wait again
//! without losing a token, since keys and values can be computed once more. Further choices of a
//! request begin when its prompt is computed, as copies of the first.

use std::sync::Arc;
use std::time::Instant;

use crate::kv::{Allocation, PAGE_TOKENS, Root};
use crate::request::{FinishReason, PromptCache, Request, RequestId, SequenceId, Usage};
use crate::sampler::{Sampler, SamplingError};
use crate::timings::Marks;

/// An answer's tokens and progress.
#[derive(Debug)]
pub struct Sequence {
    /// Which answer to which request.
    pub id: SequenceId,
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
    /// As in [`Request::deadline`].
    pub deadline: Option<Instant>,
    /// Where its pages may come from and go to.
    pub root: Root,
    /// Choices that begin when the prompt is computed.
    pub(crate) siblings: Vec<u32>,
    /// Tokens that were taken over when it first began; none before that.
    n_cached: Option<u32>,
    /// Prompt tokens that were in the cache at any time.
    n_prompt_computed: u32,
    n_prompt: u32,
    tokens_max: u32,
    stop_ids: Arc<[u32]>,
    /// Ends of messages, rounded down to whole pages, rising; none is 0.
    boundaries: Arc<[u32]>,
}

/// A sequence with memory.
#[derive(Debug)]
pub struct Running {
    /// The sequence.
    pub sequence: Sequence,
    /// Its pages and slot.
    pub kv: Allocation,
    /// Where those that decode take turns, the lowest come first.
    pub(crate) turn: u64,
    /// It decodes and has no part in the step that was chosen last.
    pub(crate) is_left_out: bool,
}

impl Sequence {
    /// The first choice of a request whose prompt is shorter than the context.
    ///
    /// # Errors
    /// A sampling parameter that makes no sense.
    ///
    /// # Panics
    /// If the prompt fills the context: the caller refuses that.
    pub fn new(id: RequestId, request: Request, bounds: Bounds, now: Instant) -> Result<Sequence, SamplingError> {
        let n_prompt = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        assert!(n_prompt < bounds.context_tokens, "a prompt of {n_prompt} tokens fills the context");
        let root = match request.cache {
            PromptCache::Shared => Root::Salted(0),
            PromptCache::Salted(salt) => Root::Salted(salt),
            PromptCache::Off => Root::Request(id.0),
        };
        Ok(Sequence {
            id: SequenceId { request: id, choice: 0 },
            n_computed: 0,
            sampler: Sampler::new(request.sampling, request.seed, &request.prompt, bounds.n_vocab)?,
            tokens: request.prompt,
            marks: Marks::submitted(now),
            logprobs: request.logprobs,
            echo_logits: request.echo_logits,
            deadline: request.deadline,
            root,
            siblings: (1..request.n_choices).collect(),
            n_cached: None,
            n_prompt_computed: 0,
            n_prompt,
            tokens_max: n_prompt.saturating_add(request.max_tokens).min(bounds.context_tokens),
            stop_ids: request.stop_ids.into(),
            boundaries: page_ends(request.boundaries).into(),
        })
    }

    /// Another choice of the same request, which has generated nothing yet.
    pub(crate) fn sibling(&self, choice: u32) -> Sequence {
        Sequence {
            id: SequenceId { choice, ..self.id },
            tokens: self.tokens[..self.n_prompt as usize].to_vec(),
            n_computed: 0,
            sampler: self.sampler.for_choice(choice),
            siblings: Vec::new(),
            stop_ids: Arc::clone(&self.stop_ids),
            boundaries: Arc::clone(&self.boundaries),
            ..*self
        }
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

    /// It has run before.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.n_cached.is_some()
    }

    /// It has pages that hold its first `n_cached` tokens.
    pub(crate) fn begin(&mut self, n_cached: u32, now: Instant) {
        self.marks.start(now);
        self.n_computed = n_cached;
        self.n_cached.get_or_insert(n_cached);
        self.n_prompt_computed = self.n_prompt_computed.max(n_cached.min(self.n_prompt));
    }

    /// The next `n_tokens` tokens are computed. Says whether the prompt has come further than ever before.
    pub(crate) fn advance(&mut self, n_tokens: u32) -> bool {
        self.n_computed += n_tokens;
        let before = self.n_prompt_computed;
        self.n_prompt_computed = before.max(self.n_computed.min(self.n_prompt));
        self.n_prompt_computed > before
    }

    /// The next position after those computed at which recurrent state is worth keeping: a multiple of
    /// `spacing`, the end of a message, the last whole page of the prompt.
    pub(crate) fn next_snapshot(&self, spacing: u32) -> u32 {
        let multiple = (self.n_computed / spacing + 1).saturating_mul(spacing);
        let of_prompt = (self.n_prompt - 1) / PAGE_TOKENS * PAGE_TOKENS;
        let message = self.boundaries.partition_point(|&end| end <= self.n_computed);
        let ends = [Some(of_prompt), self.boundaries.get(message).copied()];
        ends.into_iter().flatten().filter(|&end| end > self.n_computed).fold(multiple, u32::min)
    }

    /// Ends of pages from where other texts may go on: those of messages, and the last of the prompt.
    pub(crate) fn points(&self) -> impl Iterator<Item = u32> + '_ {
        let of_prompt = (self.n_prompt - 1) / PAGE_TOKENS * PAGE_TOKENS;
        self.boundaries.iter().copied().chain([of_prompt])
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
        let cached = self.n_cached.unwrap_or(0).min(self.n_prompt);
        Usage {
            prompt_tokens: self.n_prompt,
            cached_prompt_tokens: cached,
            computed_prompt_tokens: self.n_prompt_computed - cached,
            generated_tokens: self.n_generated(),
        }
    }
}

fn page_ends(mut boundaries: Vec<u32>) -> Vec<u32> {
    boundaries.iter_mut().for_each(|end| *end -= *end % PAGE_TOKENS);
    boundaries.sort_unstable();
    boundaries.dedup();
    boundaries.retain(|&end| end > 0);
    boundaries
}

/// What the engine allows every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tokens of a sequence, prompt and answer together.
    pub context_tokens: u32,
    /// Entries of the vocabulary.
    pub n_vocab: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(request: Request) -> Sequence {
        Sequence::new(RequestId(1), request, Bounds { context_tokens: 1000, n_vocab: 10 }, Instant::now()).unwrap()
    }

    #[test]
    fn snapshots_lie_at_multiples_messages_and_the_end_of_the_prompt() {
        let request = Request { boundaries: vec![100, 3, 40], ..Request::greedy(vec![1; 113], 100) };
        let mut sequence = sequence(request);
        let mut points = Vec::new();
        while points.len() < 6 {
            let next = sequence.next_snapshot(64);
            points.push(next);
            sequence.n_computed = next;
        }
        assert_eq!(points, [32, 64, 96, 112, 128, 192]);
        let mut short = self::sequence(Request::greedy(vec![1; 16], 100));
        assert_eq!(short.next_snapshot(64), 64, "state after the whole prompt cannot serve the same prompt");
        short.n_computed = 64;
        assert_eq!(short.next_snapshot(64), 128);
    }

    #[test]
    fn what_is_computed_again_does_not_count_twice() {
        let mut sequence = sequence(Request::greedy(vec![1; 50], 10));
        sequence.begin(16, Instant::now());
        assert!(sequence.advance(20));
        sequence.begin(0, Instant::now());
        assert!(!sequence.advance(36), "that far it has been before");
        assert!(sequence.advance(14));
        assert!(!sequence.advance(0));
        sequence.tokens.extend([1; 30]);
        sequence.begin(64, Instant::now());
        assert!(!sequence.advance(10), "the answer is not part of the prompt");
        let usage = sequence.usage();
        assert_eq!((usage.cached_prompt_tokens, usage.computed_prompt_tokens), (16, 34));
    }
}
