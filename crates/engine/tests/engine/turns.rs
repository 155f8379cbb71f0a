//! Sequences that take turns since fewer at a time are faster, by a clock that the device moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zinc_engine::constraint::Constraint;
use zinc_engine::request::Request;
use zinc_engine::{Engine, EngineConfig};

use crate::probe::{Interference, Probe};
use crate::structured::{constrained, vocabulary};
use crate::tiny::{CONFIG, drain, engine_on, prompt, request};

/// An engine for five sequences on a device with such costs; the sizes of its steps are noted.
fn timed(cost: fn(usize) -> u64) -> (Engine, impl Fn() -> Vec<usize>) {
    let zero = Instant::now();
    let milliseconds = Arc::new(AtomicU64::new(0));
    let probe = Probe::new(Interference::Clock { milliseconds: Arc::clone(&milliseconds), cost });
    let seen = Arc::clone(&probe.seen);
    let clock = move || zero + Duration::from_millis(milliseconds.load(Ordering::Relaxed));
    let engine = engine_on(Box::new(probe), EngineConfig { sequences_max: 5, ..CONFIG });
    let engine = engine.with_clock(Box::new(clock)).with_vocabulary(vocabulary()).unwrap();
    (engine, move || seen.lock().unwrap().submitted.iter().map(|batch| batch.n_tokens()).collect())
}

/// Five requests, one of which draws and is held to a grammar.
fn requests() -> Vec<Request> {
    let mut requests: Vec<Request> = (0..4).map(|which| request(prompt(which, 1), 60)).collect();
    requests.push(constrained(4, Constraint::Regex("[a-f]{60}".into())));
    requests
}

#[test]
fn who_takes_turns_says_what_it_would_say_alone() {
    let (mut engine, sizes) = timed(|n_tokens| if n_tokens <= 4 { 10 } else { 40 });
    let ids: Vec<_> = requests().into_iter().map(|request| engine.submit(request).unwrap()).collect();
    let answers = drain(&mut engine);
    for (request, id) in requests().into_iter().zip(ids) {
        let (mut alone, _) = timed(|_| 1);
        alone.submit(request).unwrap();
        assert_eq!(answers.of(id).ids().len(), 60);
        assert_eq!(drain(&mut alone).0.values().next().unwrap().ids(), answers.of(id).ids());
    }
    let n_of = |n| sizes().iter().filter(|&&size| size == n).count();
    // 300 tokens in all: a few steps of five until their time is known, and the trials.
    assert!(n_of(5) <= 14 && n_of(4) >= 55, "{:?}", sizes());
    // Those of four at the end may be all that are left.
    let n_rotated = engine.stats().n_rotated_steps;
    assert!((50..=n_of(4) as u64).contains(&n_rotated), "{n_rotated} steps");
}

#[test]
fn all_are_in_every_step_where_each_costs_the_same() {
    let (mut engine, sizes) = timed(|n_tokens| 1 + 10 * n_tokens as u64);
    for request in requests() {
        engine.submit(request).unwrap();
    }
    drain(&mut engine);
    let n_of = |n| sizes().iter().filter(|&&size| size == n).count();
    assert!(n_of(5) >= 50, "{:?}", sizes());
    assert!(engine.stats().n_rotated_steps <= 8, "three to know their time, four soon after, and one in 128");
}
