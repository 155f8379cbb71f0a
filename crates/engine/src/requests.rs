//! How requests come to an engine, and how they leave it before their time.

use crate::Engine;
use crate::check::Checked;
use crate::error::Error;
use crate::request::{Event, FinishReason, Request, RequestId, SequenceId};
use crate::sequence::{Bounds, Sequence};

impl Engine {
    /// Puts a request into the queue. Its events come from [`Engine::step`].
    ///
    /// # Errors
    /// A request that makes no sense for this model and context, a full queue, a broken engine.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        self.check_whole()?;
        let checked = self.checker.check(request)?;
        let id = self.ids.next();
        self.submit_as(id, checked)?;
        Ok(id)
    }

    pub(crate) fn submit_as(&mut self, id: RequestId, checked: Checked) -> Result<(), Error> {
        self.check_whole()?;
        let Checked { request, grammar } = checked;
        let bounds = Bounds { context_tokens: self.limits.config.context_tokens, n_vocab: self.model.n_vocab };
        let n_choices = request.n_choices;
        let sequence = Sequence::new(id, request, bounds, (self.clock)())?;
        if let Err(refusal) = self.scheduler.submit(sequence) {
            self.ledger.tally.n_refused += 1;
            return Err(refusal.into());
        }
        self.ledger.open(id, n_choices);
        if let (Some(grammar), Some(masks)) = (grammar, &mut self.masks) {
            (0..n_choices).for_each(|choice| masks.begin(SequenceId { request: id, choice }, grammar.clone()));
        }
        Ok(())
    }

    /// Ends a request wherever it is and frees what it holds. Returns its last event, or nothing
    /// if it has ended already.
    pub fn cancel(&mut self, id: RequestId) -> Option<Event> {
        self.end_request(id, FinishReason::Cancelled)
    }

    /// Ends one choice of a request, and the request if it is the last; returns what happened.
    pub fn cancel_choice(&mut self, id: SequenceId) -> Vec<(RequestId, Event)> {
        let (reason, now) = (FinishReason::Cancelled, (self.clock)());
        let done = if let Some(sequence) = self.scheduler.remove(id) {
            self.ledger.end_choice(&sequence, &reason, now)
        } else if self.scheduler.remove_sibling(id) {
            self.ledger.drop_choice(id.request, &reason, now)
        } else {
            return Vec::new();
        };
        self.forget_mask(id);
        if done.is_some() {
            self.silence(id.request);
        }
        let choice_done = Event::ChoiceDone { choice: id.choice, reason };
        [Some(choice_done), done.map(Event::Done)].into_iter().flatten().map(|event| (id.request, event)).collect()
    }

    pub(crate) fn end_request(&mut self, id: RequestId, reason: FinishReason) -> Option<Event> {
        let now = (self.clock)();
        let sequences = self.scheduler.remove_request(id);
        if let Some(masks) = &mut self.masks {
            masks.end_request(id);
        }
        self.silence(id);
        self.ledger.end(id, &sequences, reason, now).map(Event::Done)
    }

    /// Nothing is told of a request after its end.
    fn silence(&mut self, id: RequestId) {
        self.events.retain(|(of, _)| *of != id);
    }

    pub(crate) fn forget_mask(&mut self, id: SequenceId) {
        if let Some(masks) = &mut self.masks {
            masks.end(id);
        }
    }
}
