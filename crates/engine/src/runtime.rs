//! The engine's thread: an inbox, the engine, and a channel of events for each request.
//!
//! The loop drains the inbox, computes a step and delivers its events; with nothing to do it
//! sleeps on the inbox. Delivery is a send that never blocks, and a client that has gone is noticed
//! by it and cancelled. No async here: a server awaits on its own side of the channels.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::Engine;
use crate::error::Error;
use crate::request::{Done, Event, FinishReason, Request, RequestId, RequestIds, Usage};
use crate::timings::Timings;

/// A handle to a running engine. Dropping it cancels what runs, waits for the step in progress and
/// ends the thread.
#[derive(Debug)]
pub struct Runtime {
    inbox: Sender<Command>,
    ids: RequestIds,
    shared: Arc<Shared>,
    inbox_max: usize,
    thread: Option<JoinHandle<()>>,
}

/// What both sides see.
#[derive(Debug, Default)]
struct Shared {
    /// Requests in the inbox.
    n_inbox: AtomicUsize,
    broken: OnceLock<Arc<Error>>,
}

enum Command {
    Submit { id: RequestId, request: Request, events: Sender<Event> },
    Cancel(RequestId),
    Shutdown,
}

impl Runtime {
    /// Starts the engine's thread. As many requests may be on their way to it as may wait in it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(engine: Engine) -> Result<Runtime, Error> {
        let (inbox, commands) = mpsc::channel();
        let ids = engine.ids().clone();
        let inbox_max = engine.limits().config.queue_max as usize;
        let shared = Arc::new(Shared::default());
        let worker = Worker { engine, commands, events: HashMap::new(), shared: Arc::clone(&shared) };
        let thread =
            std::thread::Builder::new().name("zinc-engine".into()).spawn(|| worker.run()).map_err(Error::Thread)?;
        Ok(Runtime { inbox, ids, shared, inbox_max, thread: Some(thread) })
    }

    /// Sends a request. Everything else, a refusal included, arrives through `events`; the last is
    /// always a [`Event::Done`], unless the thread itself has died, which closes the channel.
    ///
    /// # Errors
    /// Too many requests are on their way, or the engine has broken or stopped.
    pub fn submit(&self, request: Request, events: Sender<Event>) -> Result<RequestId, Error> {
        if let Some(cause) = self.broken() {
            return Err(Error::Broken(cause));
        }
        if self.shared.n_inbox.fetch_add(1, Ordering::Relaxed) >= self.inbox_max {
            self.shared.n_inbox.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::InboxFull { inbox_max: self.inbox_max });
        }
        let id = self.ids.next();
        self.inbox.send(Command::Submit { id, request, events }).map_err(|_| Error::Stopped)?;
        Ok(id)
    }

    /// Asks for the end of a request; its `Done` event says when. Nothing happens if it has ended.
    pub fn cancel(&self, id: RequestId) {
        // A thread that is gone runs no request, so there is nothing left to cancel.
        let _ = self.inbox.send(Command::Cancel(id));
    }

    /// The failure that ended the engine's work, if one has.
    #[must_use]
    pub fn broken(&self) -> Option<Arc<Error>> {
        self.shared.broken.get().cloned()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = self.inbox.send(Command::Shutdown);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has closed every channel, which is how clients learn of it.
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Worker {
    engine: Engine,
    commands: Receiver<Command>,
    events: HashMap<RequestId, Sender<Event>>,
    shared: Arc<Shared>,
}

impl Worker {
    fn run(mut self) {
        while self.drain_inbox() {
            match self.engine.step() {
                Ok(events) => events.into_iter().for_each(|(id, event)| self.deliver(id, event)),
                Err(Error::Broken(cause)) => self.break_down(cause),
                Err(error) => self.break_down(Arc::new(error)),
            }
        }
        for (id, events) in std::mem::take(&mut self.events) {
            if let Some(event) = self.engine.cancel(id) {
                let _ = events.send(event);
            }
        }
    }

    /// Takes every command there is, and waits for one while there is nothing else to do. False
    /// means the end.
    fn drain_inbox(&mut self) -> bool {
        loop {
            let command = match self.engine.is_idle() {
                true => self.commands.recv().map_err(|_| TryRecvError::Disconnected),
                false => self.commands.try_recv(),
            };
            match command {
                Ok(Command::Submit { id, request, events }) => self.submit(id, request, events),
                Ok(Command::Cancel(id)) => self.cancel(id),
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn submit(&mut self, id: RequestId, request: Request, events: Sender<Event>) {
        self.shared.n_inbox.fetch_sub(1, Ordering::Relaxed);
        match self.engine.submit_as(id, request) {
            Ok(()) => {
                self.events.insert(id, events);
            }
            Err(error) => {
                let _ = events.send(failed(Arc::new(error)));
            }
        }
    }

    fn cancel(&mut self, id: RequestId) {
        if let Some(event) = self.engine.cancel(id) {
            self.deliver(id, event);
        }
    }

    /// Sends an event to its client, or cancels the request if the client has gone.
    fn deliver(&mut self, id: RequestId, event: Event) {
        let is_last = matches!(event, Event::Done(_));
        let Some(events) = self.events.get(&id) else { return };
        let is_gone = events.send(event).is_err();
        if is_gone {
            self.engine.cancel(id);
        }
        if is_last || is_gone {
            self.events.remove(&id);
        }
    }

    fn break_down(&mut self, error: Arc<Error>) {
        self.shared.broken.get_or_init(|| Arc::clone(&error));
        for (_, events) in self.events.drain() {
            let _ = events.send(failed(Arc::clone(&error)));
        }
    }
}

/// The end of a request that the engine does not have, or no longer has.
fn failed(error: Arc<Error>) -> Event {
    Event::Done(Done { reason: FinishReason::Error(error), usage: Usage::default(), timings: Timings::default() })
}
