//! What the scheduler counts, and how busy it is.

use std::time::Duration;

use crate::sequence::Sequence;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that have begun to run.
    pub n_begun: u64,
    /// Prompt tokens of those.
    pub prefix_query_tokens: u64,
    /// Those among them that were taken over from earlier requests.
    pub prefix_hit_tokens: u64,
    /// Sequences that lost their pages and had to wait again.
    pub n_preemptions: u64,
    /// Steps that some of those that decode were left out of, since fewer at a time are faster.
    pub n_rotated_steps: u64,
    /// Tokens computed in chunks: prompts, and what had to be computed once more.
    pub prefill_tokens: u64,
    /// Tokens chosen.
    pub generated_tokens: u64,
    /// Time that requests waited until they began.
    pub queue_time: Duration,
}

impl Counters {
    /// A request has just begun.
    pub(super) fn begun(&mut self, sequence: &Sequence) {
        let usage = sequence.usage();
        self.n_begun += 1;
        self.prefix_query_tokens += u64::from(usage.prompt_tokens);
        self.prefix_hit_tokens += u64::from(usage.cached_prompt_tokens);
        self.queue_time += sequence.marks.queued().unwrap_or_default();
    }
}

/// How busy an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Sequences that wait: requests in the queue, and those that lost their pages.
    pub n_waiting: usize,
    /// Sequences that run.
    pub n_running: usize,
    /// Pages of the pool.
    pub n_pages: usize,
    /// Pages that nobody holds.
    pub n_free_pages: usize,
    /// Those among them that are kept for later requests.
    pub n_kept_pages: usize,
    /// Pages of the pool of layers with a window; none if they have none of their own.
    pub n_window_pages: usize,
    /// Those among them that nobody holds.
    pub n_free_window_pages: usize,
    /// Slots for snapshots of recurrent state.
    pub n_snapshots: usize,
    /// Those among them that hold one.
    pub n_snapshots_used: usize,
}
