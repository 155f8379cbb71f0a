//! Who runs, and how much of it in the next step.
//!
//! First come, first served: requests wait in one bounded queue, and the first of it starts as soon
//! as there are a slot and pages for the longest it may become, so that a running sequence never
//! lacks a page. Each step has one budget of tokens. Sequences that decode take one token each,
//! first; what is left goes to prompts in order of arrival, so a long prompt is computed in chunks
//! beside the decodes. Nothing here knows a graph or a model: it counts pages and tokens.

use std::collections::VecDeque;
use std::time::Instant;

use crate::kv::{Allocation, Kv, KvError, OutOfPages, pages_for};
use crate::request::RequestId;
use crate::sequence::{Running, Sequence};

/// What the scheduler stays inside, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Pages of the pool.
    pub n_pages: u32,
    /// Sequences that run at once; at most `step_tokens`.
    pub sequences_max: u32,
    /// Tokens of one step.
    pub step_tokens: u32,
    /// Requests that wait.
    pub queue_max: u32,
}

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The sequence.
    pub id: RequestId,
    /// Its next tokens that are computed.
    pub n_tokens: u32,
    /// They are its last, so that the step chooses a token.
    pub is_output: bool,
}

/// Waiting and running sequences and the memory they share.
#[derive(Debug)]
pub struct Scheduler {
    limits: SchedulerLimits,
    kv: Kv,
    waiting: VecDeque<Sequence>,
    /// In the order in which they began.
    running: Vec<Running>,
}

impl Scheduler {
    /// A scheduler with nothing to do.
    ///
    /// # Panics
    /// If more sequences may decode than a step has tokens.
    #[must_use]
    pub fn new(limits: SchedulerLimits) -> Scheduler {
        assert!(limits.sequences_max <= limits.step_tokens, "every running sequence must fit into one step");
        let kv = Kv::new(limits.n_pages, limits.sequences_max);
        Scheduler { limits, kv, waiting: VecDeque::new(), running: Vec::new() }
    }

    /// Puts a sequence at the end of the queue.
    ///
    /// # Errors
    /// The queue is full, or the sequence could never have its pages.
    pub fn submit(&mut self, sequence: Sequence) -> Result<(), Refusal> {
        let n_pages = self.kv.pool().n_pages();
        let needed = pages_for(sequence.tokens_max()) as usize;
        if needed > n_pages {
            return Err(Refusal::NeverFits(OutOfPages { needed, free: n_pages, n_pages }));
        }
        if self.waiting.len() >= self.limits.queue_max as usize {
            return Err(Refusal::QueueFull { queue_max: self.limits.queue_max });
        }
        self.waiting.push_back(sequence);
        Ok(())
    }

    /// Starts what can start and chooses the next step; empty when nothing runs.
    ///
    /// # Panics
    /// If memory is held by nobody, which would be a fault of the scheduler or an unreleased
    /// [`Scheduler::claim`].
    pub fn schedule(&mut self, now: Instant) -> Vec<Chunk> {
        self.admit(now);
        let mut chunks = Vec::with_capacity(self.running.len());
        let mut budget = self.limits.step_tokens;
        let (decoding, prefilling): (Vec<_>, Vec<_>) =
            self.running.iter().map(|r| &r.sequence).partition(|s| s.n_pending() == 1);
        for sequence in decoding.into_iter().chain(prefilling) {
            let n_tokens = sequence.n_pending().min(budget);
            if n_tokens == 0 {
                break;
            }
            budget -= n_tokens;
            chunks.push(Chunk { id: sequence.id, n_tokens, is_output: n_tokens == sequence.n_pending() });
        }
        chunks
    }

    /// Whoever came first starts first: when the first of the queue has to wait, so do the others.
    fn admit(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front() {
            let Ok(kv) = self.kv.claim(first.tokens_max()) else {
                // Otherwise it would wait for ever: nobody is left who could free anything.
                assert!(
                    !self.running.is_empty(),
                    "pages or slots are lost: nothing runs and {} does not fit",
                    first.id
                );
                return;
            };
            if let Some(mut sequence) = self.waiting.pop_front() {
                sequence.marks.start(now);
                self.running.push(Running { sequence, kv });
            }
        }
    }

    /// A running sequence.
    #[must_use]
    pub fn running(&self, id: RequestId) -> Option<&Running> {
        self.running.iter().find(|r| r.sequence.id == id)
    }

    /// A running sequence, to be advanced.
    pub fn sequence_mut(&mut self, id: RequestId) -> Option<&mut Sequence> {
        self.running.iter_mut().map(|r| &mut r.sequence).find(|s| s.id == id)
    }

    /// Takes a sequence out, wherever it is, and frees what it held.
    pub fn remove(&mut self, id: RequestId) -> Option<Sequence> {
        if let Some(index) = self.running.iter().position(|r| r.sequence.id == id) {
            let Running { sequence, kv } = self.running.remove(index);
            self.kv.release(kv);
            return Some(sequence);
        }
        let index = self.waiting.iter().position(|s| s.id == id)?;
        self.waiting.remove(index)
    }

    /// Takes every sequence out.
    pub fn clear(&mut self) {
        self.waiting.clear();
        for Running { kv, .. } in self.running.drain(..) {
            self.kv.release(kv);
        }
    }

    /// Memory for tokens that belong to no request.
    ///
    /// # Errors
    /// There is not enough beside the running sequences.
    pub fn claim(&mut self, n_tokens: u32) -> Result<Allocation, KvError> {
        self.kv.claim(n_tokens)
    }

