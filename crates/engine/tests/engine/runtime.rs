//! The engine's thread. A gate lets the tests decide when a step may run, so nothing sleeps.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

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
    let (arrivals_in, arrivals) = mpsc::channel();
    let (permits, permits_out) = mpsc::channel();
    let probe = Probe::new(Interference::Gate { arrivals: arrivals_in, permits: permits_out });
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
    assert!(matches!(first_events.recv(), Ok(Event::Prefill { computed: 16, total: 40 })));
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
    let Gated { runtime, arrivals, permits, seen } = gated(EngineConfig { sequences_max: 1, ..CONFIG });
    let (_, events) = submit(&runtime, request(prompt(1, 4), 80));
    let (_, waiting) = submit(&runtime, request(prompt(2, 4), 3));
    arrivals.recv().unwrap();
    permits.send(()).unwrap();
    assert!(matches!(events.recv(), Ok(Event::Prefill { .. })));
    drop(events);
    drop(permits);
    assert_eq!(collect(&waiting).ids().len(), 3);
    // One step before it left, one in which that is noticed, three for the other.
    assert!(seen.lock().unwrap().submitted.len() <= 5, "the 80 tokens that nobody wants are not computed");
}

#[test]
fn refusals_arrive_as_the_only_event() {
    let runtime = start(CONFIG);
    let (_, events) = submit(&runtime, request(vec![], 3));
    assert!(matches!(collect(&events).error(), Error::PromptEmpty));
    let (_, events) = submit(&runtime, request(vec![1], 3));
    assert_eq!(collect(&events).ids().len(), 3, "and the engine goes on");
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
