//! The engine's thread. A gate lets the tests decide when a step may run, so nothing sleeps.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zinc_engine::request::{FinishReason, RequestId};
use zinc_engine::scheduler::Refusal;
use zinc_engine::{EngineConfig, Error, Event, Request, Runtime};

use crate::probe::{Interference, Probe, Seen};
use crate::tiny::{self, Answer, CONFIG, alone, prompt, request};

fn start(config: EngineConfig) -> Runtime {
    Runtime::start(tiny::engine(config)).unwrap()
}

/// A runtime whose steps each need a permit, and the test's ends of its gate.
struct Gated {
    runtime: Runtime,
    /// One for each step that is about to run.
    arrivals: Receiver<()>,
    permits: Sender<()>,
    seen: Arc<Mutex<Seen>>,
}

fn gated(config: EngineConfig) -> Gated {
    gated_by(config, |arrivals, permits| Interference::Gate { arrivals, permits })
}

fn gated_by(config: EngineConfig, gate: fn(Sender<()>, Receiver<()>) -> Interference) -> Gated {
    let (arrivals_in, arrivals) = mpsc::channel();
    let (permits, permits_out) = mpsc::channel();
    let probe = Probe::new(gate(arrivals_in, permits_out));
    let seen = Arc::clone(&probe.seen);
    let runtime = Runtime::start(tiny::engine_on(Box::new(probe), config)).unwrap();
    Gated { runtime, arrivals, permits, seen }
}

fn submit(runtime: &Runtime, request: Request) -> (RequestId, Receiver<Event>) {
    let (sender, events) = mpsc::channel();
    (runtime.submit(request, sender).unwrap(), events)
}

/// Every event until the channel closes.
fn collect(events: &Receiver<Event>) -> Answer {
    let mut answer = Answer::default();
    events.iter().for_each(|event| answer.add(event));
    answer
}

#[test]
fn requests_from_several_threads_each_get_their_own_answer() {
    let runtime = start(CONFIG);
    std::thread::scope(|scope| {
        for which in 0..6u64 {
            let runtime = &runtime;
            scope.spawn(move || {
                let wanted = request(prompt(which, 5 + 7 * u32::try_from(which).unwrap()), 9);
                let (_, events) = submit(runtime, wanted.clone());
                assert_eq!(collect(&events).ids(), alone(CONFIG, wanted).ids());
            });
        }
    });
    assert!(runtime.broken().is_none());
}

#[test]
fn a_cancelled_request_ends_and_the_next_one_runs() {
    let Gated { runtime, arrivals, permits, .. } = gated(EngineConfig { sequences_max: 1, ..CONFIG });
    let (first, first_events) = submit(&runtime, request(prompt(1, 40), 50));
    let (_, second_events) = submit(&runtime, request(prompt(2, 4), 3));
    arrivals.recv().unwrap();
    permits.send(()).unwrap();
    assert!(matches!(first_events.recv(), Ok(Event::Prefill { computed: 16, cached: 0, total: 40 })));
    runtime.cancel(first);
    drop(permits);
    let answer = collect(&first_events);
    assert!(matches!(answer.done().reason, FinishReason::Cancelled));
    assert!(answer.tokens.is_empty(), "it was cancelled before its prompt was computed");
    assert_eq!(collect(&second_events).ids(), alone(CONFIG, request(prompt(2, 4), 3)).ids());
    runtime.cancel(first);
}

#[test]
fn a_client_that_is_gone_is_cancelled() {
    let config = EngineConfig { sequences_max: 1, context_tokens: 4096, ..CONFIG };
    let Gated { runtime, arrivals, permits, seen } = gated(config);
    let (_, events) = submit(&runtime, request(prompt(1, 4), 4000));
    let (_, waiting) = submit(&runtime, request(prompt(2, 4), 3));
    arrivals.recv().unwrap();
    permits.send(()).unwrap();
    assert!(matches!(events.recv(), Ok(Event::Prefill { .. })));
    drop(events);
    drop(permits);
    assert_eq!(collect(&waiting).ids().len(), 3);
    // It is noticed at the next token; how many steps pass meanwhile is the threads' affair.
    assert!(seen.lock().unwrap().submitted.len() < 3000, "the 4000 tokens that nobody wants are not computed");
    assert_eq!(runtime.stats().n_cancelled, 1);
}

