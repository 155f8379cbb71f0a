//! Pages that requests share: prefixes of earlier ones, choices of one prompt, what is left when
//! there are too few.

use std::time::{Duration, Instant};

use zinc_engine::config::KvSize;
use zinc_engine::request::{FinishReason, PromptCache, Request};
use zinc_engine::sampler::Sampling;
use zinc_engine::{Engine, EngineConfig, Event};

use crate::tiny::{Answer, Answers, CONFIG, alone, drain, drain_into, engine, prompt, request, settled};

fn drawn(which: u64, n_prompt: u32, max_tokens: u32) -> Request {
    let sampling = Sampling { temperature: 1.2, ..Sampling::greedy() };
    Request { sampling, seed: which, ..request(prompt(which, n_prompt), max_tokens) }
}

fn answer(engine: &mut Engine, request: Request) -> Answer {
    let id = engine.submit(request).unwrap();
    drain(engine).0.remove(&id).unwrap()
}

#[test]
fn a_follow_up_turn_computes_only_what_is_new() {
    let config = EngineConfig { context_tokens: 2200, step_tokens: 256, ..CONFIG };
    let mut engine = engine(config);
    let first = answer(&mut engine, request(prompt(1, 1990), 10));
    let said = [prompt(1, 1990), first.ids(), prompt(2, 12)].concat();
    let second = answer(&mut engine, request(said.clone(), 10));
    let usage = second.done().usage;
    assert_eq!((usage.prompt_tokens, usage.cached_prompt_tokens), (2012, 1984));
    assert!(usage.computed_prompt_tokens < 32, "{usage:?}");
    assert_eq!(second.prefills, [(2012, 2012)]);
    assert_eq!(second.ids(), alone(config, request(said, 10)).ids());
}

#[test]
fn who_says_so_shares_with_nobody_or_only_with_the_same_salt() {
    let mut engine = engine(CONFIG);
    let mut cached = |cache| answer(&mut engine, Request { cache, ..request(prompt(1, 40), 2) }).done().usage;
    let cached: Vec<u32> = [
        PromptCache::Shared,
        PromptCache::Shared,
        PromptCache::Salted(1),
        PromptCache::Salted(1),
        PromptCache::Salted(2),
        PromptCache::Off,
        PromptCache::Off,
    ]
    .into_iter()
    .map(|cache| cached(cache).cached_prompt_tokens)
    .collect();
    assert_eq!(cached, [0, 32, 0, 32, 0, 0, 0]);
}

#[test]
fn choices_share_their_prompt_and_each_says_what_it_would_say_alone() {
    let wanted = Request { n_choices: 4, ..drawn(3, 40, 12) };
    let mut engine = engine(EngineConfig { sequences_max: 4, step_tokens: 64, ..CONFIG });
    let before = settled(&engine);
    let together = answer(&mut engine, wanted.clone());
    assert_eq!(settled(&engine), before);
    let usage = together.done().usage;
    assert_eq!((usage.prompt_tokens, usage.computed_prompt_tokens, usage.generated_tokens), (40, 40, 48));
    // Two pages are shared; what is left of the prompt each choice computes for itself.
    assert_eq!(engine.stats().prefill_tokens, 40 + 3 * 8);
    let choices: Vec<Vec<u32>> = (0..4).map(|choice| together.of_choice(choice)).collect();
    for choice in 1..4 {
        assert_ne!(choices[0], choices[choice], "choices differ");
    }
    assert_eq!(choices[0], alone(CONFIG, Request { n_choices: 1, ..wanted.clone() }).ids());
    let few_slots = alone(EngineConfig { sequences_max: 1, ..CONFIG }, wanted.clone());
    let few_pages = alone(EngineConfig { kv: KvSize::Tokens(64), ..CONFIG }, wanted);
    for (choice, ids) in (0..).zip(&choices) {
        assert_eq!(&few_slots.of_choice(choice), ids, "one after the other");
        assert_eq!(&few_pages.of_choice(choice), ids, "with four pages");
    }
    let mut ended: Vec<u32> = together.choices.iter().map(|(choice, _)| *choice).collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3]);
}

