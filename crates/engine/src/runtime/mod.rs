//! The engine's thread: an inbox, the loop, and the delivery of events to each request's sink.
//!
//! The loop drains the inbox, launches a step, drains the inbox once more while the device works,
//! lands the step and hands its events to their sinks; with nothing to do it sleeps on the inbox.
//! Requests are checked, and their grammars compiled, on the thread that submits them. No async
//! here: a server awaits on its own side of the sinks, which never block.
//!
//! A thread between the loop and the sinks would cost more than they do: on a CPU that computes on
//! every core it takes the engine's own, in the midst of a step. So does the thread that a sink wakes,
//! and therefore a CPU lets one of its workers call the sinks ([`Backend::aside`](zinc_graph::Backend::aside)).

mod delivery;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

pub use delivery::{EventSink, Sent};

use crate::Engine;
use crate::check::{Checked, Checker};
use crate::config::Limits;
use crate::error::Error;
use crate::request::{Request, RequestId, RequestIds, SequenceId};
use crate::stats::Stats;
use worker::Worker;

/// A handle to a running engine. Dropping it cancels what runs, waits for the step in progress and
/// ends the thread.
#[derive(Debug)]
pub struct Runtime {
    inbox: Sender<Command>,
    ids: RequestIds,
    checker: Checker,
    shared: Arc<Shared>,
    limits: Limits,
    model: ModelInfo,
    thread: Option<JoinHandle<()>>,
}

/// What is worth knowing of the model while another thread has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The architecture's name.
    pub architecture: &'static str,
    /// What the file calls the model.
    pub name: Option<String>,
    /// Entries of the vocabulary.
    pub n_vocab: u32,
    /// Tokens of context in training.
    pub context_train: u32,
    /// The device, for people.
    pub device: String,
}

/// What all sides see.
#[derive(Debug, Default)]
struct Shared {
    /// Requests in the inbox.
    n_inbox: AtomicUsize,
    /// Refreshed every step.
    stats: Mutex<Stats>,
    broken: OnceLock<Arc<Error>>,
}

enum Command {
    Submit { id: RequestId, checked: Box<Checked>, events: Box<dyn EventSink> },
    Cancel(RequestId),
    CancelChoice(SequenceId),
    Shutdown,
}

impl Runtime {
    /// Starts the engine's thread. As many requests may be on their way to it as may wait in it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(engine: Engine) -> Result<Runtime, Error> {
        let (inbox, commands) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let model = engine.model();
        let model = ModelInfo {
            architecture: model.architecture,
            name: model.name.clone(),
            n_vocab: model.n_vocab,
            context_train: model.context_train,
            device: engine.device().name.clone(),
        };
        let (ids, checker, limits) = (engine.ids.clone(), engine.checker.clone(), *engine.limits());
        *shared.stats.lock().unwrap_or_else(PoisonError::into_inner) = engine.stats();
        let worker = Worker::new(engine, commands, Arc::clone(&shared));
        let thread =
            std::thread::Builder::new().name("zinc-engine".into()).spawn(|| worker.run()).map_err(Error::Thread)?;
        Ok(Runtime { inbox, ids, checker, shared, limits, model, thread: Some(thread) })
    }

    /// Checks a request, compiles its grammar and sends it. Everything else arrives at `events`, the refusal of a
    /// full queue included; the last is always a `Done`, unless the sink refuses it or the engine's thread has
    /// died, which drops the sink.
    ///
    /// # Errors
    /// A request that makes no sense, too many requests on their way, or an engine that has broken or stopped.
    pub fn submit(&self, request: Request, events: impl EventSink + 'static) -> Result<RequestId, Error> {
        if let Some(cause) = self.broken() {
            return Err(Error::Broken(cause));
        }
        let checked = Box::new(self.checker.check(request)?);
        let inbox_max = self.limits.config.queue_max as usize;
        if self.shared.n_inbox.fetch_add(1, Ordering::Relaxed) >= inbox_max {
            self.shared.n_inbox.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::InboxFull { inbox_max });
        }
        let id = self.ids.next();
        let command = Command::Submit { id, checked, events: Box::new(events) };
        self.inbox.send(command).map_err(|_| Error::Stopped)?;
        Ok(id)
    }

    /// Asks for the end of a request; its `Done` event says when. Nothing happens if it has ended.
    pub fn cancel(&self, id: RequestId) {
        // A thread that is gone runs no request, so there is nothing left to cancel.
        let _ = self.inbox.send(Command::Cancel(id));
    }

    /// Asks for the end of one choice of a request; a `ChoiceDone` says when, and a `Done` if it was the last.
    pub fn cancel_choice(&self, id: RequestId, choice: u32) {
        let _ = self.inbox.send(Command::CancelChoice(SequenceId { request: id, choice }));
    }

    /// The figures of the last step.
    #[must_use]
    pub fn stats(&self) -> Stats {
        *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits, all fixed at start.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &ModelInfo {
        &self.model
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
            // A panic of the thread has dropped every sink, which is how clients learn of it.
            let _ = thread.join();
        }
    }
}
