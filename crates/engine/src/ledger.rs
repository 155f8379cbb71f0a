//! The requests that have not ended: how many of their choices are open, and what those that have
//! ended came to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::request::{Done, FinishReason, RequestId, Usage};
use crate::sequence::Sequence;
use crate::stats::Tally;
use crate::timings::{Marks, Timings};

/// One request.
#[derive(Debug)]
struct Open {
    n_choices_left: u32,
    usage: Usage,
    /// When things happened to the choices that have ended.
    marks: Option<Marks>,
    /// What its client was told of the queue.
    ahead: Option<u32>,
}

/// Requests that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: HashMap<RequestId, Open>,
    pub(crate) tally: Tally,
}

impl Ledger {
    /// A request is taken.
    pub(crate) fn open(&mut self, id: RequestId, n_choices: u32) {
        let open = Open { n_choices_left: n_choices, usage: Usage::default(), marks: None, ahead: None };
        self.open.insert(id, open);
        self.tally.n_requests += 1;
    }

    /// Notes how many are before a request; says whether that is news.
    pub(crate) fn is_news(&mut self, id: RequestId, ahead: u32) -> bool {
        self.open.get_mut(&id).is_some_and(|open| open.ahead.replace(ahead) != Some(ahead))
    }

    /// One choice has ended. If it was the last, so has the request.
    pub(crate) fn end_choice(&mut self, sequence: &Sequence, reason: &FinishReason, now: Instant) -> Option<Done> {
        let id = sequence.id.request;
        let open = self.open.get_mut(&id)?;
        open.add(sequence);
        self.drop_choice(id, reason, now)
    }

    /// A choice has ended that had not begun.
    pub(crate) fn drop_choice(&mut self, id: RequestId, reason: &FinishReason, now: Instant) -> Option<Done> {
        let open = self.open.get_mut(&id)?;
        open.n_choices_left -= 1;
        if open.n_choices_left > 0 {
            return None;
        }
        self.end(id, &[], reason.clone(), now)
    }

    /// A request has ended as a whole; these were its open choices.
    pub(crate) fn end(
        &mut self,
        id: RequestId,
        sequences: &[Sequence],
        reason: FinishReason,
        now: Instant,
    ) -> Option<Done> {
        let mut open = self.open.remove(&id)?;
        sequences.iter().for_each(|sequence| open.add(sequence));
        let tally = &mut self.tally;
        *match reason {
            FinishReason::Cancelled | FinishReason::Deadline => &mut tally.n_cancelled,
            FinishReason::Error(_) => &mut tally.n_failed,
            FinishReason::Stop { .. } | FinishReason::Length | FinishReason::Grammar => &mut tally.n_done,
        } += 1;
        let timings = open.marks.map_or_else(Timings::default, |marks| marks.timings(now));
        Some(Done { reason, usage: open.usage, timings })
    }

    /// All requests are over.
    pub(crate) fn clear(&mut self) {
        self.tally.n_failed += self.open.len() as u64;
        self.open.clear();
    }
}

impl Open {
    fn add(&mut self, sequence: &Sequence) {
        let (usage, more) = (&mut self.usage, sequence.usage());
        // All choices have the same prompt; it is computed once.
        usage.prompt_tokens = more.prompt_tokens;
        usage.cached_prompt_tokens = usage.cached_prompt_tokens.max(more.cached_prompt_tokens);
        usage.computed_prompt_tokens = usage.computed_prompt_tokens.max(more.computed_prompt_tokens);
        usage.generated_tokens += more.generated_tokens;
        self.marks = Some(self.marks.map_or(sequence.marks, |marks| marks.joined(&sequence.marks)));
    }
}

/// The end of a request that the engine does not have, or no longer has.
pub(crate) fn failed(error: Arc<crate::Error>) -> Done {
    Done { reason: FinishReason::Error(error), usage: Usage::default(), timings: Timings::default() }
}
