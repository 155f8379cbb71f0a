//! Who follows the grammars: threads that compute which tokens may come next while the device
//! computes the logits.
//!
//! When a token is chosen its grammar goes to a thread, which takes the token in and computes the
//! next set; when the next logits are there, the set is waited for. Nothing is in two places.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use super::{ConstraintError, Grammar, shortened};
use crate::request::{RequestId, SequenceId};

/// Threads; a set takes far less than a step, so few are enough for many sequences.
const N_THREADS: usize = 2;

/// Which tokens may come next.
pub(crate) enum Next {
    /// Those in the set, one at least.
    Tokens(SimpleVob),
    /// None: the answer is complete.
    Nothing,
}

/// Grammars of the sequences that have one.
pub(crate) struct Masks {
    /// Closed when the masks are dropped.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    states: HashMap<SequenceId, State>,
}

enum State {
    /// A thread has the grammar.
    Away(Receiver<Ready>),
    /// The set was used, and its token is not chosen yet.
    Here(Box<Matcher>),
    /// It failed, which its sequence has been told.
    Failed,
}

struct Job {
    matcher: Box<Matcher>,
    token: Option<u32>,
    done: Sender<Ready>,
}

struct Ready {
    matcher: Box<Matcher>,
    next: Result<Next, String>,
}

impl Masks {
    /// Starts the threads.
    pub(crate) fn start() -> std::io::Result<Masks> {
        let (jobs, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::with_capacity(N_THREADS);
        for _ in 0..N_THREADS {
            let queue = Arc::clone(&queue);
            threads.push(std::thread::Builder::new().name("zinc-masks".into()).spawn(move || work(&queue))?);
        }
        Ok(Masks { jobs: Some(jobs), threads, states: HashMap::new() })
    }

    /// A sequence begins its answer under a grammar.
    pub(crate) fn begin(&mut self, id: SequenceId, grammar: Grammar) {
        self.send(id, grammar.matcher, None);
    }

    /// What may come next in a sequence; none if it may say anything.
    pub(crate) fn next(&mut self, id: SequenceId) -> Option<Result<Next, ConstraintError>> {
        let state = self.states.get_mut(&id)?;
        let State::Away(ready) = std::mem::replace(state, State::Failed) else {
            return Some(Err(failed("its set was asked for twice")));
        };
        Some(match ready.recv() {
            Ok(Ready { matcher, next: Ok(next) }) => {
                *state = State::Here(matcher);
                Ok(next)
            }
            Ok(Ready { next: Err(message), .. }) => Err(failed(&message)),
            Err(_) => Err(failed("its thread has ended")),
        })
    }

    /// A token was chosen.
    pub(crate) fn accept(&mut self, id: SequenceId, token: u32) {
        if let Some(State::Here(matcher)) = self.states.remove(&id) {
            self.send(id, matcher, Some(token));
        }
    }

    /// A sequence has ended.
    pub(crate) fn end(&mut self, id: SequenceId) {
        self.states.remove(&id);
    }

    /// All sequences of a request have ended.
    pub(crate) fn end_request(&mut self, id: RequestId) {
        self.states.retain(|sequence, _| sequence.request != id);
    }

    fn send(&mut self, id: SequenceId, matcher: Box<Matcher>, token: Option<u32>) {
        let (done, ready) = mpsc::channel();
        if let Some(jobs) = &self.jobs {
            // Should every thread be gone, the closed channel says so when the set is wanted.
            let _ = jobs.send(Job { matcher, token, done });
        }
        self.states.insert(id, State::Away(ready));
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread has closed its channels, which is how sequences learn of it.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masks").field("n_sequences", &self.states.len()).finish_non_exhaustive()
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { mut matcher, token, done }) = job else { return };
        let next = compute(&mut matcher, token);
        // Nobody waits any more if the sequence has ended.
        let _ = done.send(Ready { matcher, next });
    }
}

fn compute(matcher: &mut Matcher, token: Option<u32>) -> Result<Next, String> {
    if let Some(token) = token {
        matcher.consume_token(token).map_err(|e| shortened(&e.to_string()))?;
    }
    if matcher.is_stopped() {
        let reason = matcher.stop_reason();
        return if reason.is_ok() { Ok(Next::Nothing) } else { Err(reason.to_string()) };
    }
    let tokens = matcher.compute_mask().map_err(|e| shortened(&e.to_string()))?;
    Ok(if tokens.is_zero() { Next::Nothing } else { Next::Tokens(tokens) })
}

fn failed(message: &str) -> ConstraintError {
    ConstraintError::Failed { message: message.to_owned() }
}
