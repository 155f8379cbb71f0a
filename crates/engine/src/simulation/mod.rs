//! Seeded simulation of the scheduler: no model, a clock that is moved by hand, random arrivals,
//! lengths, choices and cancels, texts that begin alike, and too few pages. After every step the
//! invariants are checked; a failure names its seed, which replays it. [`faults`] plants faults and
//! shows that they are found.

mod device;
mod faults;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use zinc_graph::Batch;

use crate::batch::{self, Outputs, Span};
use crate::kv::{KvLimits, PAGE_TOKENS, PageId, Root, WindowLimits, pages_for, window_pages};
use crate::request::{RequestId, SequenceId};
use crate::scheduler::{Chunk, Refusal, Scheduler, SchedulerLimits};
use crate::sequence::Sequence;
use device::{Costs, Device};
use faults::Fault;
use workload::Workload;

/// A sequence that was submitted, or will be when its prompt is computed, and has not ended.
struct Alive {
    /// Hashes at the ends of its full pages.
    page_hashes: Vec<u64>,
    is_running: bool,
}

struct Simulation {
    limits: SchedulerLimits,
    scheduler: Scheduler,
    device: Device,
    workload: Workload,
    fault: Option<Fault>,
    step: u64,
    start: Instant,
    batch: Batch,
    outputs: Vec<u64>,
    alive: BTreeMap<SequenceId, Alive>,
    /// The first of the queue, and the step by which it must have begun.
    head: Option<(SequenceId, u64)>,
    costs: Costs,
    /// Who decodes and had no part in the last step.
    left_out: BTreeSet<SequenceId>,
    /// Preemptions up to the last step.
    n_preemptions: u64,
    /// Holders of each page, counted anew each step, and whose it is.
    holders: Vec<(u32, Option<Root>)>,
    /// The same for pages of windows.
    window_holders: Vec<u32>,
    n_submitted: u64,
    n_ended: u64,
    n_refused: u64,
}

impl Simulation {
    fn new(seed: u64, fault: Option<Fault>) -> Simulation {
        let mut workload = Workload::new(seed);
        let n_slots = 1 + workload.draw(8);
        let is_recurrent = workload.draw(2) == 0;
        let n_snapshots = if is_recurrent { workload.draw(8) } else { 0 };
        let n_pages = 10 + workload.draw(30);
        // From hardly enough to more than is ever needed.
        let window = (workload.draw(2) == 0).then(|| {
            let tokens = 1 + workload.draw(60);
            WindowLimits { tokens, n_pages: window_pages(tokens, 1).min(n_pages) + workload.draw(20) }
        });
        let kv = KvLimits { n_pages, n_slots, n_snapshots, is_recurrent, window };
        let limits = SchedulerLimits {
            kv,
            step_tokens: n_slots + workload.draw(64),
            queue_max: 1 + workload.draw(9),
            snapshot_tokens: PAGE_TOKENS * (1 + workload.draw(4)),
        };
        Simulation {
            limits,
            scheduler: Scheduler::new(limits),
            device: Device::new(&kv),
            workload,
            fault,
            step: 0,
            start: Instant::now(),
            batch: Batch::default(),
            outputs: Vec::new(),
            alive: BTreeMap::new(),
            head: None,
            costs: Costs::of_seed(seed),
            left_out: BTreeSet::new(),
            n_preemptions: 0,
            holders: vec![(0, None); kv.n_pages as usize],
            window_holders: vec![0; kv.window.map_or(0, |window| window.n_pages) as usize],
            n_submitted: 0,
            n_ended: 0,
            n_refused: 0,
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.step)
    }

    fn arrive(&mut self) {
        let id = RequestId(self.n_submitted);
        self.n_submitted += 1;
        let now = self.now();
        let request = self.workload.request(now);
        let n_choices = request.n_choices;
        let sequence = Sequence::new(id, request, workload::BOUNDS, now).expect("greedy sampling makes sense");
        let needed = pages_for(sequence.tokens_max());
        let n_queued = self.scheduler.waiting.iter().filter(|s| !s.has_begun()).count();
        match self.scheduler.submit(sequence) {
            Ok(()) => {
                assert!(needed <= self.limits.kv.n_pages && n_queued < self.limits.queue_max as usize);
                for choice in 0..n_choices {
                    let alive = Alive { page_hashes: Vec::new(), is_running: false };
                    self.alive.insert(SequenceId { request: id, choice }, alive);
                }
            }
            Err(Refusal::NeverFits(_)) => {
                assert!(needed > self.limits.kv.n_pages);
                self.n_refused += 1;
            }
            Err(Refusal::QueueFull { queue_max }) => {
                assert_eq!(n_queued, queue_max as usize);
                self.n_refused += 1;
            }
        }
    }