#[test]
fn the_figures_know_of_a_client_that_left_though_nothing_else_happens() {
    let Gated { runtime, arrivals, permits, .. } = gated(CONFIG);
    let (_, events) = submit(&runtime, request(prompt(1, 4), 60));
    arrivals.recv().unwrap();
    drop(events);
    drop(permits);
    let end = Instant::now() + Duration::from_secs(20);
    while runtime.stats().n_cancelled == 0 && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(runtime.stats().n_cancelled, 1);
}

#[test]
fn a_slow_reader_loses_its_own_stream_and_no_other() {
    let runtime = start(CONFIG);
    let (sender, slow) = mpsc::sync_channel(4);
    runtime.submit(request(prompt(1, 4), 60), sender).unwrap();
    let (_, events) = submit(&runtime, request(prompt(2, 4), 60));
    assert_eq!(collect(&events).ids(), alone(CONFIG, request(prompt(2, 4), 60)).ids());
    let slow = collect(&slow);
    assert!(slow.done.is_none(), "its events end without a Done");
    assert_eq!((slow.tokens.len(), slow.prefills.len()), (3, 1));
}

#[test]
fn a_full_reader_misses_news_of_its_prompt_and_goes_on() {
    let Gated { runtime, arrivals, permits, .. } = gated(EngineConfig { step_tokens: 4, ..CONFIG });
    let (sender, events) = mpsc::sync_channel(1);
    runtime.submit(request(prompt(1, 12), 1), sender).unwrap();
    for _ in 0..2 {
        arrivals.recv().unwrap();
        permits.send(()).unwrap();
    }
    // A request behind it whose events arrive after those of its first two steps.
    let (_, later) = submit(&runtime, request(vec![1], 1));
    arrivals.recv().unwrap();
    assert!(matches!(events.recv(), Ok(Event::Prefill { computed: 4, .. })));
    drop(permits);
    assert_eq!(collect(&later).ids().len(), 1);
    assert!(runtime.broken().is_none());
}

/// A device that computes by itself, of which each step needs a permit to be done: what a step made is held back until
/// the next one is launched, and commands come in between.
fn by_itself(n_steps: usize) -> Gated {
    let config = EngineConfig { context_tokens: 4096, ..CONFIG };
    let gated = gated_by(config, |arrivals, permits| Interference::ByItself { arrivals, permits });
    (0..n_steps).for_each(|_| gated.permits.send(()).unwrap());
    gated
}

#[test]
fn a_device_by_itself_hands_out_what_it_has_made_before_an_end() {
    for n_steps in 0..6 {
        let Gated { runtime, arrivals, permits, .. } = by_itself(n_steps);
        let (id, events) = submit(&runtime, request(prompt(1, 4), 4000));
        // The step that is being waited for makes a token, and the end comes behind it.
        (0..=n_steps).for_each(|_| arrivals.recv().unwrap());
        runtime.cancel(id);
        permits.send(()).unwrap();
        drop((arrivals, permits));
        let answer = collect(&events);
        let done = answer.done();
        assert!(matches!(done.reason, FinishReason::Cancelled));
        assert_eq!(answer.tokens.len(), done.usage.generated_tokens as usize, "after {n_steps} steps");
    }
}

#[test]
fn an_answer_is_not_held_back_by_the_end_of_another() {
    for n_steps in 0..8 {
        let Gated { runtime, arrivals, permits, .. } = by_itself(n_steps);
        let (other, others) = submit(&runtime, request(prompt(2, 4), 4000));
        let (_, events) = submit(&runtime, request(prompt(1, 4), 4));
        (0..=n_steps).for_each(|_| arrivals.recv().unwrap());
        runtime.cancel(other);
        permits.send(()).unwrap();
        drop((arrivals, permits));
        let mut answer = Answer::default();
        while answer.done.is_none() {
            answer.add(events.recv_timeout(Duration::from_secs(20)).expect("its last step is done"));
        }
        assert_eq!(answer.tokens.len(), 4, "after {n_steps} steps");
        drop(others);
    }
}

