//! Scheduling by hand: who gets what in which step.

use std::collections::BTreeMap;

use super::turns::tests::with_falls;
use super::*;
use crate::request::Request;
use crate::sequence::Bounds;

const LIMITS: SchedulerLimits = SchedulerLimits {
    kv: KvLimits { n_pages: 8, n_slots: 3, n_snapshots: 0, is_recurrent: false, window: None },
    step_tokens: 32,
    queue_max: 4,
    snapshot_tokens: 32,
};

fn with_request(id: u64, request: Request) -> Sequence {
    let bounds = Bounds { context_tokens: 1000, n_vocab: 1000 };
    Sequence::new(RequestId(id), request, bounds, Instant::now()).unwrap()
}

/// Prompts of different sequences differ from their first token.
fn sequence(id: u64, n_prompt: usize, max_tokens: u32) -> Sequence {
    let first = u32::try_from(id).unwrap() + 1;
    with_request(id, Request::greedy(vec![first; n_prompt], max_tokens))
}

fn id(request: u64) -> SequenceId {
    SequenceId { request: RequestId(request), choice: 0 }
}

/// One step: request, choice and tokens of the chunks; computes them and gives every output a token.
fn step_choices(scheduler: &mut Scheduler, prefill_tokens: u32) -> Vec<(u64, u32, u32)> {
    let now = Instant::now();
    let chunks = scheduler.schedule(now, prefill_tokens);
    for chunk in &chunks {
        scheduler.complete(chunk).unwrap();
        if chunk.is_output && scheduler.accept(chunk.id, 1, now).is_some() {
            scheduler.remove(chunk.id).unwrap();
        }
    }
    chunks.iter().map(|c| (c.id.request.0, c.id.choice, c.n_tokens)).collect()
}

fn step(scheduler: &mut Scheduler) -> Vec<(u64, u32)> {
    step_choices(scheduler, u32::MAX).into_iter().map(|(request, _, n)| (request, n)).collect()
}

#[test]
fn decodes_go_first_and_prompts_share_the_rest_in_order_of_arrival() {
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(sequence(0, 5, 3)).unwrap();
    assert_eq!(step(&mut scheduler), [(0, 5)]);
    scheduler.submit(sequence(1, 40, 2)).unwrap();
    scheduler.submit(sequence(2, 4, 1)).unwrap();
    assert_eq!(step(&mut scheduler), [(0, 1), (1, 31)]);
    assert_eq!(step(&mut scheduler), [(0, 1), (1, 9), (2, 4)]);
    assert_eq!(step(&mut scheduler), [(1, 1)]);
    assert!(scheduler.is_idle());
    assert_eq!(step(&mut scheduler), []);
}

#[test]
fn prompts_get_no_more_than_is_allowed_beside_decodes() {
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(sequence(0, 40, 5)).unwrap();
    assert_eq!(step_choices(&mut scheduler, 7), [(0, 0, 32)], "nobody decodes");
    assert_eq!(step_choices(&mut scheduler, 7), [(0, 0, 8)]);
    scheduler.submit(sequence(1, 20, 5)).unwrap();
    assert_eq!(step_choices(&mut scheduler, 7), [(0, 0, 1), (1, 0, 7)]);
    assert_eq!(step_choices(&mut scheduler, 0), [(0, 0, 1), (1, 0, 1)], "it goes on in any case");
}

#[test]
fn sequences_that_have_all_their_pages_keep_none_free() {
    let kv = KvLimits { n_pages: 3, n_slots: 3, ..LIMITS.kv };
    let mut scheduler = Scheduler::new(SchedulerLimits { kv, ..LIMITS });
    // Ten tokens at most, of one page.
    (0..3).for_each(|id| scheduler.submit(sequence(id, 4, 6)).unwrap());
    assert_eq!(step(&mut scheduler), [(0, 4), (1, 4), (2, 4)]);
    // The first may come to two pages: one stays free for it.
    let mut scheduler = Scheduler::new(SchedulerLimits { kv, ..LIMITS });
    (0..3).for_each(|id| scheduler.submit(sequence(id, 4, if id == 0 { 20 } else { 6 })).unwrap());
    assert_eq!(step(&mut scheduler), [(0, 4), (1, 4)]);
}

