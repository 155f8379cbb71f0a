//! What the engine generates: against a naive loop, in chunks, in crowds, with sampling.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zinc_engine::config::KvSize;
use zinc_engine::request::{FinishReason, Request, Usage};
use zinc_engine::sampler::{Sampler, Sampling, Scratch};
use zinc_engine::{Engine, EngineConfig, Error};
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes};
use zinc_graph::batch::Places;
use zinc_graph::reference::Reference;
use zinc_graph::{Backend, Batch};

use crate::probe::{Interference, Probe};
use crate::tiny::{self, Answers, CONFIG, N_VOCAB, alone, drain, drain_into, engine, prompt, request, settled};

/// Logits after `ids`, by one call of the reference with everything at once.
fn naive_logits(ids: &[u32]) -> Vec<f32> {
    let model = tiny::model();
    let n = u32::try_from(ids.len()).unwrap();
    let n_pages = n.div_ceil(16);
    let mut backend = Reference::new();
    backend
        .load(
            &model.graph,
            tiny::weights(&model.graph),
            StateSizes { n_pages, n_window_pages: 0, kv_format: KvFormat::F32, n_slots: 1 },
        )
        .unwrap();
    let options = PlanOptions { bucket: Bucket { tokens: n, outputs: 1 }, keep_values: false };
    let plan = backend.compile(&model.graph, &options).unwrap();
    let batch = Batch {
        ids: ids.to_vec(),
        positions: (0..n).collect(),
        seq_idx: vec![0; ids.len()],
        query_start: vec![0, n],
        full: Places { kv_slots: (0..n).collect(), block_tables: (0..n_pages).collect() },
        window: Places::default(),
        pages_max: n_pages,
        state_slots: vec![0],
        output_rows: vec![n - 1],
    };
    let ticket = backend.submit(plan, &batch).unwrap();
    backend.wait(ticket).unwrap();
    let mut logits = vec![0.0; N_VOCAB as usize];
    backend.read(plan, model.logits, 0, &mut logits).unwrap();
    logits
}

fn naive_greedy(prompt: &[u32], n: u32) -> Vec<u32> {
    let mut ids = prompt.to_vec();
    for _ in 0..n {
        let logits = naive_logits(&ids);
        let best = (0..N_VOCAB).rev().max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize])).unwrap();
        ids.push(best);
    }
    ids.split_off(prompt.len())
}

fn sampled(which: u64, n_prompt: u32, max_tokens: u32) -> Request {
    let sampling = Sampling {
        temperature: 0.9,
        top_k: if which.is_multiple_of(2) { 20 } else { 0 },
        top_p: 0.9,
        frequency_penalty: 0.3,
        penalty_window: 32,
        ..Sampling::greedy()
    };
    Request { sampling, seed: which, ..request(prompt(which, n_prompt), max_tokens) }
}

#[test]
fn greedy_is_what_a_naive_loop_gives() {
    for n_prompt in [1, 15, 16, 17, 40] {
        let prompt = prompt(u64::from(n_prompt), n_prompt);
        let answer = alone(CONFIG, request(prompt.clone(), 20));
        let expected = naive_greedy(&prompt, 20);
        assert_eq!(answer.ids(), expected, "prompt of {n_prompt}");
        assert!(expected.iter().collect::<BTreeSet<_>>().len() > 4, "the answer says something: {expected:?}");
        assert!(matches!(answer.done().reason, FinishReason::Length));
        let usage = Usage {
            prompt_tokens: n_prompt,
            cached_prompt_tokens: 0,
            computed_prompt_tokens: n_prompt,
            generated_tokens: 20,
        };
        assert_eq!(answer.done().usage, usage);
    }
}

#[test]
fn draws_are_what_a_naive_loop_with_the_sampler_gives() {
    for which in 0..4 {
        let wanted = sampled(which, 11, 16);
        let mut sampler = Sampler::new(wanted.sampling.clone(), wanted.seed, &wanted.prompt, N_VOCAB).unwrap();
        let mut ids = wanted.prompt.clone();
        for index in 0..wanted.max_tokens {
            let id = sampler.choose(&mut naive_logits(&ids), index, &mut Scratch::default()).unwrap();
            sampler.accept(id);
            ids.push(id);
        }
        assert_eq!(alone(CONFIG, wanted).ids(), ids[11..]);
    }
}