fn delivering_late(config: EngineConfig) -> (Runtime, Arc<Mutex<Seen>>) {
    let probe = Probe::new(Interference::LateAside);
    let seen = Arc::clone(&probe.seen);
    (Runtime::start(tiny::engine_on(Box::new(probe), config)).unwrap(), seen)
}

#[test]
fn events_that_are_delivered_late_all_arrive_in_order() {
    let (runtime, _) = delivering_late(CONFIG);
    let wanted = |which: u64| Request { n_choices: 2, ..request(prompt(which, 30), 12) };
    let answers: Vec<_> = (0..5).map(|which| submit(&runtime, wanted(which)).1).collect();
    for (which, events) in answers.iter().enumerate() {
        let (answer, expected) = (collect(events), alone(CONFIG, wanted(which as u64)));
        for choice in 0..2 {
            assert_eq!(answer.of_choice(choice), expected.of_choice(choice));
        }
        assert_eq!(answer.choices.len(), 2);
    }
}

#[test]
fn a_cancelled_request_gets_the_tokens_that_were_on_their_way() {
    let (runtime, _) = delivering_late(EngineConfig { context_tokens: 4096, ..CONFIG });
    for n_read in 0..20 {
        let (id, events) = submit(&runtime, request(prompt(1, 4), 4000));
        let mut answer = Answer::default();
        while answer.tokens.len() < n_read {
            answer.add(events.recv().unwrap());
        }
        runtime.cancel(id);
        events.iter().for_each(|event| answer.add(event));
        let done = answer.done();
        assert!(matches!(done.reason, FinishReason::Cancelled));
        assert_eq!(answer.tokens.len(), done.usage.generated_tokens as usize);
    }
}

#[test]
fn late_delivery_notices_who_is_gone_and_who_is_slow() {
    let (runtime, seen) = delivering_late(EngineConfig { sequences_max: 1, context_tokens: 4096, ..CONFIG });
    let (_, gone) = submit(&runtime, request(prompt(1, 4), 4000));
    let (sender, slow) = mpsc::sync_channel(4);
    runtime.submit(request(prompt(2, 4), 4000), sender).unwrap();
    drop(gone);
    let (_, events) = submit(&runtime, request(prompt(3, 4), 60));
    assert_eq!(collect(&events).ids(), alone(CONFIG, request(prompt(3, 4), 60)).ids());
    let slow = collect(&slow);
    assert!(slow.done.is_none() && slow.tokens.len() <= 4, "its events end without a Done");
    assert_eq!(runtime.stats().n_cancelled, 2);
    assert!(seen.lock().unwrap().submitted.len() < 3000, "what nobody reads is not computed");
}

#[test]
fn requests_that_make_no_sense_are_refused_where_they_are_made() {
    let runtime = start(CONFIG);
    let (sender, events) = mpsc::channel();
    assert!(matches!(runtime.submit(request(vec![], 3), sender), Err(Error::PromptEmpty)));
    assert!(events.recv().is_err());
    let (_, events) = submit(&runtime, request(vec![1], 3));
    assert_eq!(collect(&events).ids().len(), 3, "and the engine goes on");
}

#[test]
fn one_choice_can_be_cancelled_alone() {
    let Gated { runtime, arrivals, permits, .. } = gated(CONFIG);
    let (id, events) = submit(&runtime, Request { n_choices: 2, ..request(prompt(1, 4), 20) });
    arrivals.recv().unwrap();
    runtime.cancel_choice(id, 0);
    drop(permits);
    let answer = collect(&events);
    assert!(matches!(answer.choices[..], [(0, FinishReason::Cancelled), (1, FinishReason::Length)]));
    assert_eq!((answer.of_choice(0).len(), answer.of_choice(1).len()), (0, 20));
    assert_eq!(answer.done().usage.generated_tokens, 20);
}

