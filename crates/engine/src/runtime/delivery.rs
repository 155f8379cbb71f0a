//! Events on their way to clients: each goes to its request's sink.
//!
//! A sink never blocks. One that is full loses an event that only informs; any other event that it
//! cannot take ends its request, so a slow reader harms nobody else. What a client has missed it
//! notices by the end of its events without a `Done`.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};

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

/// The sinks of requests that go on.
#[derive(Default)]
pub(super) struct Delivery(HashMap<RequestId, Box<dyn EventSink>>);

impl Delivery {
    /// Events of a request go to that sink from now on.
    pub(super) fn open(&mut self, id: RequestId, sink: Box<dyn EventSink>) {
        self.0.insert(id, sink);
    }

    /// Hands events over; a sink goes with its last one. Returns the requests whose sinks did not take what they had to:
    /// nothing more will reach them.
    pub(super) fn send(&mut self, events: Vec<(RequestId, Event)>) -> Vec<RequestId> {
        let mut lost = Vec::new();
        for (id, event) in events {
            let Some(sink) = self.0.get_mut(&id) else { continue };
            let is_last = matches!(event, Event::Done(_));
            let only_informs = matches!(event, Event::Queued { .. } | Event::Prefill { .. });
            let is_over = match sink.send(event) {
                Sent::Taken => is_last,
                Sent::Full if only_informs => false,
                Sent::Full | Sent::Gone => {
                    lost.push(id);
                    true
                }
            };
            if is_over {
                self.0.remove(&id);
            }
        }
        lost
    }

    /// Ends every request with the event that `end` gives for it.
    pub(super) fn end_all(&mut self, mut end: impl FnMut(RequestId) -> Option<Event>) {
        for (id, mut sink) in self.0.drain() {
            if let Some(event) = end(id) {
                // Taken or not, it was the last.
                let _ = sink.send(event);
            }
        }
    }
}