#[test]
fn too_few_pages_change_nobody_s_tokens() {
    let requests: Vec<Request> = (0..8).map(|which| drawn(which, 20, 50)).collect();
    let config = EngineConfig { kv: KvSize::Tokens(160), sequences_max: 8, ..CONFIG };
    let mut engine = engine(config);
    let before = settled(&engine);
    let ids: Vec<_> = requests.iter().map(|request| engine.submit(request.clone()).unwrap()).collect();
    let answers = drain(&mut engine);
    assert!(engine.stats().n_preemptions > 3, "{:?}", engine.stats());
    for (id, request) in ids.into_iter().zip(requests) {
        let answer = answers.of(id);
        assert_eq!(answer.ids(), alone(CONFIG, request).ids());
        assert_eq!(answer.done().usage.computed_prompt_tokens, 20, "an interruption is not the client's affair");
        assert_eq!(answer.prefills.last(), Some(&(20, 20)));
    }
    assert_eq!(settled(&engine), before);
}

#[test]
fn a_request_ends_at_its_deadline_wherever_it_is() {
    let zero = Instant::now();
    let milliseconds = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let clock = std::sync::Arc::clone(&milliseconds);
    let now = move || zero + Duration::from_millis(clock.load(std::sync::atomic::Ordering::Relaxed));
    let mut engine = engine(EngineConfig { sequences_max: 1, ..CONFIG }).with_clock(Box::new(now));
    let before = settled(&engine);
    let until =
        |ms, which| Request { deadline: Some(zero + Duration::from_millis(ms)), ..request(prompt(which, 4), 90) };
    let running = engine.submit(until(50, 1)).unwrap();
    let waiting = engine.submit(until(30, 2)).unwrap();
    let after = engine.submit(Request { deadline: None, ..until(0, 3) }).unwrap();
    let mut answers = Answers::default();
    for _ in 0..6 {
        milliseconds.fetch_add(10, std::sync::atomic::Ordering::Relaxed);
        answers.add(engine.step().unwrap());
    }
    assert_eq!(answers.of(running).tokens.len(), 4, "steps at 10, 20, 30 and 40");
    assert_eq!(answers.of(waiting).tokens.len(), 0);
    for id in [running, waiting] {
        assert!(matches!(answers.of(id).done().reason, FinishReason::Deadline));
    }
    drain_into(&mut engine, &mut answers);
    assert_eq!(answers.of(after).tokens.len(), 90);
    assert_eq!(answers.of(after).queue, [1, 0], "it was told that it came nearer");
    assert_eq!(settled(&engine), before);
}

#[test]
fn cancelling_one_choice_or_all_of_them_frees_what_they_held() {
    let mut engine = engine(EngineConfig { sequences_max: 4, ..CONFIG });
    let before = settled(&engine);
    let id = engine.submit(Request { n_choices: 3, ..drawn(1, 20, 60) }).unwrap();
    let mut answers = Answers::default();
    for _ in 0..6 {
        answers.add(engine.step().unwrap());
    }
    let choice = |choice| zinc_engine::request::SequenceId { request: id, choice };
    answers.add(engine.cancel_choice(choice(1)));
    assert!(engine.cancel_choice(choice(1)).is_empty());
    answers.add(engine.step().unwrap());
    assert!(answers.of(id).done.is_none());
    let event = engine.cancel(id).unwrap();
    assert!(matches!(event, Event::Done(_)));
    answers.add(vec![(id, event)]);
    assert!(engine.step().unwrap().is_empty() && engine.is_idle());
    assert_eq!(settled(&engine), before);
    let usage = answers.of(id).done().usage;
    assert_eq!(usage.generated_tokens as usize, answers.of(id).tokens.len());
}
