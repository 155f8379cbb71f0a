//! The engine: one model on one backend, advanced a step at a time.
//!
//! A step lets the scheduler choose, fills the batch, submits the plan, waits, and gives every
//! sequence whose last row was computed its next token. Between the two halves stands one value,
//! [`InFlight`], so that a later engine can launch a step before it lands the one before. The
//! engine has no thread; [`crate::runtime`] gives it one.

use std::sync::Arc;
use std::time::Instant;

use zinc_graph::backend::{Backend, DeviceInfo, PlanId, Ticket, WeightData};
use zinc_graph::{Batch, Graph, fuse};
use zinc_models::Model;

use crate::batch::{self, Outputs, Span};
use crate::config::{EngineConfig, Limits, Warning};
use crate::error::Error;
use crate::output::{OutputReader, OutputRow};
use crate::plans::Plans;
use crate::profile::Profile;
use crate::request::{Done, Event, FinishReason, Request, RequestId, RequestIds, TOP_LOGPROBS_MAX};
use crate::sampler::NonFinite;
use crate::scheduler::{Chunk, Load, Scheduler};
use crate::sequence::{Bounds, Sequence};
use crate::timings::Clock;

/// A loaded model and the requests that it works on.
pub struct Engine {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) model: Model,
    /// The model's graph with the fusions that the device has.
    graph: Graph,
    pub(crate) limits: Limits,
    pub(crate) scheduler: Scheduler,
    plans: Plans,
    pub(crate) batch: Batch,
    pub(crate) output: OutputReader,
    clock: Clock,
    ids: RequestIds,
    /// The failure that ended the engine's work.
    broken: Option<Arc<Error>>,
    profile: Option<Profile>,
}

/// A step that was submitted and not yet read: all that passes from one half of a step to the other.
#[derive(Debug)]
struct InFlight {
    plan: PlanId,
    ticket: Ticket,
    chunks: Vec<Chunk>,
}

impl Engine {
    /// Loads a model: checks the configuration, then hands weights and sizes to the backend.
    /// `weights[i]` is `model.graph.weights[i]`.
    ///
    /// # Errors
    /// A configuration that cannot be, or a device that refuses.
    pub fn new(
        mut backend: Box<dyn Backend>,
        model: Model,
        weights: Vec<WeightData>,
        config: EngineConfig,
    ) -> Result<Engine, Error> {
        let limits = config.limits(&model.graph)?;
        backend.load(&model.graph, weights, limits.state)?;
        Ok(Engine {
            graph: fuse(&model.graph, backend.device().fusions),
            backend,
            scheduler: Scheduler::new(limits.scheduler()),
            plans: Plans::new(config.step_tokens),
            batch: Batch::default(),
            output: OutputReader::new(model.n_vocab),
            clock: Box::new(Instant::now),
            ids: RequestIds::default(),
            broken: None,
            profile: None,
            model,
            limits,
        })
    }

