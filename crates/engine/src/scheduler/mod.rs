//! Who runs, and how much of it in the next step.
//!
//! First come, first served: sequences wait in one bounded queue in the order of arrival, and the
//! first of it starts as soon as there are a slot and pages for the tokens that it has. Pages for
//! tokens to come are taken as they come; when none are left, the sequence that arrived last loses
//! its own and waits again at its place, to be computed once more. So the first to arrive goes on, in
//! each step or every other, and whoever is before a sequence ends some time: nobody waits for ever.
//!
//! Each step has one budget of tokens. Sequences that decode take one token each, first; what is
//! left goes to prompts in order of arrival, so a long prompt is computed in chunks beside the
//! decodes, and no more of it than the caller allows beside them. Where all decode and fewer at a time
//! were measured to be faster ([`turns`]), they take turns. Nothing here knows a graph or a model:
//! it counts pages and tokens.

mod counters;
mod turns;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use counters::{Counters, Load};

use crate::kv::{Allocation, Kv, KvError, KvLimits, OutOfPages, Pool, Spare, StateCopy, pages_for};
use crate::request::{FinishReason, RequestId, SequenceId};
use crate::sequence::{Running, Sequence};
use turns::Turns;

/// What the scheduler stays inside, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Pages and slots; `n_slots` sequences run at once, at most `step_tokens`.
    pub kv: KvLimits,
    /// Tokens of one step.
    pub step_tokens: u32,
    /// Requests that wait to begin.
    pub queue_max: u32,
    /// Tokens between snapshots of recurrent state, a multiple of a page.
    pub snapshot_tokens: u32,
}

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The sequence.
    pub id: SequenceId,
    /// Its next tokens that are computed.
    pub n_tokens: u32,
    /// They are its last, so that the step chooses a token.
    pub is_output: bool,
}

/// Waiting and running sequences and the memory they share.
#[derive(Debug)]
pub struct Scheduler {
    limits: SchedulerLimits,
    pub(crate) kv: Kv,
    /// In the order of arrival.
    pub(crate) waiting: VecDeque<Sequence>,
    /// In the order of arrival.
    pub(crate) running: Vec<Running>,
    /// Waiting requests that have not begun.
    n_queued: usize,
    turns: Turns,
    /// The next [`Running::turn`].
    next_turn: u64,
    counters: Counters,
}

impl Scheduler {
    /// A scheduler with nothing to do.
    ///
    /// # Panics
    /// If more sequences may decode than a step has tokens, or snapshots do not lie at the ends of pages.
    #[must_use]
    pub fn new(limits: SchedulerLimits) -> Scheduler {
        assert!(limits.kv.n_slots <= limits.step_tokens, "every running sequence must fit into one step");
        assert!(limits.snapshot_tokens > 0 && limits.snapshot_tokens.is_multiple_of(crate::kv::PAGE_TOKENS));
        Scheduler {
            limits,
            kv: Kv::new(limits.kv),
            waiting: VecDeque::new(),
            running: Vec::new(),
            n_queued: 0,
            turns: Turns::new(limits.kv.n_slots),
            next_turn: 0,
            counters: Counters::default(),
        }
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
        if self.n_queued >= self.limits.queue_max as usize {
            return Err(Refusal::QueueFull { queue_max: self.limits.queue_max });
        }
        self.wait(sequence);
        Ok(())
    }

    /// Starts what can start and chooses the next step; empty when nothing runs. While sequences decode, prompts get
    /// no more than `prefill_tokens` of it.
    ///
    /// # Panics
    /// If memory is held by nobody, which would be a fault of the scheduler or an unreleased
    /// [`Scheduler::claim`].
    pub fn schedule(&mut self, now: Instant, prefill_tokens: u32) -> Vec<Chunk> {
        self.admit(now);
        self.take_turns();
        let mut chunks = self.decodes();
        let n_decodes = u32::try_from(chunks.len()).expect("no more run than there are slots");
        let left = self.limits.step_tokens - n_decodes;
        let mut budget = if n_decodes > 0 { left.min(prefill_tokens.max(1)) } else { left };
        for index in 0..self.running.len() {
            let n_pending = self.running[index].sequence.n_pending();
            if n_pending > 1 && budget > 0 {
                let n_tokens = self.reach(index, n_pending.min(budget));
                budget -= n_tokens;
                let id = self.running[index].sequence.id;
                let chunk = Chunk { id, n_tokens, is_output: n_tokens == n_pending };
                chunks.extend((n_tokens > 0).then_some(chunk));
            }
        }
        chunks
    }