    /// Ends a choice or a whole request before its time.
    fn cancel_one(&mut self) {
        let n_alive = u32::try_from(self.alive.len()).expect("few are alive");
        if n_alive == 0 {
            return;
        }
        let nth = self.workload.draw(n_alive) as usize;
        let id = *self.alive.keys().nth(nth).expect("below their number");
        if self.workload.draw(2) == 0 {
            self.end_request(id.request);
        } else if self.scheduler.remove(id).is_some() || self.scheduler.remove_sibling(id) {
            self.ended(id);
            assert!(self.scheduler.remove(id).is_none() && !self.scheduler.remove_sibling(id));
        } else {
            panic!("{id} is alive and nowhere");
        }
    }

    fn end_request(&mut self, request: RequestId) {
        for sequence in self.scheduler.remove_request(request) {
            for choice in sequence.siblings {
                self.ended(SequenceId { request, choice });
            }
            self.ended(sequence.id);
        }
        let first = SequenceId { request, choice: 0 };
        let last = SequenceId { request, choice: u32::MAX };
        assert!(self.alive.range(first..=last).next().is_none(), "{request} ended and some of it is left");
    }

    fn ended(&mut self, id: SequenceId) {
        assert!(self.alive.remove(&id).is_some(), "{id} ended twice or never began");
        self.n_ended += 1;
    }

    fn step(&mut self) {
        self.step += 1;
        let now = self.now();
        for request in self.scheduler.expired(now) {
            self.end_request(request);
        }
        let prefill_tokens = 1 + self.workload.draw(64);
        let chunks = self.schedule(now, prefill_tokens);
        self.check_chunks(&chunks, prefill_tokens);
        self.check_order();
        self.check_memory();
        self.check_windows(self.limits.step_tokens);
        self.check_contents();
        if !chunks.is_empty() {
            self.compute(&chunks);
            self.land(&chunks, now);
            let n_tokens = chunks.iter().map(|c| c.n_tokens).sum();
            self.scheduler.observe(&chunks, self.costs.step(n_tokens, self.step));
        }
        self.check_memory();
        self.check_windows(1);
    }

    fn schedule(&mut self, now: Instant, prefill_tokens: u32) -> Vec<Chunk> {
        let is_due = self.step > 50 && self.workload.draw(4) == 0;
        if let Some(fault) = self.fault.filter(|_| is_due) {
            self.plant(fault);
        }
        let overtaken = self.starved();
        let chunks = self.scheduler.schedule(now, prefill_tokens);
        overtaken.into_iter().for_each(|sequence| self.scheduler.waiting.push_front(sequence));
        chunks
    }

    fn compute(&mut self, chunks: &[Chunk]) {
        let copies = self.scheduler.take_copies();
        let lost = self.lost_copies(copies.len());
        copies.into_iter().skip(lost).for_each(|copy| self.device.copy(copy));
        let scheduler = &self.scheduler;
        let spans: Vec<Span<'_>> = chunks.iter().map(|chunk| span_of(scheduler, chunk)).collect();
        batch::fill(&mut self.batch, &spans);
        self.device.compute(&self.batch, &mut self.outputs);
    }

    fn land(&mut self, chunks: &[Chunk], now: Instant) {
        let mut row = 0;
        // Some are cancelled while the device works.
        if self.workload.draw(16) == 0 {
            self.cancel_one();
        }
        for chunk in chunks {
            let output = chunk.is_output.then(|| self.outputs[row]);
            row += usize::from(chunk.is_output);
            if self.scheduler.complete(chunk).is_none() {
                assert!(!self.alive.contains_key(&chunk.id), "{} runs and its step was lost", chunk.id);
                continue;
            }
            let Some(hash) = output else { continue };
            let token = device::choose(hash, chunk.id.choice);
            if self.scheduler.accept(chunk.id, token, now).is_some() {
                let sequence = self.scheduler.remove(chunk.id).expect("it runs");
                self.workload.check_answer(&sequence);
                self.ended(chunk.id);
            }
        }
    }