#[test]
fn the_first_of_the_queue_is_not_overtaken_by_a_smaller_one() {
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(sequence(0, 70, 20)).unwrap(); // 5 of 8 pages
    scheduler.submit(sequence(1, 60, 4)).unwrap(); // 4 pages: has to wait
    scheduler.submit(sequence(2, 1, 1)).unwrap(); // would fit
    scheduler.schedule(Instant::now(), 32);
    let load = scheduler.load();
    assert_eq!((load.n_waiting, load.n_running, load.n_free_pages), (2, 1, 3));
    assert_eq!(scheduler.queue().collect::<Vec<_>>(), [(RequestId(1), 0), (RequestId(2), 1)]);
    scheduler.remove(id(0)).unwrap();
    scheduler.schedule(Instant::now(), 32);
    let load = scheduler.load();
    assert_eq!((load.n_waiting, load.n_running, load.n_free_pages), (0, 2, 3));
}

#[test]
fn no_more_run_than_there_are_slots() {
    let mut scheduler = Scheduler::new(LIMITS);
    for id in 0..4 {
        scheduler.submit(sequence(id, 1, 1)).unwrap();
    }
    scheduler.schedule(Instant::now(), 32);
    assert_eq!((scheduler.load().n_running, scheduler.load().n_waiting), (3, 1));
}

#[test]
fn a_full_queue_and_an_impossible_request_are_refused() {
    let mut scheduler = Scheduler::new(LIMITS);
    let refused = scheduler.submit(sequence(0, 100, 29)).unwrap_err();
    assert_eq!(refused, Refusal::NeverFits(OutOfPages { needed: 9, free: 8, n_pages: 8 }));
    for id in 0..4 {
        scheduler.submit(sequence(id, 100, 28)).unwrap();
    }
    assert_eq!(scheduler.submit(sequence(4, 1, 1)), Err(Refusal::QueueFull { queue_max: 4 }));
    scheduler.remove(id(2)).unwrap();
    scheduler.submit(sequence(4, 1, 1)).unwrap();
}

#[test]
fn removing_frees_everything_at_any_point() {
    let mut scheduler = Scheduler::new(LIMITS);
    for id in 0..3 {
        scheduler.submit(sequence(id, 50, 10)).unwrap();
    }
    step(&mut scheduler); // 0 is in the middle of its prompt, 1 and 2 wait
    for request in [2, 0, 1] {
        assert_eq!(scheduler.remove(id(request)).unwrap().id, id(request));
        assert!(scheduler.remove(id(request)).is_none());
    }
    let load = scheduler.load();
    assert_eq!((load.n_waiting, load.n_running, load.n_free_pages), (0, 0, 8));
}

#[test]
fn whoever_came_last_gives_up_its_pages_and_goes_on_where_it_was() {
    let mut scheduler = Scheduler::new(SchedulerLimits { step_tokens: 200, ..LIMITS });
    scheduler.submit(sequence(0, 47, 60)).unwrap(); // 3 pages now, 7 in the end
    scheduler.submit(sequence(1, 47, 40)).unwrap(); // 3 pages now, 6 in the end
    assert_eq!(step(&mut scheduler), [(0, 47), (1, 47)]);
    let mut n_steps = 0;
    while scheduler.counters().n_preemptions == 0 {
        step(&mut scheduler);
        n_steps += 1;
    }
    assert_eq!(n_steps, 18, "both go on until the ninth page is needed");
    assert_eq!(scheduler.load().n_waiting, 1);
    let waiting = &scheduler.waiting[0];
    assert_eq!((waiting.id, waiting.n_computed, waiting.n_generated()), (id(1), 0, 18));
    let mut of_second = Vec::new();
    while !scheduler.is_idle() {
        of_second.extend(step(&mut scheduler).into_iter().filter(|&(request, _)| request == 1).map(|(_, n)| n));
    }
    assert_eq!(of_second[0], 65 - 16, "the one page that is still there is not computed again");
    assert_eq!(of_second[1..], [1; 21]);
    assert_eq!(scheduler.load().n_free_pages, 8);
    assert_eq!(scheduler.counters().generated_tokens, 100);
}

#[test]
fn choices_begin_when_the_prompt_is_there_and_share_its_pages() {
    let mut scheduler = Scheduler::new(LIMITS);
    let request = Request { n_choices: 3, ..Request::greedy(vec![7; 40], 3) };
    scheduler.submit(with_request(0, request)).unwrap();
    assert_eq!(step_choices(&mut scheduler, 32), [(0, 0, 32)]);
    assert_eq!(step_choices(&mut scheduler, 32), [(0, 0, 8)]);
    assert_eq!(step_choices(&mut scheduler, 32), [(0, 0, 1), (0, 1, 8), (0, 2, 8)]);
    assert_eq!(scheduler.load().n_free_pages, 8 - 2 - 3);
    assert_eq!(step_choices(&mut scheduler, 32), [(0, 0, 1), (0, 1, 1), (0, 2, 1)]);
}