#[test]
fn chunks_of_a_prompt_give_the_same_logits_as_the_whole() {
    let wanted = Request { echo_logits: true, ..request(prompt(3, 50), 6) };
    let whole = alone(EngineConfig { step_tokens: 64, ..CONFIG }, wanted.clone());
    assert_eq!(whole.prefills, [(50, 50)]);
    for step_tokens in [3, 5, 16, 49] {
        let chunked = alone(EngineConfig { step_tokens, ..CONFIG }, wanted.clone());
        assert_eq!(chunked.tokens, whole.tokens, "steps of {step_tokens} tokens");
        assert_eq!(chunked.prefills.len(), 50usize.div_ceil(step_tokens as usize));
        assert_eq!(chunked.prefills.last(), Some(&(50, 50)));
    }
    assert_eq!(whole.tokens[0].logits.as_deref(), Some(naive_logits(&prompt(3, 50)).as_slice()));
}

#[test]
fn a_crowd_changes_nobody_s_tokens() {
    let requests: Vec<Request> = (0..12u64)
        .map(|which| {
            let n_prompt = 1 + u32::try_from(which * 13 % 47).unwrap();
            let greedy = request(prompt(which, n_prompt), 12);
            if which % 3 == 0 { greedy } else { sampled(which, n_prompt, 8 + u32::try_from(which).unwrap()) }
        })
        .collect();
    for (sequences_max, step_tokens) in [(3, 7), (8, 16), (12, 64)] {
        let mut engine = engine(EngineConfig { sequences_max, step_tokens, queue_max: 12, ..CONFIG });
        let mut answers = Answers::default();
        let mut ids = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            ids.push(engine.submit(request.clone()).unwrap());
            for _ in 0..i % 3 {
                answers.add(engine.step().unwrap());
            }
        }
        drain_into(&mut engine, &mut answers);
        for (id, request) in ids.iter().zip(&requests) {
            let expected = alone(CONFIG, request.clone());
            assert_eq!(answers.of(*id).ids(), expected.ids(), "{id} among {sequences_max}, steps of {step_tokens}");
        }
    }
}

#[test]
fn the_seed_and_nothing_else_decides() {
    let answer = |seed| alone(CONFIG, Request { seed, ..sampled(1, 9, 24) }).ids();
    assert_eq!(answer(5), answer(5));
    assert_ne!(answer(5), answer(6));
}

#[test]
fn a_stop_id_ends_the_answer_and_is_not_part_of_it() {
    let free = alone(CONFIG, request(prompt(2, 10), 12)).ids();
    let at = (1..12).find(|&i| !free[..i].contains(&free[i])).unwrap();
    let stopped = alone(CONFIG, Request { stop_ids: vec![free[at], 999], ..request(prompt(2, 10), 12) });
    assert_eq!(stopped.ids(), free[..at]);
    assert!(matches!(stopped.done().reason, FinishReason::Stop { id } if id == free[at]));
    assert_eq!(stopped.done().usage.generated_tokens as usize, at + 1);
}

#[test]
fn a_full_context_ends_the_answer() {
    let answer = alone(EngineConfig { context_tokens: 20, ..CONFIG }, request(prompt(4, 17), 100));
    assert_eq!(answer.ids(), naive_greedy(&prompt(4, 17), 3));
    assert!(matches!(answer.done().reason, FinishReason::Length));
}

