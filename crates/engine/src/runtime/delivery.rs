//! Events on their way to clients: a thread that hands each to its request's sink.
//!
//! A sink never blocks. One that is full loses an event that only informs; any other event that it
//! cannot take ends its request, so a slow reader harms nobody else. What a client has missed it
//! notices by the end of its events without a `Done`.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;

use super::Command;
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

enum Parcel {
    Open(RequestId, Box<dyn EventSink>),
    Events(Vec<(RequestId, Event)>),
}

/// The loop's end of the delivery.
pub(super) struct Delivery {
    parcels: Option<Sender<Parcel>>,
    /// Requests that were opened and whose end was not sent.
    open: HashSet<RequestId>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    /// Starts the thread; it cancels requests through `inbox`.
    pub(super) fn start(inbox: Sender<Command>) -> std::io::Result<Delivery> {
        let (parcels, queue) = mpsc::channel();
        let thread = std::thread::Builder::new().name("zinc-delivery".into()).spawn(move || deliver(&queue, &inbox))?;
        Ok(Delivery { parcels: Some(parcels), open: HashSet::new(), thread: Some(thread) })
    }

    /// Events of a request go to that sink from now on.
    pub(super) fn open(&mut self, id: RequestId, sink: Box<dyn EventSink>) {
        self.open.insert(id);
        self.send_parcel(Parcel::Open(id, sink));
    }

    /// Hands events over.
    pub(super) fn send(&mut self, events: Vec<(RequestId, Event)>) {
        if events.is_empty() {
            return;
        }
        for (id, event) in &events {
            if matches!(event, Event::Done(_)) {
                self.open.remove(id);
            }
        }
        self.send_parcel(Parcel::Events(events));
    }

    /// Ends every request with the event that `end` gives for it.
    pub(super) fn end_all(&mut self, mut end: impl FnMut(RequestId) -> Option<Event>) {
        let open = std::mem::take(&mut self.open);
        let events = open.into_iter().filter_map(|id| end(id).map(|event| (id, event))).collect();
        self.send(events);
    }

    /// Ends every request and waits until all is delivered.
    pub(super) fn close(&mut self, end: impl FnMut(RequestId) -> Option<Event>) {
        self.end_all(end);
        self.parcels = None;
        if let Some(thread) = self.thread.take() {
            // A panic of a sink has dropped all of them, which is how clients learn of it.
            let _ = thread.join();
        }
    }

    fn send_parcel(&self, parcel: Parcel) {
        if let Some(parcels) = &self.parcels {
            // Without the thread there are no sinks either.
            let _ = parcels.send(parcel);
        }
    }
}

fn deliver(queue: &Receiver<Parcel>, inbox: &Sender<Command>) {
    let mut sinks: HashMap<RequestId, Box<dyn EventSink>> = HashMap::new();
    for parcel in queue {
        let events = match parcel {
            Parcel::Open(id, sink) => {
                sinks.insert(id, sink);
                continue;
            }
            Parcel::Events(events) => events,
        };
        for (id, event) in events {
            let Some(sink) = sinks.get_mut(&id) else { continue };
            let is_last = matches!(event, Event::Done(_));
            let only_informs = matches!(event, Event::Queued { .. } | Event::Prefill { .. });
            let is_over = match sink.send(event) {
                Sent::Taken => is_last,
                Sent::Full if only_informs => false,
                Sent::Full | Sent::Gone => {
                    // A loop that has ended has cancelled everything.
                    let _ = inbox.send(Command::Cancel(id));
                    true
                }
            };
            if is_over {
                sinks.remove(&id);
            }
        }
    }
}
