//! The thread that owns the engine.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};

use super::delivery::Delivery;
use super::{Command, EventSink, Shared};
use crate::Engine;
use crate::check::Checked;
use crate::error::Error;
use crate::ledger::failed;
use crate::request::{Event, RequestId};

pub(super) struct Worker {
    engine: Engine,
    commands: Receiver<Command>,
    delivery: Delivery,
    shared: Arc<Shared>,
}

impl Worker {
    pub(super) fn new(engine: Engine, commands: Receiver<Command>, shared: Arc<Shared>) -> Worker {
        Worker { engine, commands, delivery: Delivery::default(), shared }
    }

    pub(super) fn run(mut self) {
        while self.drain_inbox() {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(Error::Broken(cause)) => self.break_down(cause),
                Err(error) => self.break_down(Arc::new(error)),
            }
        }
        self.delivery.end_all(|id| self.engine.cancel(id));
        self.publish();
    }

    /// One step; commands are taken while the device works. False means the end.
    fn step(&mut self) -> Result<bool, Error> {
        self.engine.launch()?;
        // A device that works by itself does so while the tokens of its last step go out.
        self.deliver(Vec::new());
        let goes_on = self.drain_inbox();
        let landed = self.engine.land()?;
        self.delivery.add(landed);
        self.publish();
        if self.engine.is_idle() {
            self.deliver(Vec::new());
        } else if !self.engine.device().is_asynchronous {
            // The device hands them over while it computes the next step.
            let delivery = self.delivery.clone();
            self.engine.aside(Box::new(move || delivery.send()));
        }
        Ok(goes_on)
    }

    /// Hands over what waits and then these events, and ends what nobody reads any more.
    fn deliver(&mut self, events: Vec<(RequestId, Event)>) {
        self.delivery.add(events);
        self.delivery.send();
        let lost = self.delivery.take_lost();
        for &id in &lost {
            // Its sink is gone, so there is nobody to tell.
            let _ = self.engine.cancel(id);
        }
        if !lost.is_empty() {
            self.publish();
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
                Ok(Command::Submit { id, checked, events }) => self.submit(id, *checked, events),
                Ok(Command::Cancel(id)) => {
                    let event = self.engine.cancel(id);
                    self.deliver(event.into_iter().map(|event| (id, event)).collect());
                }
                Ok(Command::CancelChoice(id)) => {
                    let events = self.engine.cancel_choice(id);
                    self.deliver(events);
                }
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return false,
            }
            if self.engine.is_idle() {
                self.publish();
            }
        }
    }

    fn submit(&mut self, id: RequestId, checked: Checked, events: Box<dyn EventSink>) {
        self.shared.n_inbox.fetch_sub(1, Ordering::Relaxed);
        self.delivery.open(id, events);
        if let Err(error) = self.engine.submit_as(id, checked) {
            self.deliver(vec![(id, Event::Done(failed(Arc::new(error))))]);
        }
    }

    fn break_down(&mut self, error: Arc<Error>) {
        self.shared.broken.get_or_init(|| Arc::clone(&error));
        self.publish();
        self.delivery.end_all(|_| Some(Event::Done(failed(Arc::clone(&error)))));
    }

    fn publish(&self) {
        *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.engine.stats();
    }
}