    /// The budget is held, and whoever runs goes on.
    fn check_chunks(&mut self, chunks: &[Chunk], prefill_tokens: u32) {
        let n_tokens: u32 = chunks.iter().map(|c| c.n_tokens).sum();
        assert!(n_tokens <= self.limits.step_tokens, "the budget is held");
        assert_eq!(chunks.is_empty(), self.alive.is_empty(), "a step makes progress while anyone is alive");
        let n_decodes = chunks.iter().take_while(|c| c.n_tokens == 1 && c.is_output).count();
        let n_prefill: u32 = chunks[n_decodes..].iter().map(|c| c.n_tokens).sum();
        assert!(n_decodes == 0 || n_prefill <= prefill_tokens, "prompts do not hold up who decodes");
        let mut n_chunks = 0;
        let mut left_out = BTreeSet::new();
        for (index, running) in self.scheduler.running.iter().enumerate() {
            let id = running.sequence.id;
            let mut of_sequence = chunks.iter().filter(|c| c.id == id);
            let chunk = of_sequence.next();
            assert!(of_sequence.next().is_none(), "a sequence has one chunk");
            n_chunks += usize::from(chunk.is_some());
            let is_decode = running.sequence.n_pending() == 1;
            match chunk {
                Some(chunk) => assert!(!is_decode || chunk.n_tokens == 1 && chunk.is_output, "{id} decodes"),
                None if is_decode => drop(left_out.insert(id)),
                None => assert!(index > 0, "{id} came first and does not go on"),
            }
            let written = running.sequence.n_computed..running.sequence.n_computed + chunk.map_or(0, |c| c.n_tokens);
            for page in written.map(|position| position / PAGE_TOKENS) {
                let page = running.kv.table.pages()[page as usize];
                assert_eq!(self.scheduler.kv.pool().n_refs(page), 1, "{id} writes where others read");
            }
        }
        assert_eq!(n_chunks, chunks.len(), "only running sequences have chunks");
        self.check_turns(left_out, chunks.len());
    }

    /// Who decodes is left out only where all decode, by a step of a power of two, and goes on in the next.
    fn check_turns(&mut self, left_out: BTreeSet<SequenceId>, n_chunks: usize) {
        let twice: Vec<_> = left_out.intersection(&self.left_out).collect();
        assert!(twice.is_empty(), "{twice:?} were left out twice in a row");
        if !left_out.is_empty() {
            let mut running = self.scheduler.running.iter();
            assert!(running.all(|r| r.sequence.n_pending() == 1), "{left_out:?} were left out beside prompts");
            // Fewer if some have just lost their pages.
            let is_whole = n_chunks.is_power_of_two() && left_out.len() < n_chunks;
            let has_preempted = self.scheduler.counters().n_preemptions > self.n_preemptions;
            assert!(is_whole || has_preempted, "{left_out:?} were left out beside {n_chunks}");
        }
        self.n_preemptions = self.scheduler.counters().n_preemptions;
        self.left_out = left_out;
    }

    /// Nobody overtakes, and nobody waits for ever.
    fn check_order(&mut self) {
        let first_waiting = self.scheduler.waiting.front().map(|s| s.id);
        for running in &self.scheduler.running {
            let id = running.sequence.id;
            let alive = self.alive.get_mut(&id).expect("only who is alive runs");
            let has_begun = !std::mem::replace(&mut alive.is_running, true);
            assert!(!has_begun || first_waiting.is_none_or(|first| id < first), "{id} overtook {first_waiting:?}");
        }
        for waiting in &self.scheduler.waiting {
            self.alive.get_mut(&waiting.id).expect("only who is alive waits").is_running = false;
        }
        match (first_waiting, self.head) {
            (Some(first), Some((head, due))) if first == head => {
                assert!(self.step <= due, "{head} has waited for longer than those before it can take");
            }
            (Some(first), _) => {
                let work: u32 = self.scheduler.running.iter().map(|r| r.sequence.tokens_max()).sum();
                self.head = Some((first, self.step + u64::from(work)));
            }
            (None, _) => self.head = None,
        }
    }

