//! Layers that see a window: the pages that they hold, and the same answers as where they keep everything.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use zinc_engine::config::KvSize;
use zinc_engine::kv::window_pages;
use zinc_engine::request::Request;
use zinc_engine::{Engine, EngineConfig};
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;

use crate::tiny::{Answers, drain, drain_into, engine_of_file, prompt_below, settled};

const N_VOCAB: u32 = 512;

/// Steps so short that windows have pages of their own.
const CONFIG: EngineConfig = EngineConfig {
    context_tokens: 1024,
    sequences_max: 1,
    step_tokens: 64,
    kv: KvSize::Contexts,
    kv_format: KvFormat::F16,
    queue_max: 64,
    snapshot_bytes: 0,
    snapshot_tokens: 64,
    decode_gap_max: Duration::from_secs(60),
};

/// Steps so long that there is nothing to save: every layer keeps everything.
const KEEPS_ALL: EngineConfig = EngineConfig { step_tokens: 1024, ..CONFIG };

fn engine(name: &str, config: EngineConfig) -> Engine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.gguf"));
    let file = Gguf::open(&path).unwrap();
    engine_of_file(&file, config)
}

/// Pages that are held: of all layers, and of windows.
fn held(engine: &Engine) -> (usize, usize) {
    let load = engine.load();
    (load.n_pages - load.n_free_pages, load.n_window_pages - load.n_free_window_pages)
}

#[test]
fn a_long_sequence_holds_a_window_of_pages_and_says_the_same() {
    for name in ["gemma3-a.Q8_0", "gptoss-a.MXFP4", "gemma4-a.Q8_0", "gemma4moe-a.Q8_0"] {
        let wanted = Request::greedy(prompt_below(N_VOCAB, 5, 700), 200);
        let mut engine = engine(name, CONFIG);
        let before = settled(&engine);
        let window = engine.model().graph.window().unwrap();
        assert_eq!(window, 16);
        let id = engine.submit(wanted.clone()).unwrap();
        let (mut answers, mut most, mut most_in_decode) = (Answers::default(), (0, 0), 0);
        while !engine.is_idle() {
            answers.add(engine.step().unwrap());
            let (all, windowed) = held(&engine);
            most = (most.0.max(all), most.1.max(windowed));
            if all > 700 / 16 + 1 {
                most_in_decode = most_in_decode.max(windowed);
            }
        }
        assert_eq!(most.0, 57, "{name}: 899 tokens");
        assert!(most.1 <= window_pages(window, CONFIG.step_tokens) as usize, "{name}: {most:?}");
        assert_eq!(most_in_decode, window_pages(window, 1) as usize, "{name}");
        assert_eq!(settled(&engine), before, "{name}");
        let mut keeps_all = self::engine(name, KEEPS_ALL);
        assert_eq!(keeps_all.limits().state.n_window_pages, 0);
        let other = keeps_all.submit(wanted).unwrap();
        assert_eq!(answers.of(id).ids(), drain(&mut keeps_all).of(other).ids(), "{name}");
    }
}

/// The pages that are held while nothing is computed are those of three answers, not of three texts.
#[test]
fn choices_share_the_window_before_their_prompt_s_end() {
    let mut engine = engine("gemma3-a.Q8_0", EngineConfig { sequences_max: 3, ..CONFIG });
    let wanted = Request { n_choices: 3, ..Request::greedy(prompt_below(N_VOCAB, 6, 330), 30) };
    let id = engine.submit(wanted.clone()).unwrap();
    let answers = drain(&mut engine);
    let usage = answers.of(id).done().usage;
    assert_eq!(usage.computed_prompt_tokens, 330, "the prompt is computed once");
    assert_eq!(engine.stats().prefill_tokens, 330 + 2 * 10, "the others take all of its full pages over");
    let one = answers.of(id).of_choice(0);
    assert!((1..3).all(|choice| answers.of(id).of_choice(choice) == one), "greedy choices are the same");
}

/// A prefix that is known, but whose window others have overwritten, is not taken over.
#[test]
fn a_prefix_without_its_window_is_computed_again() {
    let config = EngineConfig { context_tokens: 600, kv: KvSize::Tokens(2000), ..CONFIG };
    let mut engine = engine("gemma3-a.Q8_0", config);
    let first = Request::greedy(prompt_below(N_VOCAB, 7, 300), 10);
    let mut answers = Answers::default();
    let id = engine.submit(first.clone()).unwrap();
    drain_into(&mut engine, &mut answers);
    // Other texts pass through the windows' pages, of which there are fewer than the others.
    for which in 0..20 {
        engine.submit(Request::greedy(prompt_below(N_VOCAB, 8 + which, 50), 2)).unwrap();
        drain_into(&mut engine, &mut answers);
    }
    let before = engine.stats().prefix_hit_tokens;
    let again = engine.submit(first).unwrap();
    drain_into(&mut engine, &mut answers);
    assert_eq!(engine.stats().prefix_hit_tokens, before, "its window is gone");
    assert_eq!(answers.of(id).ids(), answers.of(again).ids());
}

#[test]
fn an_evaluation_moves_its_window_on() {
    let mut few = engine("gemma3-a.Q8_0", CONFIG);
    let mut all = engine("gemma3-a.Q8_0", KEEPS_ALL);
    let ids = prompt_below(N_VOCAB, 9, 500);
    let before = settled(&few);
    let rows = |engine: &mut Engine| {
        let mut rows = Vec::new();
        engine
            .evaluate(&ids, |_, logits| {
                rows.push(logits.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
        rows
    };
    assert!(rows(&mut few) == rows(&mut all), "the logits of a position are the same");
    assert_eq!(settled(&few), before);
}
