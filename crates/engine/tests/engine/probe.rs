//! Backends that stand between the engine and the reference: one that notes what is read, one that
//! fails, one that waits for permission, one that moves a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use zinc_graph::backend::{BackendError, DeviceInfo, PlanId, PlanOptions, StateSizes, Ticket, WeightData};
use zinc_graph::reference::Reference;
use zinc_graph::section::ValueId;
use zinc_graph::{Backend, Batch, Graph};

/// What a probe does besides passing calls on.
pub(crate) enum Interference {
    /// Nothing.
    None,
    /// Fails the submission of that number, counted from 0.
    FailAt(usize),
    /// Tells of each submission and waits for a permit.
    Gate { arrivals: Sender<()>, permits: Receiver<()> },
    /// Moves the clock on by what a step of that many tokens takes, in milliseconds.
    Clock { milliseconds: Arc<AtomicU64>, cost: fn(usize) -> u64 },
    /// Does work aside as late as a device may, and on another thread: while the step after the next one is launched.
    LateAside,
    /// Is a device that computes by itself, and tells of each step and waits for a permit before it counts as done.
    ByItself { arrivals: Sender<()>, permits: Receiver<()> },
}

/// What a probe has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) submitted: Vec<Batch>,
    pub(crate) read: Vec<ValueId>,
    pub(crate) compiled: Vec<(u32, u32)>,
}

pub(crate) struct Probe {
    inner: Reference,
    interference: Interference,
    info: DeviceInfo,
    aside: Option<Box<dyn FnOnce() + Send>>,
    at_work: Option<JoinHandle<()>>,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

impl Probe {
    pub(crate) fn new(interference: Interference) -> Probe {
        let inner = Reference::new();
        let is_asynchronous = matches!(interference, Interference::ByItself { .. });
        let info = DeviceInfo { is_asynchronous, ..inner.device().clone() };
        Probe { inner, interference, info, aside: None, at_work: None, seen: Arc::default() }
    }
}

impl Backend for Probe {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError> {
        self.inner.load(graph, weights, state)
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        self.seen.lock().unwrap().compiled.push((options.bucket.tokens, options.bucket.outputs));
        self.inner.compile(graph, options)
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        self.inner.write(plan, value, data)
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let index = self.seen.lock().unwrap().submitted.len();
        match &self.interference {
            Interference::FailAt(n) if *n == index => {
                return Err(BackendError::Device { device: "probe".into(), message: "the device is lost".into() });
            }
            Interference::Gate { arrivals, permits } => {
                // A test that has dropped its ends lets the engine run on.
                let _ = arrivals.send(());
                let _ = permits.recv();
            }
            Interference::Clock { milliseconds, cost } => {
                milliseconds.fetch_add(cost(batch.n_tokens()), Ordering::Relaxed);
            }
            _ => {}
        }
        self.seen.lock().unwrap().submitted.push(batch.clone());
        let ticket = self.inner.submit(plan, batch);
        if let Some(before) = self.at_work.take() {
            before.join().unwrap();
        }
        self.at_work = self.aside.take().map(std::thread::spawn);
        ticket
    }

    fn aside(&mut self, work: Box<dyn FnOnce() + Send>) {
        match self.interference {
            Interference::LateAside => assert!(self.aside.replace(work).is_none(), "one a step"),
            _ => self.inner.aside(work),
        }
    }

    fn wait(&mut self, ticket: Ticket) -> Result<(), BackendError> {
        if let Interference::ByItself { arrivals, permits } = &self.interference {
            // As at the gate.
            let _ = arrivals.send(());
            let _ = permits.recv();
        }
        self.inner.wait(ticket)
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        self.seen.lock().unwrap().read.push(value);
        self.inner.read(plan, value, row, dst)
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError> {
        self.inner.copy_state(from, to)
    }
}