    /// Every page has the holders that it counts, and none is lost.
    fn check_memory(&mut self) {
        self.holders.fill((0, None));
        let mut slots = 0u64;
        for running in &self.scheduler.running {
            let (id, root) = (running.sequence.id, running.sequence.root);
            let table = running.kv.table.pages();
            assert!(table.len() * 16 >= running.sequence.n_computed as usize, "{id}: every token has a place");
            for page in table {
                let (n, owner) = &mut self.holders[page.0 as usize];
                assert!(owner.is_none_or(|owner| owner == root), "{id} reads what belongs to others");
                *owner = Some(root);
                *n += 1;
            }
            let slot = running.kv.slot;
            assert!(slot < self.limits.kv.n_slots && slots & 1 << slot == 0, "no slot has two owners");
            slots |= 1 << slot;
        }
        let load = self.scheduler.load();
        let mut n_held = 0;
        for (page, &(n, _)) in (0..).zip(&self.holders) {
            assert_eq!(self.scheduler.kv.pool().n_refs(PageId(page)), n, "page {page} has {n} holders");
            n_held += usize::from(n > 0);
        }
        assert_eq!(n_held + load.n_free_pages, load.n_pages, "no page is lost");
        assert_eq!(self.scheduler.kv.n_free_slots() + load.n_running, self.limits.kv.n_slots as usize);
        let running = self.scheduler.running.iter().map(|r| &r.sequence);
        let n_siblings: usize = running.chain(&self.scheduler.waiting).map(|s| s.siblings.len()).sum();
        assert_eq!(load.n_running + load.n_waiting + n_siblings, self.alive.len(), "everyone is somewhere");
    }

    /// The same for pages of windows, of which nobody holds more than `n_tokens` tokens of a step can see.
    fn check_windows(&mut self, n_tokens: u32) {
        let (Some(window), Some(pool)) = (self.limits.kv.window, self.scheduler.kv.window_pool()) else { return };
        self.window_holders.fill(0);
        for running in &self.scheduler.running {
            let id = running.sequence.id;
            let table = running.kv.window.as_ref().expect("every sequence has a window if one has");
            let n_held = u32::try_from(table.pages().len()).expect("few pages");
            assert!(n_held <= window_pages(window.tokens, n_tokens), "{id} holds {n_held} pages of its window");
            table.pages().for_each(|page| self.window_holders[page.0 as usize] += 1);
        }
        let mut n_held = 0;
        for (page, &n) in (0..).zip(&self.window_holders) {
            assert_eq!(pool.n_refs(PageId(page)), n, "page {page} of windows has {n} holders");
            n_held += usize::from(n > 0);
        }
        assert_eq!(n_held + pool.n_free(), pool.n_pages(), "no page of a window is lost");
        self.scheduler.kv.check_windows();
    }

    /// What a sequence will read is what its own tokens give.
    fn check_contents(&mut self) {
        for running in &self.scheduler.running {
            let (sequence, table) = (&running.sequence, &running.kv.table);
            let alive = self.alive.get_mut(&sequence.id).expect("only who is alive runs");
            let n_full = (sequence.n_computed / PAGE_TOKENS) as usize;
            let hashes = &mut alive.page_hashes;
            while hashes.len() < n_full {
                let tokens = &sequence.tokens[hashes.len() * PAGE_TOKENS as usize..][..PAGE_TOKENS as usize];
                hashes.push(device::grown(hashes.last().copied().unwrap_or(device::empty()), tokens));
            }
            for (page, hash) in table.pages().iter().zip(&hashes[..n_full]) {
                let slot = page.0 * PAGE_TOKENS + PAGE_TOKENS - 1;
                assert_eq!(self.device.at(slot), *hash, "{} reads what other tokens left", sequence.id);
            }
        }
    }
}

