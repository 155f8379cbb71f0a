//! Seeded simulation of the scheduler: no model, random arrivals, lengths and cancels, and the
//! invariants checked at every step.
//!
//! A failure names its seed, which replays it. The clock stands still: nothing here depends on it.

use std::collections::BTreeSet;
use std::time::Instant;

use zinc_engine::request::{Request, RequestId};
use zinc_engine::sampler::{Random, Sampling};
use zinc_engine::scheduler::{Chunk, Refusal, Scheduler, SchedulerLimits};
use zinc_engine::sequence::{Bounds, Sequence};

const CONTEXT_TOKENS: u32 = 400;

struct Simulation {
    limits: SchedulerLimits,
    scheduler: Scheduler,
    now: Instant,
    random: Random,
    n_drawn: u64,
    next_id: u64,
    /// Submitted and not ended, in order of arrival.
    alive: BTreeSet<RequestId>,
    started: Vec<RequestId>,
    n_ended: u64,
    n_refused: u64,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let random = Random::new(seed);
        let mut n_drawn = 0;
        let mut draw = |n: u32| below(random, &mut n_drawn, n);
        let sequences_max = 1 + draw(6);
        let limits = SchedulerLimits {
            n_pages: 8 + draw(60),
            sequences_max,
            step_tokens: sequences_max + draw(64),
            queue_max: draw(9),
        };
        Simulation {
            limits,
            scheduler: Scheduler::new(limits),
            now: Instant::now(),
            random,
            n_drawn,
            next_id: 0,
            alive: BTreeSet::new(),
            started: Vec::new(),
            n_ended: 0,
            n_refused: 0,
        }
    }

    fn draw(&mut self, n: u32) -> u32 {
        below(self.random, &mut self.n_drawn, n)
    }

    fn arrive(&mut self) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let n_prompt = match self.draw(4) {
            0 => 1,
            1 => 1 + self.draw(CONTEXT_TOKENS - 1),
            _ => 1 + self.draw(40),
        };
        let request = Request {
            prompt: vec![0; n_prompt as usize],
            max_tokens: 1 + self.draw(60),
            sampling: Sampling::greedy(),
            seed: 0,
            stop_ids: vec![9],
            logprobs: None,
            echo_logits: false,
        };
        let bounds = Bounds { context_tokens: CONTEXT_TOKENS, n_vocab: 10 };
        let sequence = Sequence::new(id, request, bounds, self.now).expect("greedy sampling makes sense");
        let needed = sequence.tokens_max().div_ceil(16);
        let n_waiting = self.scheduler.load().n_waiting;
        match self.scheduler.submit(sequence) {
            Ok(()) => {
                assert!(needed <= self.limits.n_pages && n_waiting < self.limits.queue_max as usize);
                self.alive.insert(id);
            }
            Err(Refusal::NeverFits(_)) => {
                assert!(needed > self.limits.n_pages);
                self.n_refused += 1;
            }
            Err(Refusal::QueueFull { queue_max }) => {
                assert_eq!(n_waiting, queue_max as usize);
                self.n_refused += 1;
            }
        }
    }

    fn cancel_one(&mut self) {
        let n_alive = u32::try_from(self.alive.len()).expect("few are alive");
        if n_alive > 0 {
            let nth = self.draw(n_alive) as usize;
            let id = *self.alive.iter().nth(nth).expect("below their number");
            self.end(id);
        }
    }

    fn end(&mut self, id: RequestId) {
        assert!(self.alive.remove(&id), "{id} ended twice or never began");
        assert_eq!(self.scheduler.remove(id).expect("it is alive").id, id);
        assert!(self.scheduler.remove(id).is_none());
        self.n_ended += 1;
    }

    fn step(&mut self) {
        let chunks = self.scheduler.schedule(self.now);
        self.check_step(&chunks);
        for chunk in chunks {
            let choice = if self.draw(50) == 0 { 9 } else { 1 };
            let sequence = self.scheduler.sequence_mut(chunk.id).expect("a chunk is of a running sequence");
            sequence.n_computed += chunk.n_tokens;
            if chunk.is_output && sequence.accept(choice, self.now).is_some() {
                self.end(chunk.id);
            }
        }
        self.check_memory();
    }

    fn check_step(&mut self, chunks: &[Chunk]) {
        let n_tokens: u32 = chunks.iter().map(|c| c.n_tokens).sum();
        assert!(n_tokens <= self.limits.step_tokens, "the budget is held");
        assert_eq!(chunks.is_empty(), self.alive.is_empty(), "a step makes progress while anyone is alive");
        let ids: BTreeSet<RequestId> = chunks.iter().map(|c| c.id).collect();
        assert_eq!(ids.len(), chunks.len(), "a sequence has one chunk");
        let running: Vec<RequestId> =
            self.alive.iter().copied().filter(|&id| self.scheduler.running(id).is_some()).collect();
        let mut n_prefills_cut = 0;
        for &id in &running {
            let chunk = chunks.iter().find(|c| c.id == id);
            let sequence = &self.scheduler.running(id).expect("it runs").sequence;
            if sequence.n_pending() == 1 {
                assert_eq!(chunk.map(|c| (c.n_tokens, c.is_output)), Some((1, true)), "a decode is in every step");
            }
            n_prefills_cut += u32::from(chunk.is_some_and(|c| !c.is_output));
            if !self.started.contains(&id) {
                let last = self.started.last();
                assert!(last.is_none_or(|&last| last < id), "{id} started after a later request");
                self.started.push(id);
            }
        }
        assert!(n_prefills_cut <= 1, "a prompt is cut only where the budget ends");
        assert!(n_prefills_cut == 0 || n_tokens == self.limits.step_tokens, "and never before it ends");
    }

    fn check_memory(&self) {
        let load = self.scheduler.load();
        let mut pages = BTreeSet::new();
        let mut slots = BTreeSet::new();
        let mut n_held = 0;
        for &id in &self.alive {
            let Some(running) = self.scheduler.running(id) else { continue };
            let table = running.kv.table.pages();
            assert!(table.len() * 16 >= running.sequence.tokens.len(), "every token has a place");
            n_held += table.len();
            pages.extend(table.iter().copied());
            assert!(slots.insert(running.kv.slot) && running.kv.slot < self.limits.sequences_max);
        }
        assert_eq!(pages.len(), n_held, "no page has two owners");
        assert_eq!(n_held + load.n_free_pages, load.n_pages, "no page is leaked");
        assert_eq!(slots.len(), load.n_running);
        assert_eq!(load.n_running + load.n_waiting, self.alive.len());
    }
}

