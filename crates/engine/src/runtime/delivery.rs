//! Events on their way to clients: each goes to its request's sink.
//!
//! A sink never blocks. One that is full loses an event that only informs; any other event that it
//! cannot take ends its request, so a slow reader harms nobody else. What a client has missed it
//! notices by the end of its events without a `Done`. Sinks are called on any thread and under the
//! lock that keeps events in order, so a sink calls nothing of the runtime.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::request::{Event, RequestId};

/// Where the events of one request go.
pub trait EventSink: Send {
    /// Takes an event without blocking.
    fn send(&mut self, event: Event) -> Sent;
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was taken.
    Taken,
    /// There is no room for it.
    Full,
    /// Nobody reads any more.
    Gone,
}

impl EventSink for SyncSender<Event> {
    fn send(&mut self, event: Event) -> Sent {
        match self.try_send(event) {
            Ok(()) => Sent::Taken,
            Err(TrySendError::Full(_)) => Sent::Full,
            Err(TrySendError::Disconnected(_)) => Sent::Gone,
        }
    }
}

impl EventSink for Sender<Event> {
    fn send(&mut self, event: Event) -> Sent {
        match Sender::send(self, event) {
            Ok(()) => Sent::Taken,
            Err(_) => Sent::Gone,
        }
    }
}

/// The sinks of requests that go on, and the events that wait for them. Whoever holds one may send.
#[derive(Clone, Default)]
pub(super) struct Delivery(Arc<Mutex<Sinks>>);

#[derive(Default)]
struct Sinks {
    open: HashMap<RequestId, Box<dyn EventSink>>,
    waiting: Vec<(RequestId, Event)>,
    /// Requests whose sinks did not take what they had to.
    lost: Vec<RequestId>,
}

impl Delivery {
    /// Events of a request go to that sink from now on.
    pub(super) fn open(&self, id: RequestId, sink: Box<dyn EventSink>) {
        self.sinks().open.insert(id, sink);
    }

    /// Events that are to be sent, behind those that wait already.
    pub(super) fn add(&self, events: Vec<(RequestId, Event)>) {
        self.sinks().waiting.extend(events);
    }

    /// Hands over what waits; a sink goes with its last event.
    pub(super) fn send(&self) {
        let sinks = &mut *self.sinks();
        for (id, event) in sinks.waiting.drain(..) {
            let Some(sink) = sinks.open.get_mut(&id) else { continue };
            let is_last = matches!(event, Event::Done(_));
            let only_informs = matches!(event, Event::Queued { .. } | Event::Prefill { .. });
            let is_over = match sink.send(event) {
                Sent::Taken => is_last,
                Sent::Full if only_informs => false,
                Sent::Full | Sent::Gone => {
                    sinks.lost.push(id);
                    true
                }
            };
            if is_over {
                sinks.open.remove(&id);
            }
        }
    }

    /// The requests whose sinks did not take what they had to: nothing more will reach them.
    pub(super) fn take_lost(&self) -> Vec<RequestId> {
        std::mem::take(&mut self.sinks().lost)
    }

    /// Ends every request with the event that `end` gives for it.
    pub(super) fn end_all(&self, mut end: impl FnMut(RequestId) -> Option<Event>) {
        self.send();
        for (id, mut sink) in self.sinks().open.drain() {
            if let Some(event) = end(id) {
                // Taken or not, it was the last.
                let _ = sink.send(event);
            }
        }
    }

    fn sinks(&self) -> MutexGuard<'_, Sinks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_waits_is_sent_first_by_whoever_sends() {
        let (delivery, id, (sender, events)) = (Delivery::default(), RequestId(1), mpsc::channel());
        delivery.open(id, Box::new(sender));
        let event = |ahead| (id, Event::Queued { ahead });
        for round in 0..50 {
            delivery.add(vec![event(4 * round), event(4 * round + 1)]);
            let aside = delivery.clone();
            std::thread::scope(|scope| {
                scope.spawn(move || aside.send());
                delivery.add(vec![event(4 * round + 2), event(4 * round + 3)]);
                delivery.send();
            });
        }
        delivery.add(vec![event(200)]);
        delivery.end_all(|_| Some(event(201).1));
        let order: Vec<u32> = events
            .iter()
            .map(|event| match event {
                Event::Queued { ahead } => ahead,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, (0..=201).collect::<Vec<_>>());
    }
}