    /// The same engine, told the time by `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Engine {
        self.clock = clock;
        self
    }

    /// Takes the time of every phase of the steps that follow, or no longer. Plans are compiled anew.
    pub fn set_profiling(&mut self, is_on: bool) {
        self.backend.set_profiling(is_on);
        self.plans = Plans::new(self.limits.config.step_tokens);
        self.profile = is_on.then(Profile::default);
    }

    /// Bytes per second that a copy inside the device's memory moves, if the device can tell.
    ///
    /// # Errors
    /// The device failed.
    pub fn copy_bandwidth(&mut self) -> Result<Option<f64>, Error> {
        Ok(self.backend.copy_bandwidth()?)
    }

    /// The times taken since they were asked for.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// What works and may disappoint.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let (context_tokens, context_train) = (self.limits.config.context_tokens, self.model.context_train);
        let beyond = context_tokens > context_train;
        beyond.then_some(Warning::ContextBeyondTraining { context_tokens, context_train }).into_iter().collect()
    }

    /// The limits, all fixed at start.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &DeviceInfo {
        self.backend.device()
    }

    /// How busy the engine is.
    #[must_use]
    pub fn load(&self) -> Load {
        self.scheduler.load()
    }

    /// Nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// The source of this engine's request ids.
    pub(crate) fn ids(&self) -> &RequestIds {
        &self.ids
    }

    /// Puts a request into the queue. Its events come from [`Engine::step`].
    ///
    /// # Errors
    /// A request that makes no sense for this model and context, a full queue, a broken engine.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        let id = self.ids.next();
        self.submit_as(id, request)?;
        Ok(id)
    }

    pub(crate) fn submit_as(&mut self, id: RequestId, request: Request) -> Result<(), Error> {
        self.check_whole()?;
        self.check_ids(&request.prompt)?;
        let (n_tokens, context_tokens) = (request.prompt.len(), self.limits.config.context_tokens);
        if n_tokens >= context_tokens as usize {
            return Err(Error::PromptTooLong { n_tokens, context_tokens });
        }
        if request.max_tokens == 0 {
            return Err(Error::NoTokensWanted);
        }
        if let Some(n) = request.logprobs.filter(|&n| n > TOP_LOGPROBS_MAX) {
            return Err(Error::TooManyLogprobs { n });
        }
        let bounds = Bounds { context_tokens, n_vocab: self.model.n_vocab };
        let sequence = Sequence::new(id, request, bounds, (self.clock)())?;
        Ok(self.scheduler.submit(sequence)?)
    }

    /// Tokens there are, and the model knows them.
    pub(crate) fn check_ids(&self, ids: &[u32]) -> Result<(), Error> {
        let n_vocab = self.model.n_vocab;
        match ids.iter().position(|&id| id >= n_vocab) {
            Some(index) => Err(Error::TokenOutOfRange { index, id: ids[index], n_vocab }),
            None if ids.is_empty() => Err(Error::PromptEmpty),
            None => Ok(()),
        }
    }

    /// Ends a request wherever it is and frees what it holds. Returns its last event, or nothing
    /// if it has ended already.
    pub fn cancel(&mut self, id: RequestId) -> Option<Event> {
        let now = (self.clock)();
        let sequence = self.scheduler.remove(id)?;
        Some(done(&sequence, FinishReason::Cancelled, now))
    }

    /// Computes one step and returns what happened, in the order in which it did; nothing if the
    /// engine is idle.
    ///
    /// # Errors
    /// The device failed. All requests are over then, without an event, and the engine is broken.
    pub fn step(&mut self) -> Result<Vec<(RequestId, Event)>, Error> {
        self.check_whole()?;
        let landed = match self.launch() {
            Ok(Some(in_flight)) => self.land(in_flight),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        landed.map_err(|error| self.break_down(error))
    }

    fn launch(&mut self) -> Result<Option<InFlight>, Error> {
        let chunks = self.scheduler.schedule((self.clock)());
        if chunks.is_empty() {
            return Ok(None);
        }
        let spans: Vec<Span<'_>> = chunks.iter().map(|chunk| span_of(&self.scheduler, chunk)).collect();
        batch::fill(&mut self.batch, &spans);
        let (plan, ticket) = self.start_batch()?;
        Ok(Some(InFlight { plan, ticket, chunks }))
    }

    /// Submits `self.batch`.
    pub(crate) fn start_batch(&mut self) -> Result<(PlanId, Ticket), Error> {
        let backend = self.backend.as_mut();
        let plan = self.plans.of(&self.batch, &self.graph, backend)?;
        Ok((plan, backend.submit(plan, &self.batch)?))
    }

    fn land(&mut self, in_flight: InFlight) -> Result<Vec<(RequestId, Event)>, Error> {
        let InFlight { plan, ticket, chunks } = in_flight;
        self.backend.wait(ticket)?;
        if let Some(profile) = &mut self.profile {
            profile.add(self.batch.n_tokens(), &self.backend.phase_times(plan)?);
        }
        let mut events = Vec::with_capacity(chunks.len());
        let mut row = 0;
        for chunk in chunks {
            let at = chunk.is_output.then_some(OutputRow { plan, row });
            row += usize::from(chunk.is_output);
            self.advance(chunk, at, &mut events)?;
        }
        Ok(events)
    }

    /// Notes that a chunk is computed and chooses the token that follows it, if it has an output.
    fn advance(
        &mut self,
        chunk: Chunk,
        at: Option<OutputRow>,
        events: &mut Vec<(RequestId, Event)>,
    ) -> Result<(), Error> {
        let id = chunk.id;
        let now = (self.clock)();
        let sequence = self.scheduler.sequence_mut(id).expect("a sequence runs at least until its step has landed");
        let was_prefill = sequence.n_computed < sequence.n_prompt();
        sequence.n_computed += chunk.n_tokens;
        if was_prefill {
            let usage = sequence.usage();
            events.push((id, Event::Prefill { computed: usage.computed_prompt_tokens, total: usage.prompt_tokens }));
        }
        let Some(at) = at else { return Ok(()) };
        let ended = match self.output.token(self.backend.as_mut(), &self.model, at, sequence)? {
            Ok(token) => {
                let ended = sequence.accept(token.id, now);
                if !matches!(ended, Some(FinishReason::Stop { .. })) {
                    events.push((id, Event::Token(token)));
                }
                ended
            }
            Err(cause) => Some(unusable(sequence, cause)),
        };
        if let Some(reason) = ended {
            let event = done(sequence, reason, now);
            self.scheduler.remove(id);
            events.push((id, event));
        }
        Ok(())
    }

    /// Refuses work after a failure of the device.
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        match &self.broken {
            Some(cause) => Err(Error::Broken(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Ends all work because of a failure.
    pub(crate) fn break_down(&mut self, error: Error) -> Error {
        self.scheduler.clear();
        let cause = Arc::new(error);
        self.broken = Some(Arc::clone(&cause));
        Error::Broken(cause)
    }
}

fn span_of<'a>(scheduler: &'a Scheduler, chunk: &Chunk) -> Span<'a> {
    let running = scheduler.running(chunk.id).expect("the scheduler chooses among those that run");
    let start = running.sequence.n_computed;
    let ids = &running.sequence.tokens[start as usize..][..chunk.n_tokens as usize];
    let outputs = if chunk.is_output { Outputs::Last } else { Outputs::None };
    Span { ids, start, kv: &running.kv, outputs }
}

fn done(sequence: &Sequence, reason: FinishReason, now: Instant) -> Event {
    Event::Done(Done { reason, usage: sequence.usage(), timings: sequence.marks.timings(now) })
}

fn unusable(sequence: &Sequence, cause: NonFinite) -> FinishReason {
    FinishReason::Error(Arc::new(Error::NonFinite { n_tokens: sequence.n_tokens(), cause }))
}