    /// Says who is left out of this step so that the others are faster: nobody unless all decode, and nobody twice in a row.
    fn take_turns(&mut self) {
        let n = self.running.len();
        let n_left_out = self.running.iter().filter(|running| running.is_left_out).count();
        self.running.iter_mut().for_each(|running| running.is_left_out = false);
        if !self.running.iter().all(|running| running.sequence.n_pending() == 1) {
            return;
        }
        let n_decodes = self.turns.n_decodes(n);
        // Fewer may be chosen than were left out of the last step if others have ended since.
        if n_decodes == n || n_decodes < n_left_out {
            return;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&index| self.running[index].turn);
        for &index in &order[..n_decodes] {
            self.running[index].turn = self.next_turn;
            self.next_turn += 1;
        }
        for &index in &order[n_decodes..] {
            self.running[index].is_left_out = true;
        }
        self.counters.n_rotated_steps += 1;
    }

    /// A token for each that decodes and is not left out, in order of arrival, with room for it.
    fn decodes(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::with_capacity(self.running.len());
        let mut index = 0;
        while index < self.running.len() {
            let Running { sequence, is_left_out, .. } = &self.running[index];
            let (id, is_decode) = (sequence.id, sequence.n_pending() == 1);
            // The first goes on, be it by a token, unless it is not its turn.
            let has_room = !is_left_out && (is_decode || index == 0) && self.make_room(index);
            if is_decode && has_room {
                chunks.push(Chunk { id, n_tokens: 1, is_output: true });
            }
            index += 1;
        }
        chunks
    }

    /// A step of these chunks took that long, from when they were chosen until the tokens that it gave were.
    pub fn observe(&mut self, chunks: &[Chunk], took: Duration) {
        if !chunks.is_empty() && chunks.iter().all(|chunk| chunk.n_tokens == 1 && chunk.is_output) {
            self.turns.observe(chunks.len(), took);
        }
    }

    /// How many of its next `n_tokens` tokens a running sequence can compute in one step; those have room then.
    fn reach(&mut self, index: usize, n_tokens: u32) -> u32 {
        let n_tokens = self.up_to_snapshot(&self.running[index].sequence, n_tokens);
        // So that others do not lose what they have in the next step.
        let of_others = self.n_growing() - u32::from(self.kv.is_window_growing(&self.running[index].kv));
        let Running { sequence, kv, .. } = &mut self.running[index];
        self.kv.reach(kv, sequence.n_computed + n_tokens, of_others).saturating_sub(sequence.n_computed)
    }

    /// Running sequences that will need more pages for their windows than they have.
    fn n_growing(&self) -> u32 {
        if self.limits.kv.window.is_none() {
            return 0;
        }
        let growing = self.running.iter().filter(|running| self.kv.is_window_growing(&running.kv));
        u32::try_from(growing.count()).expect("no more run than there are slots")
    }

    /// Whoever came first starts first: when the first of the queue has to wait, so do the others.
    fn admit(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front() {
            // A page for each that may need one, so that those that run do not lose what they have in the next steps.
            let may_grow = |running: &&Running| running.kv.table.n_missing(running.sequence.tokens_max()) > 0;
            let n_pages = self.running.iter().filter(may_grow).count();
            let n_pages = u32::try_from(n_pages).expect("no more run than there are slots");
            let spare = Spare { n_pages, n_window_pages: self.n_growing() };
            let Ok((mut kv, n_cached)) = self.kv.admit(&first.tokens, first.root, spare) else {
                // Otherwise it would wait for ever: nobody is left who could free anything.
                assert!(
                    !self.running.is_empty(),
                    "pages or slots are lost: nothing runs and {} does not fit",
                    first.id
                );
                return;
            };
            if let Some(mut sequence) = self.waiting.pop_front() {
                Kv::add_points(&mut kv, sequence.points());
                let is_new = !sequence.has_begun();
                sequence.begin(n_cached, now);
                if is_new {
                    self.n_queued -= 1;
                    self.counters.begun(&sequence);
                }
                let index = self.running.partition_point(|r| r.sequence.id < sequence.id);
                self.running.insert(index, Running { sequence, kv, turn: self.next_turn, is_left_out: false });
                self.next_turn += 1;
            }
        }
    }