#[test]
fn cancelling_in_the_middle_of_a_prompt_frees_everything_and_disturbs_nobody() {
    let mut engine = engine(CONFIG);
    let before = settled(&engine);
    let kept = engine.submit(request(prompt(5, 6), 10)).unwrap();
    let cancelled = engine.submit(request(prompt(6, 80), 10)).unwrap();
    let waiting: Vec<_> = (0..4).map(|_| engine.submit(request(prompt(7, 30), 4)).unwrap()).collect();
    let mut answers = Answers::default();
    for _ in 0..3 {
        answers.add(engine.step().unwrap());
    }
    assert!(answers.of(cancelled).prefills.last().is_some_and(|&(computed, total)| computed < total));
    for id in [cancelled, waiting[3]] {
        let event = engine.cancel(id).unwrap();
        answers.add(vec![(id, event)]);
        assert!(engine.cancel(id).is_none(), "a request ends once");
        assert!(matches!(answers.of(id).done().reason, FinishReason::Cancelled));
    }
    assert_eq!(
        answers.of(cancelled).done().usage.computed_prompt_tokens,
        answers.of(cancelled).prefills.last().unwrap().0
    );
    drain_into(&mut engine, &mut answers);
    assert_eq!(answers.of(kept).ids(), naive_greedy(&prompt(5, 6), 10));
    assert_eq!(answers.of(waiting[0]).ids(), naive_greedy(&prompt(7, 30), 4));
    assert_eq!(settled(&engine), before);
}

#[test]
fn five_hundred_requests_leave_the_pool_as_it_was() {
    let mut engine = engine(EngineConfig { kv: KvSize::Tokens(160), ..CONFIG });
    let before = settled(&engine);
    let (mut n_done, mut n_sent) = (0, 0u64);
    while n_sent < 500 || !engine.is_idle() {
        while n_sent < 500 && engine.submit(sampled(n_sent, 1 + u32::try_from(n_sent % 40).unwrap(), 3)).is_ok() {
            n_sent += 1;
        }
        let events = engine.step().unwrap();
        assert!(!events.is_empty(), "every step brings something");
        n_done += events.iter().filter(|(_, event)| matches!(event, zinc_engine::Event::Done(_))).count();
    }
    assert_eq!(n_done, 500);
    assert_eq!(settled(&engine), before);
}

#[test]
fn plain_greedy_reads_ids_and_everything_else_reads_rows() {
    let model = tiny::model();
    let read = |request: Request| {
        let probe = Probe::new(Interference::None);
        let seen = Arc::clone(&probe.seen);
        let mut engine = tiny::engine_on(Box::new(probe), CONFIG);
        engine.submit(request).unwrap();
        let answers = drain(&mut engine);
        let had_id_0 = answers.0.values().any(|a| a.ids().contains(&0));
        let read: BTreeSet<_> = seen.lock().unwrap().read.iter().copied().collect();
        (read, had_id_0)
    };
    let (greedy, had_id_0) = read(request(prompt(1, 5), 8));
    assert!(!had_id_0, "an id of 0 is looked at twice; choose another prompt");
    assert_eq!(greedy, BTreeSet::from([model.greedy]));
    for wanted in [Request { logprobs: Some(0), ..request(prompt(1, 5), 8) }, sampled(1, 5, 8)] {
        assert_eq!(read(wanted).0, BTreeSet::from([model.logits]));
    }
}

#[test]
fn steps_use_few_plans_and_only_the_last_row_of_a_prompt_passes_the_head() {
    let probe = Probe::new(Interference::None);
    let seen = Arc::clone(&probe.seen);
    let mut engine = tiny::engine_on(Box::new(probe), CONFIG);
    for which in 0..3 {
        engine.submit(request(prompt(which, 20), 5)).unwrap();
    }
    drain(&mut engine);
    let seen = seen.lock().unwrap();
    let outputs: Vec<(usize, usize)> = seen.submitted.iter().map(|b| (b.n_tokens(), b.n_outputs())).collect();
    assert_eq!(outputs, [(16, 0), (16, 1), (16, 2), (15, 3), (3, 3), (3, 3), (2, 2), (1, 1)]);
    assert_eq!(seen.compiled, [(16, 1), (16, 2), (16, 4), (4, 4), (2, 2), (1, 1)]);
}

#[test]
fn log_probabilities_are_those_of_the_model_whatever_the_sampling() {
    let mut wanted = Request { logprobs: Some(5), echo_logits: true, ..sampled(3, 12, 6) };
    wanted.sampling.logit_bias = vec![(7, 3.0)];
    for token in alone(CONFIG, wanted).tokens {
        let row = token.logits.unwrap();
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let logprob = |id: u32| f64::from(row[id as usize]) - sum.ln();
        assert!((f64::from(token.logprob.unwrap()) - logprob(token.id)).abs() < 1e-5);
        let mut order: Vec<u32> = (0..N_VOCAB).collect();
        order.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
        assert_eq!(token.top.iter().map(|t| t.id).collect::<Vec<_>>(), order[..5]);
        assert!(token.top.iter().all(|t| (f64::from(t.logprob) - logprob(t.id)).abs() < 1e-5));
    }
}

