//! What an engine has done and is doing, as numbers for a metrics page.

use std::time::Duration;

use crate::scheduler::{Counters, Load};

/// A copy of the engine's figures. Sums are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sequences that run.
    pub n_running: u32,
    /// Requests in the queue, and sequences that lost their pages and wait again.
    pub n_waiting: u32,
    /// Pages of the pool.
    pub n_pages: u32,
    /// Pages that sequences hold.
    pub n_pages_held: u32,
    /// Pages that nobody holds and that are kept for later requests.
    pub n_pages_cached: u32,
    /// Pages of the pool of layers that see a window; 0 if they share the others'.
    pub n_window_pages: u32,
    /// Pages of it that sequences hold.
    pub n_window_pages_held: u32,
    /// Slots for snapshots of recurrent state.
    pub n_snapshots: u32,
    /// Those among them that hold one.
    pub n_snapshots_used: u32,
    /// Prompt tokens of requests that began.
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
    /// Steps computed.
    pub n_steps: u64,
    /// Requests taken.
    pub n_requests: u64,
    /// Requests that ended by themselves.
    pub n_done: u64,
    /// Requests that were cancelled or too late.
    pub n_cancelled: u64,
    /// Requests that could not go on.
    pub n_failed: u64,
    /// Requests that made sense and were not taken: the queue was full.
    pub n_refused: u64,
    /// Requests that have begun to run.
    pub n_begun: u64,
    /// Time that those waited until they did.
    pub queue_time: Duration,
    /// Times that a step was submitted while sequences of the step before were running, with a plan that existed.
    pub n_host_gaps: u64,
    /// Time in which the device had nothing to do then: from a step's end, as the host saw it, until the next was submitted.
    pub host_time: Duration,
}

/// How requests ended, counted by the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) n_steps: u64,
    pub(crate) n_requests: u64,
    pub(crate) n_done: u64,
    pub(crate) n_cancelled: u64,
    pub(crate) n_failed: u64,
    pub(crate) n_refused: u64,
    pub(crate) n_host_gaps: u64,
    pub(crate) host_time: Duration,
}

impl Tally {
    pub(crate) fn stats(&self, load: &Load, counters: &Counters) -> Stats {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Stats {
            n_running: count(load.n_running),
            n_waiting: count(load.n_waiting),
            n_pages: count(load.n_pages),
            n_pages_held: count(load.n_pages - load.n_free_pages),
            n_pages_cached: count(load.n_kept_pages),
            n_window_pages: count(load.n_window_pages),
            n_window_pages_held: count(load.n_window_pages - load.n_free_window_pages),
            n_snapshots: count(load.n_snapshots),
            n_snapshots_used: count(load.n_snapshots_used),
            prefix_query_tokens: counters.prefix_query_tokens,
            prefix_hit_tokens: counters.prefix_hit_tokens,
            n_preemptions: counters.n_preemptions,
            n_rotated_steps: counters.n_rotated_steps,
            prefill_tokens: counters.prefill_tokens,
            generated_tokens: counters.generated_tokens,
            n_steps: self.n_steps,
            n_requests: self.n_requests,
            n_done: self.n_done,
            n_cancelled: self.n_cancelled,
            n_failed: self.n_failed,
            n_refused: self.n_refused,
            n_begun: counters.n_begun,
            queue_time: counters.queue_time,
            n_host_gaps: self.n_host_gaps,
            host_time: self.host_time,
        }
    }
}