#[test]
fn figures_are_there_when_the_answer_is() {
    let runtime = start(CONFIG);
    let (_, events) = submit(&runtime, request(prompt(1, 40), 5));
    collect(&events);
    let (_, events) = submit(&runtime, request(prompt(1, 40), 5));
    collect(&events);
    let (_, events) = submit(&runtime, request(vec![1], 1));
    collect(&events);
    // The loop publishes after each step and before it sleeps; a third request makes sure of the first two.
    let stats = runtime.stats();
    assert!(stats.n_requests >= 2 && stats.n_done >= 2, "{stats:?}");
    assert_eq!((stats.n_pages, stats.n_failed, stats.n_refused, stats.n_preemptions), (18, 0, 0, 0));
    assert!(stats.prefix_query_tokens >= 80 && stats.prefix_hit_tokens == 32, "{stats:?}");
    assert!(stats.generated_tokens >= 10 && stats.prefill_tokens >= 48, "{stats:?}");
}

#[test]
fn the_inbox_and_the_queue_are_bounded() {
    let config = EngineConfig { queue_max: 2, sequences_max: 1, ..CONFIG };
    let Gated { runtime, arrivals, permits, .. } = gated(config);
    let fill_inbox = || {
        let events = [submit(&runtime, request(vec![1], 1)).1, submit(&runtime, request(vec![1], 1)).1];
        let full = runtime.submit(request(vec![1], 1), mpsc::channel().0).unwrap_err();
        assert!(matches!(full, Error::InboxFull { inbox_max: 2 }));
        events
    };
    let (_, running) = submit(&runtime, request(vec![1], 3));
    arrivals.recv().unwrap();
    let queued = fill_inbox();
    permits.send(()).unwrap();
    arrivals.recv().unwrap();
    let refused = fill_inbox();
    drop(permits);
    assert_eq!(collect(&running).ids().len(), 3);
    assert!(queued.iter().all(|events| collect(events).ids().len() == 1));
    for events in refused {
        assert!(matches!(collect(&events).error(), Error::Refused(Refusal::QueueFull { queue_max: 2 })));
    }
}

#[test]
fn a_lost_device_reaches_every_request_and_is_reported() {
    let engine = tiny::engine_on(Box::new(Probe::new(Interference::FailAt(3))), CONFIG);
    let runtime = Runtime::start(engine).unwrap();
    let (_, first) = submit(&runtime, request(vec![1], 40));
    let answer = collect(&first);
    assert_eq!(answer.error().to_string(), "probe: the device is lost");
    assert_eq!(answer.ids().len(), 3);
    assert_eq!(runtime.broken().unwrap().to_string(), "probe: the device is lost");
    let (sender, _events) = mpsc::channel();
    let error = runtime.submit(request(vec![1], 1), sender).unwrap_err();
    assert_eq!(error.to_string(), "the engine has stopped: probe: the device is lost");
}

#[test]
fn dropping_the_runtime_ends_what_runs_and_what_waits() {
    let config = EngineConfig { sequences_max: 1, context_tokens: 4096, ..CONFIG };
    let Gated { runtime, arrivals, permits, .. } = gated(config);
    let (_, running) = submit(&runtime, request(vec![1], 4000));
    let (_, waiting) = submit(&runtime, request(vec![1], 4000));
    arrivals.recv().unwrap();
    let (about_to_drop, signal) = mpsc::channel();
    let dropping = std::thread::spawn(move || {
        about_to_drop.send(()).unwrap();
        drop(runtime);
    });
    signal.recv().unwrap();
    permits.send(()).unwrap();
    while arrivals.recv().is_ok() {
        permits.send(()).unwrap();
    }
    dropping.join().unwrap();
    for events in [running, waiting] {
        assert!(matches!(collect(&events).done().reason, FinishReason::Cancelled));
    }
}

#[test]
fn an_idle_runtime_ends_when_it_is_dropped() {
    let runtime = start(CONFIG);
    let (_, events) = submit(&runtime, request(vec![1], 2));
    assert_eq!(collect(&events).ids().len(), 2);
    drop(runtime);
}