#[test]
fn evaluation_gives_every_row_beside_running_requests() {
    let mut engine = engine(CONFIG);
    let id = engine.submit(request(prompt(5, 6), 10)).unwrap();
    let mut answers = Answers::default();
    answers.add(engine.step().unwrap());
    let before = engine.load();
    let text = prompt(8, 50);
    let mut positions = Vec::new();
    engine
        .evaluate(&text, |position, logits| {
            assert_eq!(logits, naive_logits(&text[..=position]), "position {position}");
            positions.push(position);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(positions, (0..50).collect::<Vec<_>>());
    let n_rows = Rc::new(Cell::new(0));
    engine
        .evaluate(&text, |_, _| {
            n_rows.set(n_rows.get() + 1);
            if n_rows.get() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!((n_rows.get(), engine.load()), (3, before));
    drain_into(&mut engine, &mut answers);
    assert_eq!(answers.of(id).ids(), naive_greedy(&prompt(5, 6), 10));
}

#[test]
fn timings_follow_the_clock_that_is_passed_in() {
    let zero = Instant::now();
    let milliseconds = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&milliseconds);
    let clock = Box::new(move || zero + Duration::from_millis(clock.load(Ordering::Relaxed)));
    let mut engine = engine(EngineConfig { sequences_max: 1, ..CONFIG }).with_clock(clock);
    let first = engine.submit(request(prompt(1, 40), 4)).unwrap();
    let second = engine.submit(request(prompt(2, 3), 1)).unwrap();
    let mut answers = Answers::default();
    while !engine.is_idle() {
        milliseconds.fetch_add(10, Ordering::Relaxed);
        answers.add(engine.step().unwrap());
    }
    let ms = Duration::from_millis;
    // Steps at 10, 20, 30 (the prompt and the first token) and 40, 50, 60; the second at 70.
    let timings = answers.of(first).done().timings;
    assert_eq!((timings.queued, timings.prefill, timings.decode), (ms(10), ms(20), ms(30)));
    assert_eq!(timings.time_to_first_token, Some(ms(30)));
    let timings = answers.of(second).done().timings;
    assert_eq!((timings.queued, timings.prefill, timings.decode), (ms(70), ms(0), ms(0)));
    assert_eq!(timings.time_to_first_token, Some(ms(70)));
}

/// The embedding of one token is NaN: who uses it ends with an error, others do not notice.
#[test]
fn a_row_of_nan_ends_its_request_alone() {
    const BROKEN: u32 = 60;
    let model = tiny::model();
    let weights = tiny::weights_with(&model.graph, |name, values| {
        if name == "token_embd" {
            values[BROKEN as usize * 32..].fill(f32::NAN);
        }
    });
    let mut engine = Engine::new(Box::new(Reference::new()), model, weights, CONFIG).unwrap();
    let sound = engine.submit(request(vec![1, 2, 3], 8)).unwrap();
    let greedy = engine.submit(request(vec![4, BROKEN], 8)).unwrap();
    let drawn = engine.submit(Request { prompt: vec![BROKEN], ..sampled(1, 1, 8) }).unwrap();
    let answers = drain(&mut engine);
    assert_eq!(answers.of(sound).ids(), naive_greedy(&[1, 2, 3], 8));
    for (id, length) in [(greedy, 2), (drawn, 1)] {
        assert!(answers.of(id).tokens.is_empty());
        assert!(matches!(answers.of(id).error(), Error::NonFinite { n_tokens, .. } if *n_tokens == length));
    }
    let id = engine.submit(request(vec![1, 2, 3], 8)).unwrap();
    assert_eq!(drain(&mut engine).of(id).ids(), naive_greedy(&[1, 2, 3], 8), "the pages are sound again");
}