#[test]
fn a_choice_that_is_cancelled_early_leaves_the_others() {
    let mut scheduler = Scheduler::new(LIMITS);
    let request = Request { n_choices: 3, ..Request::greedy(vec![7; 40], 2) };
    scheduler.submit(with_request(0, request)).unwrap();
    step(&mut scheduler);
    let choice = |choice| SequenceId { choice, ..id(0) };
    assert!(scheduler.remove_sibling(choice(1)) && !scheduler.remove_sibling(choice(1)));
    scheduler.remove(choice(0)).unwrap();
    assert_eq!(step_choices(&mut scheduler, 32), [(0, 2, 8)], "the first two pages were computed already");
    assert_eq!(scheduler.remove_request(RequestId(0)).len(), 1);
    assert!(scheduler.is_idle());
}

#[test]
fn chunks_end_where_recurrent_state_is_kept() {
    let kv = KvLimits { n_snapshots: 4, is_recurrent: true, ..LIMITS.kv };
    let mut scheduler = Scheduler::new(SchedulerLimits { kv, step_tokens: 64, ..LIMITS });
    let request = Request { boundaries: vec![20], ..Request::greedy((0..60).collect(), 1) };
    scheduler.submit(with_request(0, request.clone())).unwrap();
    let steps: Vec<_> = (0..4).flat_map(|_| step(&mut scheduler)).collect();
    assert_eq!(steps, [(0, 16), (0, 16), (0, 16), (0, 12)]);
    let slot = 2; // the last of three was free first
    let copies: Vec<(u32, u32)> = scheduler.take_copies().iter().map(|c| (c.from, c.to)).collect();
    assert_eq!(copies.iter().map(|c| c.1).collect::<Vec<_>>(), [3, 4, 5]);
    assert!(copies.iter().all(|c| c.0 == copies[0].0 && c.0 <= slot));
    scheduler.submit(with_request(1, request)).unwrap();
    assert_eq!(step(&mut scheduler), [(1, 12)], "it goes on from the last snapshot");
    assert_eq!(scheduler.take_copies()[0].from, 5);
}

#[test]
fn deadlines_are_told_of_whoever_has_one() {
    let mut scheduler = Scheduler::new(LIMITS);
    let now = Instant::now();
    let late = |id, deadline| with_request(id, Request { deadline, ..Request::greedy(vec![1; 100], 9) });
    scheduler.submit(late(0, Some(now))).unwrap();
    scheduler.submit(late(1, None)).unwrap();
    scheduler.submit(late(2, Some(now))).unwrap();
    scheduler.submit(late(3, Some(now + Duration::from_secs(1)))).unwrap();
    scheduler.schedule(now, 32);
    assert_eq!(scheduler.load().n_running, 1);
    assert_eq!(scheduler.expired(now), [RequestId(0), RequestId(2)]);
}

/// Sequences that decode on a device whose steps take what [`with_falls`] says.
struct Decoding {
    scheduler: Scheduler,
    seconds: f64,
    /// Tokens of each sequence.
    n_tokens: BTreeMap<u64, u32>,
    left_out: Vec<SequenceId>,
}

impl Decoding {
    fn new(n: u64) -> Decoding {
        let kv = KvLimits { n_pages: 64 * 200, n_slots: 64, ..LIMITS.kv };
        let scheduler = Scheduler::new(SchedulerLimits { kv, step_tokens: 64, queue_max: 64, ..LIMITS });
        let mut decoding = Decoding { scheduler, seconds: 0.0, n_tokens: BTreeMap::new(), left_out: Vec::new() };
        (0..n).for_each(|id| decoding.join(id));
        decoding
    }

    /// A prompt of one token: there is nothing to do before its first step but to start.
    fn join(&mut self, id: u64) {
        let bounds = Bounds { context_tokens: 3000, n_vocab: 1000 };
        let request = Request::greedy(vec![1], 3000);
        let sequence = Sequence::new(RequestId(id), request, bounds, Instant::now()).unwrap();
        self.scheduler.submit(sequence).unwrap();
        self.n_tokens.insert(id, 0);
    }

    fn leave(&mut self, id: u64) {
        self.scheduler.remove(self::id(id)).unwrap();
        self.n_tokens.remove(&id);
    }

