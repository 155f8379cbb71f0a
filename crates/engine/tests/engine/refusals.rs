//! What the engine does not take, and how it says so.

use std::ops::ControlFlow;

use zinc_engine::config::{ConfigError, KvSize, Warning};
use zinc_engine::constraint::{Constraint, ConstraintError};
use zinc_engine::kv::{KvError, OutOfPages};
use zinc_engine::sampler::{Sampling, SamplingError};
use zinc_engine::scheduler::Refusal;
use zinc_engine::{Engine, EngineConfig, Error, Request};
use zinc_graph::reference::Reference;

use crate::probe::{Interference, Probe};
use crate::tiny::{self, CONFIG, N_VOCAB, drain, engine, prompt, request};

fn refused(request: Request) -> Error {
    let mut engine = engine(CONFIG);
    let error = engine.submit(request).unwrap_err();
    assert!(engine.is_idle(), "a refused request leaves nothing behind");
    error
}

#[test]
fn requests_that_make_no_sense_are_refused_with_their_numbers() {
    let good = || request(vec![1, 2], 4);
    let check = |request: Request, expected: &str| assert_eq!(refused(request).to_string(), expected);
    check(request(vec![], 4), "the prompt is empty; at least one token is needed");
    check(request(vec![1, N_VOCAB], 4), "token 1 of the prompt is 61, the vocabulary has 61");
    check(request(prompt(1, 96), 4), "the prompt has 96 tokens, which leaves no room in a context of 96");
    check(request(vec![1], 0), "`max_tokens` is 0; it must be at least 1");
    check(Request { logprobs: Some(101), ..good() }, "101 top log probabilities are wanted, at most 100 are given");
    check(Request { n_choices: 0, ..good() }, "0 choices are wanted; it must be 1 to 128");
    check(Request { n_choices: 129, ..good() }, "129 choices are wanted; it must be 1 to 128");
    check(Request { boundaries: vec![2, 3], ..good() }, "a message ends at position 3, the prompt has 2 tokens");
    let constraint = Some(Constraint::Regex("a".into()));
    let error = refused(Request { constraint, ..good() });
    assert!(matches!(error, Error::Constraint(ConstraintError::NoVocabulary)) && error.is_client_fault());
    let sampling = Sampling { top_p: 0.0, ..Sampling::greedy() };
    check(Request { sampling, ..good() }, "`top_p` is 0; it must be above 0 and at most 1");
    let sampling = Sampling { logit_bias: vec![(N_VOCAB, 1.0)], ..Sampling::greedy() };
    let error = refused(Request { sampling, ..good() });
    assert!(matches!(error, Error::Sampling(SamplingError::BiasId { id: 61, n_vocab: 61 })));
}

#[test]
fn a_prompt_one_shorter_than_the_context_gives_one_token() {
    let mut engine = engine(CONFIG);
    let id = engine.submit(request(prompt(1, 95), 4)).unwrap();
    assert_eq!(drain(&mut engine).of(id).ids().len(), 1);
}

#[test]
fn a_full_queue_refuses_and_takes_again_later() {
    let mut engine = engine(EngineConfig { queue_max: 2, ..CONFIG });
    for _ in 0..2 {
        engine.submit(request(vec![1], 4)).unwrap();
    }
    let error = engine.submit(request(vec![1], 4)).unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::QueueFull { queue_max: 2 })) && error.is_busy());
    engine.step().unwrap();
    engine.submit(request(vec![1], 4)).unwrap();
    assert_eq!(drain(&mut engine).0.len(), 3);
}

#[test]
fn what_the_pool_could_never_hold_is_refused_and_what_it_cannot_hold_now_waits() {
    let mut engine = engine(EngineConfig { kv: KvSize::Tokens(64), ..CONFIG });
    let error = engine.submit(request(prompt(1, 60), 5)).unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::NeverFits(OutOfPages { needed: 5, free: 4, n_pages: 4 }))));
    for _ in 0..2 {
        engine.submit(request(prompt(1, 40), 5)).unwrap();
    }
    engine.step().unwrap();
    assert_eq!((engine.load().n_running, engine.load().n_waiting), (1, 1));
    let error = engine.evaluate(&prompt(2, 20), |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, Error::NoRoom(KvError::Pages(OutOfPages { needed: 2, free: 1, n_pages: 4 }))));
    assert!(drain(&mut engine).0.values().all(|answer| answer.ids().len() == 5));
}

#[test]
fn an_evaluation_longer_than_the_context_is_refused() {
    let mut engine = engine(CONFIG);
    let error = engine.evaluate(&prompt(1, 97), |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, Error::PromptTooLong { n_tokens: 97, context_tokens: 96 }));
    let mut n_rows = 0;
    let count = |_: usize, _: &[f32]| {
        n_rows += 1;
        ControlFlow::Continue(())
    };
    engine.evaluate(&prompt(1, 96), count).unwrap();
    assert_eq!(n_rows, 96);
}

#[test]
fn absurd_limits_are_refused_before_anything_is_allocated() {
    let start = |config| {
        let model = tiny::model();
        let weights = tiny::weights(&model.graph);
        Engine::new(Box::new(Reference::new()), model, weights, config).err().unwrap()
    };
    let error = start(EngineConfig { context_tokens: 4_000_000_000, ..CONFIG });
    assert_eq!(error.to_string(), "`context_tokens` is 4000000000; it must be 2 to 16777216");
    let error = start(EngineConfig { context_tokens: 1 << 24, sequences_max: 1024, step_tokens: 2048, ..CONFIG });
    assert!(matches!(error, Error::Config(ConfigError::TooLarge { n_pages: 0x4000_0000, .. })));
}

#[test]
fn a_context_beyond_training_is_a_warning() {
    let expected = Warning::ContextBeyondTraining { context_tokens: 96, context_train: 64 };
    assert_eq!(engine(CONFIG).warnings(), [expected]);
    assert_eq!(engine(EngineConfig { context_tokens: 64, ..CONFIG }).warnings(), []);
}

#[test]
fn a_lost_device_breaks_the_engine_for_good() {
    let mut engine = tiny::engine_on(Box::new(Probe::new(Interference::FailAt(2))), CONFIG);
    engine.submit(request(vec![1], 10)).unwrap();
    engine.submit(request(vec![2], 10)).unwrap();
    engine.step().unwrap();
    engine.step().unwrap();
    let error = engine.step().unwrap_err();
    assert_eq!(error.to_string(), "the engine has stopped: probe: the device is lost");
    assert!(engine.is_idle());
    for error in [engine.step().unwrap_err(), engine.submit(request(vec![1], 1)).unwrap_err()] {
        assert_eq!(error.to_string(), "the engine has stopped: probe: the device is lost");
    }
    assert!(matches!(engine.evaluate(&[1], |_, _| ControlFlow::Continue(())), Err(Error::Broken(_))));
}