    /// Takes back what [`Scheduler::claim`] gave.
    pub fn release(&mut self, allocation: Allocation) {
        self.kv.release(allocation);
    }

    /// Nothing waits and nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// What is used of the limits.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            n_waiting: self.waiting.len(),
            n_running: self.running.len(),
            n_pages: self.kv.pool().n_pages(),
            n_free_pages: self.kv.pool().n_free(),
        }
    }
}

/// How busy an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests in the queue.
    pub n_waiting: usize,
    /// Sequences that run.
    pub n_running: usize,
    /// Pages of the pool.
    pub n_pages: usize,
    /// Pages that nobody holds.
    pub n_free_pages: usize,
}

/// Why a sequence is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many wait already; later there may be room.
    #[error("{queue_max} requests are waiting already, no more are taken")]
    QueueFull {
        /// The most that may wait.
        queue_max: u32,
    },
    /// Even alone it would not fit.
    #[error("the request can never run: {0}")]
    NeverFits(OutOfPages),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use crate::sampler::Sampling;
    use crate::sequence::Bounds;

    const LIMITS: SchedulerLimits = SchedulerLimits { n_pages: 8, sequences_max: 3, step_tokens: 32, queue_max: 4 };

    fn sequence(id: u64, n_prompt: usize, max_tokens: u32) -> Sequence {
        let request = Request {
            prompt: vec![1; n_prompt],
            max_tokens,
            sampling: Sampling::greedy(),
            seed: 0,
            stop_ids: vec![],
            logprobs: None,
            echo_logits: false,
        };
        let bounds = Bounds { context_tokens: 1000, n_vocab: 10 };
        Sequence::new(RequestId(id), request, bounds, Instant::now()).unwrap()
    }

    /// One step: ids and tokens of the chunks; computes them and gives every output a token.
    fn step(scheduler: &mut Scheduler) -> Vec<(u64, u32)> {
        let now = Instant::now();
        let chunks = scheduler.schedule(now);
        for chunk in &chunks {
            let sequence = scheduler.sequence_mut(chunk.id).unwrap();
            sequence.n_computed += chunk.n_tokens;
            let finished = chunk.is_output && sequence.accept(1, now).is_some();
            if finished {
                scheduler.remove(chunk.id);
            }
        }
        chunks.iter().map(|c| (c.id.0, c.n_tokens)).collect()
    }

    #[test]
    fn decodes_go_first_and_prompts_share_the_rest_in_order_of_arrival() {
        let mut scheduler = Scheduler::new(LIMITS);
        scheduler.submit(sequence(0, 5, 3)).unwrap();
        assert_eq!(step(&mut scheduler), [(0, 5)]);
        scheduler.submit(sequence(1, 40, 2)).unwrap();
        scheduler.submit(sequence(2, 4, 1)).unwrap();
        assert_eq!(step(&mut scheduler), [(0, 1), (1, 31)]);
        assert_eq!(step(&mut scheduler), [(0, 1), (1, 9), (2, 4)]);
        assert_eq!(step(&mut scheduler), [(1, 1)]);
        assert!(scheduler.is_idle());
        assert_eq!(step(&mut scheduler), []);
    }

    #[test]
    fn the_first_of_the_queue_is_not_overtaken_by_a_smaller_one() {
        let mut scheduler = Scheduler::new(LIMITS);
        scheduler.submit(sequence(0, 60, 20)).unwrap(); // 5 of 8 pages
        scheduler.submit(sequence(1, 60, 4)).unwrap(); // 4 pages: has to wait
        scheduler.submit(sequence(2, 1, 1)).unwrap(); // would fit
        scheduler.schedule(Instant::now());
        assert_eq!(scheduler.load(), Load { n_waiting: 2, n_running: 1, n_pages: 8, n_free_pages: 3 });
        scheduler.remove(RequestId(0)).unwrap();
        scheduler.schedule(Instant::now());
        assert_eq!(scheduler.load(), Load { n_waiting: 0, n_running: 2, n_pages: 8, n_free_pages: 3 });
    }

    #[test]
    fn no_more_run_than_there_are_slots() {
        let mut scheduler = Scheduler::new(LIMITS);
        for id in 0..4 {
            scheduler.submit(sequence(id, 1, 1)).unwrap();
        }
        scheduler.schedule(Instant::now());
        assert_eq!((scheduler.load().n_running, scheduler.load().n_waiting), (3, 1));
    }

    #[test]
    fn a_full_queue_and_an_impossible_request_are_refused() {
        let mut scheduler = Scheduler::new(LIMITS);
        let refused = scheduler.submit(sequence(0, 100, 29)).unwrap_err();
        assert_eq!(refused, Refusal::NeverFits(OutOfPages { needed: 9, free: 8, n_pages: 8 }));
        for id in 0..4 {
            scheduler.submit(sequence(id, 100, 28)).unwrap();
        }
        assert_eq!(scheduler.submit(sequence(4, 1, 1)), Err(Refusal::QueueFull { queue_max: 4 }));
    }

    #[test]
    fn removing_frees_everything_at_any_point() {
        let mut scheduler = Scheduler::new(LIMITS);
        for id in 0..3 {
            scheduler.submit(sequence(id, 50, 10)).unwrap();
        }
        step(&mut scheduler); // 0 is in the middle of its prompt, 2 waits
        for id in [2, 0, 1] {
            assert_eq!(scheduler.remove(RequestId(id)).unwrap().id, RequestId(id));
            assert!(scheduler.remove(RequestId(id)).is_none());
        }
        assert_eq!(scheduler.load(), Load { n_waiting: 0, n_running: 0, n_pages: 8, n_free_pages: 8 });
    }
}