fn span_of<'a>(scheduler: &'a Scheduler, chunk: &Chunk) -> Span<'a> {
    let running = scheduler.running(chunk.id).expect("chunks are of running sequences");
    let start = running.sequence.n_computed;
    let ids = &running.sequence.tokens[start as usize..][..chunk.n_tokens as usize];
    let outputs = if chunk.is_output { Outputs::Last } else { Outputs::None };
    Span { ids, start, kv: &running.kv, outputs }
}

fn simulate(seed: u64, n_steps: u64, fault: Option<Fault>) -> Simulation {
    let mut simulation = Simulation::new(seed, fault);
    while simulation.step < n_steps {
        // Busy times and quiet ones.
        let arrivals = if (simulation.step / 512).is_multiple_of(2) { 3 } else { 16 };
        if simulation.workload.draw(arrivals) == 0 {
            simulation.arrive();
        }
        if simulation.workload.draw(48) == 0 {
            simulation.cancel_one();
        }
        simulation.step();
    }
    while !simulation.scheduler.is_idle() {
        simulation.step();
        assert!(simulation.step < n_steps + 100_000, "no request is starved");
    }
    simulation
}

/// What the seeds of a range came to.
#[derive(Debug, Default)]
struct Totals {
    n_ended: u64,
    n_refused: u64,
    n_preemptions: u64,
    n_rotated_steps: u64,
    prefix_hit_tokens: u64,
    /// Those of seeds with windows.
    window_hit_tokens: u64,
    n_steps: u64,
}

fn run_seeds(seeds: std::ops::Range<u64>, n_steps: u64) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(|| simulate(seed, n_steps, None));
        let Ok(end) = result else { panic!("seed {seed} breaks an invariant") };
        assert!(end.alive.is_empty(), "seed {seed}: every request ends");
        let load = end.scheduler.load();
        assert_eq!(load.n_free_pages, end.limits.kv.n_pages as usize, "seed {seed}: the pool is as it was");
        assert_eq!(load.n_free_window_pages, load.n_window_pages, "seed {seed}: so is that of windows");
        totals.window_hit_tokens += match end.limits.kv.window {
            Some(_) => end.scheduler.counters().prefix_hit_tokens,
            None => 0,
        };
        totals.n_ended += end.n_ended;
        totals.n_refused += end.n_refused;
        totals.n_steps += end.step;
        totals.n_preemptions += end.scheduler.counters().n_preemptions;
        totals.n_rotated_steps += end.scheduler.counters().n_rotated_steps;
        totals.prefix_hit_tokens += end.scheduler.counters().prefix_hit_tokens;
    }
    totals
}

#[test]
fn invariants_hold_for_ten_million_steps() {
    const N_SEEDS: u64 = 1000;
    const N_STEPS: u64 = 10_000;
    let n_threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let share = N_SEEDS.div_ceil(n_threads);
    let totals = std::thread::scope(|scope| {
        let seeds = |i: u64| i * share..((i + 1) * share).min(N_SEEDS);
        let threads: Vec<_> = (0..n_threads).map(|i| scope.spawn(move || run_seeds(seeds(i), N_STEPS))).collect();
        threads.into_iter().fold(Totals::default(), |sum, thread| {
            let totals = thread.join().unwrap();
            Totals {
                n_ended: sum.n_ended + totals.n_ended,
                n_refused: sum.n_refused + totals.n_refused,
                n_preemptions: sum.n_preemptions + totals.n_preemptions,
                n_rotated_steps: sum.n_rotated_steps + totals.n_rotated_steps,
                prefix_hit_tokens: sum.prefix_hit_tokens + totals.prefix_hit_tokens,
                window_hit_tokens: sum.window_hit_tokens + totals.window_hit_tokens,
                n_steps: sum.n_steps + totals.n_steps,
            }
        })
    });
    eprintln!("{totals:?}");
    assert!(totals.n_steps >= N_SEEDS * N_STEPS);
    assert!(totals.n_ended > 100_000 && totals.n_refused > 10_000, "both sides were reached: {totals:?}");
    assert!(totals.n_preemptions > 10_000 && totals.prefix_hit_tokens > 100_000, "so was the rest: {totals:?}");
    assert!(totals.n_rotated_steps > 100_000, "sequences took turns: {totals:?}");
    assert!(totals.window_hit_tokens > 100_000, "prefixes are taken over with windows too: {totals:?}");
}