    fn step(&mut self) {
        let now = Instant::now();
        let chunks = self.scheduler.schedule(now, 64);
        for chunk in &chunks {
            self.scheduler.complete(chunk).unwrap();
            assert!(self.scheduler.accept(chunk.id, 1, now).is_none());
            *self.n_tokens.get_mut(&chunk.id.request.0).unwrap() += 1;
        }
        let ids = self.scheduler.running.iter().map(|r| r.sequence.id);
        let left_out: Vec<_> = ids.filter(|id| chunks.iter().all(|chunk| chunk.id != *id)).collect();
        let twice: Vec<_> = left_out.iter().filter(|id| self.left_out.contains(id)).collect();
        assert!(twice.is_empty(), "left out twice in a row: {twice:?}");
        self.left_out = left_out;
        let seconds = with_falls(chunks.len()) * 1e-3;
        self.seconds += seconds;
        self.scheduler.observe(&chunks, Duration::from_secs_f64(seconds));
    }

    fn steps(&mut self, n_steps: u32) {
        (0..n_steps).for_each(|_| self.step());
    }

    /// Tokens of whoever is behind, and of whoever is ahead.
    fn spread(&self) -> (u32, u32) {
        let n_tokens = self.n_tokens.values();
        (*n_tokens.clone().min().unwrap(), *n_tokens.max().unwrap())
    }
}

#[test]
fn whoever_takes_turns_gets_as_many_tokens_as_the_others() {
    for n in [17, 19, 24, 33, 40, 63] {
        let mut decoding = Decoding::new(n);
        for _ in 0..1000 {
            decoding.step();
            let (least, most) = decoding.spread();
            assert!(most - least <= 1, "{n} sequences: {:?}", decoding.n_tokens);
        }
        let n_rotated = decoding.scheduler.counters().n_rotated_steps;
        let is_rotating = [17, 19, 33, 40].contains(&n);
        assert!(if is_rotating { n_rotated > 980 } else { n_rotated < 20 }, "{n} sequences: {n_rotated} steps");
    }
}

#[test]
fn nobody_is_left_out_twice_when_others_join_and_leave() {
    let mut decoding = Decoding::new(14);
    decoding.steps(3);
    (14..45).for_each(|id| decoding.join(id));
    decoding.steps(100);
    assert_eq!(decoding.left_out.len(), 13);
    // All of those left out stay and all but one of the others go: the next step would be the first of 8 of 14.
    let is_left_out = |id: u64| decoding.left_out.contains(&self::id(id));
    let others: Vec<u64> = (0..45).filter(|&id| !is_left_out(id)).collect();
    others[1..].iter().for_each(|&id| decoding.leave(id));
    decoding.step();
    assert!(decoding.left_out.is_empty());
    decoding.step();
    assert_eq!(decoding.left_out.len(), 6);
    (45..74).for_each(|id| {
        decoding.steps(10);
        decoding.join(id);
    });
    for (nth, id) in (74..1000).enumerate() {
        decoding.join(id);
        (0..=nth * 7 % 5).for_each(|_| decoding.step());
        let gone = *decoding.n_tokens.keys().nth(nth % decoding.n_tokens.len()).unwrap();
        decoding.leave(gone);
        (0..nth * 11 % 3).for_each(|_| decoding.step());
    }
    assert!(decoding.scheduler.counters().n_rotated_steps > 1000);
}

#[test]
fn another_sequence_never_makes_all_slower() {
    let mut best = 0.0f64;
    for n in 1..=64 {
        let mut decoding = Decoding::new(n);
        decoding.steps(200);
        let (before, begun) = (decoding.n_tokens.values().sum::<u32>(), decoding.seconds);
        decoding.steps(512);
        let n_tokens = decoding.n_tokens.values().sum::<u32>() - before;
        let rate = f64::from(n_tokens) / (decoding.seconds - begun);
        assert!(rate > 0.99 * best, "{n} sequences: {rate} tokens per second, fewer had {best}");
        best = best.max(rate);
    }
    assert!((4_900.0..5_000.0).contains(&best), "64 in 13 ms: {best}");
}

#[test]
fn a_prompt_ends_the_turns() {
    let mut decoding = Decoding::new(17);
    decoding.steps(32);
    assert_eq!(decoding.left_out.len(), 1);
    decoding.scheduler.submit(sequence(17, 100, 5)).unwrap();
    let chunks = decoding.scheduler.schedule(Instant::now(), 40);
    let n_tokens: Vec<u32> = chunks.iter().map(|chunk| chunk.n_tokens).collect();
    assert_eq!(n_tokens, [vec![1; 17], vec![40]].concat());
}
