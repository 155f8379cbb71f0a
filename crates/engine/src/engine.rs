//! The engine: one model on one backend, advanced a step at a time.
//!
//! A step lets the scheduler choose, fills the batch and submits the plan ([`Engine::launch`]), then
//! waits and gives every sequence whose last row was computed its next token ([`Engine::land`]).
//! Between the two halves stands one value, [`InFlight`]; requests may come and go meanwhile
//! (`requests.rs`). The engine has no thread; [`crate::runtime`] gives it one.

use std::sync::Arc;
use std::time::Instant;

use zinc_graph::backend::{Backend, DeviceInfo, PlanId, Ticket, WeightData};
use zinc_graph::{Batch, Graph, fuse};
use zinc_models::Model;

use crate::batch::{self, Outputs, Span};
use crate::check::Checker;
use crate::config::{EngineConfig, Limits, Warning};
use crate::constraint::masks::{Masks, Next};
use crate::constraint::{ConstraintError, Grammars, Vocabulary};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::output::{OutputReader, Wanted};
use crate::pace::Pace;
use crate::plans::Plans;
use crate::profile::Profile;
use crate::request::{Event, FinishReason, RequestId, RequestIds, SequenceId, Token};
use crate::scheduler::{Chunk, Load, Scheduler};
use crate::stats::Stats;
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
    pub(crate) checker: Checker,
    pub(crate) ledger: Ledger,
    pub(crate) masks: Option<Masks>,
    pace: Pace,
    pub(crate) clock: Clock,
    pub(crate) ids: RequestIds,
    in_flight: Option<InFlight>,
    /// When the last step ended, until the next one is submitted.
    landed: Option<Instant>,
    /// What has happened and was not told yet.
    pub(crate) events: Vec<(RequestId, Event)>,
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
    launched: Instant,
    /// A plan was compiled for it, which takes its own time.
    is_new_plan: bool,
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
            checker: Checker {
                context_tokens: config.context_tokens,
                n_vocab: model.n_vocab,
                n_pages: limits.state.n_pages,
                grammars: None,
            },
            ledger: Ledger::default(),
            masks: None,
            pace: Pace::new(config.decode_gap_max),
            clock: Box::new(Instant::now),
            ids: RequestIds::default(),
            in_flight: None,
            landed: None,
            events: Vec::new(),
            broken: None,
            profile: None,
            model,
            limits,
        })
    }

    /// The same engine, able to hold answers to a grammar.
    ///
    /// # Errors
    /// A vocabulary that cannot be that of the model, or a system that gives no threads.
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Result<Engine, Error> {
        self.checker.grammars = Some(Arc::new(Grammars::new(vocabulary, self.model.n_vocab)?));
        self.masks = Some(Masks::start().map_err(Error::Thread)?);
        Ok(self)
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

    /// What the engine has done and is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.ledger.tally.stats(&self.scheduler.load(), self.scheduler.counters())
    }

    /// Nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.in_flight.is_none() && self.events.is_empty()
    }

    /// Computes one step and returns what happened, in the order in which it did; nothing if the
    /// engine is idle.
    ///
    /// # Errors
    /// The device failed. All requests are over then, without an event, and the engine is broken.
    pub fn step(&mut self) -> Result<Vec<(RequestId, Event)>, Error> {
        self.launch()?;
        self.land()
    }

    /// Chooses the next step and submits it, if there is anything to compute.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        self.check_whole()?;
        let now = (self.clock)();
        for id in self.scheduler.expired(now) {
            let event = self.end_request(id, FinishReason::Deadline);
            self.events.extend(event.map(|event| (id, event)));
        }
        let chunks = self.scheduler.schedule(now, self.pace.prefill_tokens());
        for (id, ahead) in self.scheduler.queue() {
            if self.ledger.is_news(id, ahead) {
                self.events.push((id, Event::Queued { ahead }));
            }
        }
        if chunks.is_empty() {
            self.landed = None;
            return Ok(());
        }
        let spans: Vec<Span<'_>> = chunks.iter().map(|chunk| span_of(&self.scheduler, chunk)).collect();
        batch::fill(&mut self.batch, &spans);
        let n_plans = self.plans.len();
        let (plan, ticket) = self.start_batch().map_err(|error| self.break_down(error))?;
        let is_new_plan = self.plans.len() > n_plans;
        if let Some(landed) = self.landed.take().filter(|_| !is_new_plan) {
            self.ledger.tally.n_host_gaps += 1;
            self.ledger.tally.host_time += (self.clock)().saturating_duration_since(landed);
        }
        self.in_flight = Some(InFlight { plan, ticket, chunks, launched: now, is_new_plan });
        Ok(())
    }

    /// Submits `self.batch`, after the copies of recurrent state that it relies on.
    pub(crate) fn start_batch(&mut self) -> Result<(PlanId, Ticket), Error> {
        let backend = self.backend.as_mut();
        for copy in self.scheduler.take_copies() {
            backend.copy_state(copy.from, copy.to)?;
        }
        let plan = self.plans.of(&self.batch, &self.graph, backend)?;
        Ok((plan, backend.submit(plan, &self.batch)?))
    }

    /// Waits for the step that was launched and chooses tokens; returns what happened since the last time.
    pub(crate) fn land(&mut self) -> Result<Vec<(RequestId, Event)>, Error> {
        if let Some(in_flight) = self.in_flight.take() {
            self.land_step(in_flight).map_err(|error| self.break_down(error))?;
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Does `work` beside the steps, see [`Backend::aside`].
    pub(crate) fn aside(&mut self, work: Box<dyn FnOnce() + Send>) {
        self.backend.aside(work);
    }

    fn land_step(&mut self, in_flight: InFlight) -> Result<(), Error> {
        let InFlight { plan, ticket, chunks, launched, is_new_plan } = in_flight;
        self.backend.wait(ticket)?;
        self.landed = Some((self.clock)());
        let n_tokens: u32 = chunks.iter().map(|chunk| chunk.n_tokens).sum();
        if let Some(profile) = &mut self.profile {
            profile.add(n_tokens, &self.backend.phase_times(plan)?);
        }
        if !is_new_plan && chunks.iter().any(|chunk| chunk.n_tokens > 1) {
            self.pace.observe(n_tokens, (self.clock)().saturating_duration_since(launched));
        }
        self.ledger.tally.n_steps += 1;
        let mut outputs = Vec::with_capacity(chunks.len());
        let mut row = 0;
        for chunk in &chunks {
            // Whoever was cancelled meanwhile is gone, but its row is there.
            if self.complete(chunk) && chunk.is_output {
                outputs.push((chunk.id, row));
            }
            row += usize::from(chunk.is_output);
        }
        let choices = self.choose(plan, &outputs)?;
        for ((id, _), choice) in outputs.into_iter().zip(choices) {
            self.advance(id, choice);
        }
        if !is_new_plan {
            self.scheduler.observe(&chunks, (self.clock)().saturating_duration_since(launched));
        }
        Ok(())
    }

    /// Notes that a chunk is computed; false if its sequence is gone.
    fn complete(&mut self, chunk: &Chunk) -> bool {
        let Some(is_news) = self.scheduler.complete(chunk) else { return false };
        if is_news && let Some(running) = self.scheduler.running(chunk.id) {
            let usage = running.sequence.usage();
            let cached = usage.cached_prompt_tokens;
            let computed = cached + usage.computed_prompt_tokens;
            self.events.push((chunk.id.request, Event::Prefill { computed, cached, total: usage.prompt_tokens }));
        }
        true
    }

    /// The next tokens of sequences that have outputs, or why they end without one.
    fn choose(
        &mut self,
        plan: PlanId,
        outputs: &[(SequenceId, usize)],
    ) -> Result<Vec<Result<Token, FinishReason>>, Error> {
        let masks = &mut self.masks;
        let nexts: Vec<_> = outputs.iter().map(|(id, _)| masks.as_mut().and_then(|masks| masks.next(*id))).collect();
        let scheduler = &self.scheduler;
        let sequence = |id| &scheduler.running(id).expect("its chunk was just completed").sequence;
        let mut wanted = Vec::with_capacity(outputs.len());
        for (&(id, row), next) in outputs.iter().zip(&nexts) {
            match next {
                None => wanted.push(Wanted { row, sequence: sequence(id), allowed: None }),
                Some(Ok(Next::Tokens(tokens))) => {
                    wanted.push(Wanted { row, sequence: sequence(id), allowed: Some(tokens) });
                }
                Some(Ok(Next::Nothing) | Err(_)) => {}
            }
        }
        let mut tokens = self.output.tokens(self.backend.as_mut(), &self.model, plan, &wanted)?.into_iter();
        let failed = |error: Error| FinishReason::Error(Arc::new(error));
        let mut token = |id| {
            let token = tokens.next().expect("there is one for each that is wanted");
            token.map_err(|cause| failed(Error::NonFinite { n_tokens: sequence(id).n_tokens(), cause }))
        };
        let choice = |(next, &(id, _)): (Option<Result<Next, ConstraintError>>, &(SequenceId, usize))| match next {
            None | Some(Ok(Next::Tokens(_))) => token(id),
            Some(Ok(Next::Nothing)) => Err(FinishReason::Grammar),
            Some(Err(cause)) => Err(failed(cause.into())),
        };
        drop(wanted);
        Ok(nexts.into_iter().zip(outputs).map(choice).collect())
    }

    /// Gives a sequence its next token, or ends it.
    fn advance(&mut self, id: SequenceId, choice: Result<Token, FinishReason>) {
        let now = (self.clock)();
        let reason = match choice {
            Ok(token) => {
                let reason = self.scheduler.accept(id, token.id, now);
                if let Some(masks) = &mut self.masks {
                    masks.accept(id, token.id);
                }
                if !matches!(reason, Some(FinishReason::Stop { .. })) {
                    self.events.push((id.request, Event::Token(token)));
                }
                reason
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = reason
            && let Some(sequence) = self.scheduler.remove(id)
        {
            self.forget_mask(id);
            let done = self.ledger.end_choice(&sequence, &reason, now);
            self.events.push((id.request, Event::ChoiceDone { choice: id.choice, reason }));
            self.events.extend(done.map(|done| (id.request, Event::Done(done))));
        }
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
        self.ledger.clear();
        self.events.clear();
        self.in_flight = None;
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