fn below(random: Random, n_drawn: &mut u64, n: u32) -> u32 {
    *n_drawn += 1;
    #[expect(clippy::cast_possible_truncation, reason = "a uniform is below one, so the product is below `n`")]
    let number = (random.uniform(*n_drawn) * f64::from(n)) as u32;
    number
}

fn simulate(seed: u64, n_steps: u32) -> Simulation {
    let mut simulation = Simulation::new(seed);
    for _ in 0..n_steps {
        for _ in 0..simulation.draw(3) {
            simulation.arrive();
        }
        if simulation.draw(8) == 0 {
            simulation.cancel_one();
        }
        simulation.step();
    }
    let mut n_drained = 0;
    while !simulation.scheduler.is_idle() {
        simulation.step();
        n_drained += 1;
        assert!(n_drained < 100_000, "no request is starved");
    }
    simulation
}

#[test]
fn invariants_hold_over_random_arrivals_lengths_and_cancels() {
    let (mut n_ended, mut n_refused) = (0, 0);
    for seed in 0..40 {
        let result = std::panic::catch_unwind(|| simulate(seed, 200));
        let Ok(end) = result else { panic!("seed {seed} breaks an invariant") };
        assert_eq!(end.n_ended + end.n_refused, end.next_id, "seed {seed}: every request ends exactly once");
        assert_eq!(end.scheduler.load().n_free_pages, end.limits.n_pages as usize, "seed {seed}");
        n_ended += end.n_ended;
        n_refused += end.n_refused;
    }
    assert!(n_ended > 1000 && n_refused > 100, "{n_ended} ended, {n_refused} refused: both sides were reached");
}