    /// A page for the next token of a running sequence, from those that arrived after it if need be. False if it
    /// had to give up its own.
    fn make_room(&mut self, index: usize) -> bool {
        loop {
            let Running { sequence, kv, .. } = &mut self.running[index];
            if self.kv.grow(kv, sequence.n_computed + 1).is_ok() {
                return true;
            }
            let newest = self.running.len() - 1;
            assert!(newest > 0, "pages are lost: one sequence alone does not fit");
            self.preempt(newest);
            if newest == index {
                return false;
            }
        }
    }

    fn preempt(&mut self, index: usize) {
        let Running { mut sequence, kv, .. } = self.running.remove(index);
        self.kv.release(kv);
        sequence.n_computed = 0;
        self.counters.n_preemptions += 1;
        self.wait(sequence);
    }

    /// Cuts a chunk where the recurrent state is to be kept.
    fn up_to_snapshot(&self, sequence: &Sequence, n_tokens: u32) -> u32 {
        if self.limits.kv.n_snapshots == 0 {
            return n_tokens;
        }
        n_tokens.min(sequence.next_snapshot(self.limits.snapshot_tokens) - sequence.n_computed)
    }

    fn wait(&mut self, sequence: Sequence) {
        self.n_queued += usize::from(!sequence.has_begun());
        let index = self.waiting.partition_point(|s| s.id < sequence.id);
        self.waiting.insert(index, sequence);
    }

    /// A chunk of the last step is computed. Says whether more of the prompt is computed than ever before; nothing if
    /// the sequence does not run any more.
    pub fn complete(&mut self, chunk: &Chunk) -> Option<bool> {
        let index = self.index_of(chunk.id)?;
        let Running { sequence, kv, .. } = &mut self.running[index];
        let end = sequence.n_computed + chunk.n_tokens;
        let snapshot = self.limits.kv.n_snapshots > 0 && end == sequence.next_snapshot(self.limits.snapshot_tokens);
        if sequence.n_pending() > 1 {
            self.counters.prefill_tokens += u64::from(chunk.n_tokens);
        }
        let is_news = sequence.advance(chunk.n_tokens);
        self.kv.computed(kv, &sequence.tokens, end, snapshot);
        if chunk.is_output && !sequence.siblings.is_empty() {
            let choices = std::mem::take(&mut sequence.siblings);
            let siblings: Vec<Sequence> = choices.into_iter().map(|choice| sequence.sibling(choice)).collect();
            siblings.into_iter().for_each(|sibling| self.wait(sibling));
        }
        Some(is_news)
    }

    /// Gives a running sequence the token that was chosen for it and says whether it is the last one.
    ///
    /// # Panics
    /// If the sequence does not run.
    pub fn accept(&mut self, id: SequenceId, token: u32, now: Instant) -> Option<FinishReason> {
        self.counters.generated_tokens += 1;
        self.sequence_mut(id).expect("only running sequences get tokens").accept(token, now)
    }

    /// A running sequence.
    #[must_use]
    pub fn running(&self, id: SequenceId) -> Option<&Running> {
        self.index_of(id).map(|index| &self.running[index])
    }

