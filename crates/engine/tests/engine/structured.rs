//! Answers that match a grammar, over the tiny model's 61 tokens read as characters.

use zinc_engine::constraint::{Constraint, ConstraintError, Vocabulary, VocabularyToken};
use zinc_engine::request::{FinishReason, Request};
use zinc_engine::sampler::Sampling;
use zinc_engine::{Engine, EngineConfig, Error};

use crate::tiny::{Answer, CONFIG, N_VOCAB, drain, prompt, request};

const CHARACTERS: &[u8] = b"{}[]\":,.-+ 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL";
const END: u32 = N_VOCAB - 1;

fn engine(config: EngineConfig) -> Engine {
    crate::tiny::engine(config).with_vocabulary(vocabulary()).unwrap()
}

pub(crate) fn vocabulary() -> Vocabulary {
    let mut tokens: Vec<VocabularyToken> =
        CHARACTERS.iter().map(|&byte| VocabularyToken { bytes: vec![byte], is_control: false }).collect();
    tokens.resize(END as usize, VocabularyToken { bytes: Vec::new(), is_control: false });
    tokens.push(VocabularyToken { bytes: b"<end>".to_vec(), is_control: true });
    Vocabulary { tokens, end_ids: vec![END] }
}

pub(crate) fn constrained(which: u64, constraint: Constraint) -> Request {
    let sampling = Sampling { temperature: 1.5, ..Sampling::greedy() };
    Request {
        sampling,
        seed: which,
        stop_ids: vec![END],
        constraint: Some(constraint),
        ..request(prompt(which, 10), 60)
    }
}

fn text(answer: &Answer, choice: u32) -> String {
    answer.of_choice(choice).iter().map(|&id| CHARACTERS[id as usize] as char).collect()
}

const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"enum":["ab","cd"]},"n":{"type":"integer","minimum":0,"maximum":99}},
    "required":["name","n"],"additionalProperties":false}"#;

#[test]
fn every_answer_matches_and_is_the_same_in_a_crowd() {
    let schema = Constraint::JsonSchema(SCHEMA.into());
    let mut crowded = engine(EngineConfig { sequences_max: 6, queue_max: 20, ..CONFIG });
    let ids: Vec<_> = (0..10).map(|which| crowded.submit(constrained(which, schema.clone())).unwrap()).collect();
    let free = crowded.submit(request(prompt(50, 10), 20)).unwrap();
    let answers = drain(&mut crowded);
    for (which, id) in (0..).zip(ids) {
        let answer = answers.of(id);
        let said: serde_json::Value = serde_json::from_str(&text(answer, 0)).unwrap();
        assert!(["ab", "cd"].contains(&said["name"].as_str().unwrap()), "{said}");
        assert!((0..100).contains(&said["n"].as_u64().unwrap()), "{said}");
        assert!(matches!(answer.done().reason, FinishReason::Stop { id: END } | FinishReason::Grammar));
        let mut alone = engine(CONFIG);
        alone.submit(constrained(which, schema.clone())).unwrap();
        assert_eq!(drain(&mut alone).0.values().next().unwrap().ids(), answer.ids());
    }
    let expected = crate::tiny::alone(CONFIG, request(prompt(50, 10), 20));
    assert_eq!(answers.of(free).ids(), expected.ids(), "who asked for nothing is held to nothing");
}

#[test]
fn greedy_takes_the_likeliest_of_what_is_allowed() {
    let pattern = Constraint::Regex("[a-f]{8}".into());
    let wanted =
        Request { sampling: Sampling::greedy(), logprobs: Some(3), echo_logits: true, ..constrained(1, pattern) };
    let mut engine = engine(CONFIG);
    engine.submit(wanted).unwrap();
    let answers = drain(&mut engine);
    let answer = answers.0.values().next().unwrap();
    assert_eq!(answer.tokens.len(), 8);
    for token in &answer.tokens {
        let row = token.logits.as_deref().unwrap();
        let letters = (21..27).filter(|&id| row[id as usize] > row[token.id as usize]);
        assert_eq!(letters.count(), 0, "the row is the model's own, and the best letter was taken");
        assert!((21..27).contains(&token.id) && token.top.len() == 3);
    }
}

#[test]
fn each_choice_follows_the_grammar_for_itself() {
    let wanted =
        Request { n_choices: 3, ..constrained(4, Constraint::Lark("start: (\"a\" | \"b\" \"c\")+ \".\"\n".into())) };
    let mut engine = engine(EngineConfig { kv: zinc_engine::config::KvSize::Tokens(96), ..CONFIG });
    engine.submit(wanted).unwrap();
    let answers = drain(&mut engine);
    let answer = answers.0.values().next().unwrap();
    let mut texts = Vec::new();
    for (choice, reason) in &answer.choices {
        let said = text(answer, *choice);
        let complete = said.ends_with('.');
        assert!(complete || matches!(reason, FinishReason::Length), "{said}");
        assert!(said.trim_end_matches('.').replace("bc", "").trim_end_matches('b').chars().all(|c| c == 'a'), "{said}");
        texts.push(said);
    }
    texts.sort();
    texts.dedup();
    assert!(texts.len() > 1, "{texts:?}");
}

#[test]
fn a_bad_grammar_is_refused_and_the_engine_goes_on() {
    let mut engine = engine(CONFIG);
    let error = engine.submit(constrained(1, Constraint::Regex("(".into()))).unwrap_err();
    assert!(matches!(error, Error::Constraint(ConstraintError::Grammar { .. })) && error.is_client_fault());
    assert!(engine.is_idle());
    engine.submit(constrained(1, Constraint::Regex("a*".into()))).unwrap();
    let id = engine.submit(constrained(2, Constraint::Regex("b*".into()))).unwrap();
    engine.step().unwrap();
    engine.cancel(id).unwrap();
    assert!(drain(&mut engine).0.values().all(|answer| answer.ids().iter().all(|&id| id == 21)));
}

/// Every token of the grammar is banned: the request ends with an error, alone.
#[test]
fn a_grammar_that_leaves_nothing_ends_its_request() {
    let mut wanted = constrained(1, Constraint::Regex("a".into()));
    wanted.sampling.logit_bias = vec![(21, f32::NEG_INFINITY)];
    let mut engine = engine(CONFIG);
    let id = engine.submit(wanted).unwrap();
    let answers = drain(&mut engine);
    assert!(matches!(answers.of(id).error(), Error::NonFinite { .. }));
}