    /// A running sequence, to be advanced.
    pub fn sequence_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        self.index_of(id).map(|index| &mut self.running[index].sequence)
    }

    fn index_of(&self, id: SequenceId) -> Option<usize> {
        self.running.binary_search_by_key(&id, |r| r.sequence.id).ok()
    }

    /// Takes a sequence out, wherever it is, and frees what it held. Choices that waited for its prompt stay.
    pub fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        let mut sequence = self.take(id)?;
        let mut siblings = std::mem::take(&mut sequence.siblings);
        if !siblings.is_empty() {
            let mut next = sequence.sibling(siblings.remove(0));
            next.siblings = siblings;
            self.wait(next);
        }
        Some(sequence)
    }

    /// Takes all sequences of a request out.
    pub fn remove_request(&mut self, id: RequestId) -> Vec<Sequence> {
        let running = self.running.iter().map(|r| r.sequence.id);
        let ids: Vec<SequenceId> =
            running.chain(self.waiting.iter().map(|s| s.id)).filter(|s| s.request == id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Takes out a choice that waits for the prompt of its request. Says whether there was one.
    pub fn remove_sibling(&mut self, id: SequenceId) -> bool {
        let running = self.running.iter_mut().map(|r| &mut r.sequence);
        let mut of_request = running.chain(&mut self.waiting).filter(|s| s.id.request == id.request);
        of_request.any(|s| {
            let before = s.siblings.len();
            s.siblings.retain(|&choice| choice != id.choice);
            s.siblings.len() < before
        })
    }

    fn take(&mut self, id: SequenceId) -> Option<Sequence> {
        if let Some(index) = self.index_of(id) {
            let Running { sequence, kv, .. } = self.running.remove(index);
            self.kv.release(kv);
            return Some(sequence);
        }
        let index = self.waiting.binary_search_by_key(&id, |s| s.id).ok()?;
        let sequence = self.waiting.remove(index)?;
        self.n_queued -= usize::from(!sequence.has_begun());
        Some(sequence)
    }

    /// Takes every sequence out.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.n_queued = 0;
        for Running { kv, .. } in self.running.drain(..) {
            self.kv.release(kv);
        }
    }

    /// Requests whose deadline has passed.
    #[must_use]
    pub fn expired(&self, now: Instant) -> Vec<RequestId> {
        let sequences = self.running.iter().map(|r| &r.sequence).chain(&self.waiting);
        let late = sequences.filter(|s| s.deadline.is_some_and(|deadline| deadline <= now));
        let mut ids: Vec<RequestId> = late.map(|s| s.id.request).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Requests that have not begun, and how many sequences wait before each.
    pub fn queue(&self) -> impl Iterator<Item = (RequestId, u32)> + '_ {
        (0..).zip(&self.waiting).filter(|(_, s)| !s.has_begun()).map(|(ahead, s)| (s.id.request, ahead))
    }

    /// Memory for tokens that belong to no request, of which at most `step_tokens` are computed in a step.
    ///
    /// # Errors
    /// There is not enough beside the running sequences.
    pub fn claim(&mut self, n_tokens: u32, step_tokens: u32) -> Result<Allocation, KvError> {
        self.kv.claim(n_tokens, step_tokens)
    }

    /// Room for the next tokens of what was claimed, up to `n_tokens` in all.
    ///
    /// # Panics
    /// If others have taken pages since, or more tokens are asked for than were claimed for a step.
    pub fn grow_claimed(&mut self, allocation: &mut Allocation, n_tokens: u32) {
        self.kv.grow(allocation, n_tokens).expect("a claim holds what its next step needs");
    }

    /// The next token of what was claimed is at `position`.
    pub fn advance_claimed(&mut self, allocation: &mut Allocation, position: u32) {
        self.kv.advance(allocation, position);
    }

    /// Takes back what [`Scheduler::claim`] gave.
    pub fn release(&mut self, allocation: Allocation) {
        self.kv.release(allocation);
    }

    /// Copies of recurrent state to be carried out, in this order, before anything is computed.
    pub fn take_copies(&mut self) -> Vec<StateCopy> {
        self.kv.take_copies()
    }

    /// Nothing waits and nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is used of the limits.
    #[must_use]
    pub fn load(&self) -> Load {
        let (pool, windows) = (self.kv.pool(), self.kv.window_pool());
        let (n_snapshots_used, n_snapshots) = self.kv.n_snapshots();
        Load {
            n_waiting: self.waiting.len(),
            n_running: self.running.len(),
            n_pages: pool.n_pages(),
            n_free_pages: pool.n_free(),
            n_kept_pages: pool.n_kept(),
            n_window_pages: windows.map_or(0, Pool::n_pages),
            n_free_window_pages: windows.map_or(0, Pool::n_free),
            n_snapshots,
            n_snapshots_used,
        }
    }
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
mod tests;
