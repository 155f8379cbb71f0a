//! Tiny models of `fixtures/tiny` through the whole engine: the ids and logits that transformers gives.
//!
//! All prompts run together, in chunks, with fewer slots than prompts, so that pages and recurrent
//! states are used again by a later sequence. Every op and architecture is checked elsewhere; here
//! one of each kind of state is enough.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use zinc_engine::config::KvSize;
use zinc_engine::{Engine, EngineConfig};
use zinc_graph::backend::KvFormat;
use zinc_graph::reference::Reference;
use zinc_testkit::golden::{Golden, Prompt};

use crate::tiny::{drain, request};

/// What `fixtures/tiny/README.md` states for f32 arithmetic.
const LOGIT_TOLERANCE: f32 = 1e-3;

const CONFIG: EngineConfig = EngineConfig {
    context_tokens: 160,
    sequences_max: 2,
    step_tokens: 45,
    kv: KvSize::Tokens(200),
    kv_format: KvFormat::F32,
    queue_max: 4,
    snapshot_bytes: 1 << 20,
    snapshot_tokens: 48,
    decode_gap_max: Duration::from_secs(60),
};

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name);
    let golden = Golden::load(&path).unwrap();
    let (file, model) = golden.open().unwrap();
    let weights = model.weights(&file).unwrap();
    let mut engine = Engine::new(Box::new(Reference::new()), model, weights, CONFIG).unwrap();
    let submit = |prompt: &Prompt| {
        let n_tokens = u32::try_from(prompt.greedy.len()).unwrap();
        engine.submit(request(prompt.tokens.clone(), n_tokens)).unwrap()
    };
    let ids: Vec<_> = golden.prompts.iter().map(submit).collect();
    let answers = drain(&mut engine);
    for (id, prompt) in ids.into_iter().zip(&golden.prompts) {
        // Where two tokens are too close to call, either path is right from there on.
        let n_sure =
            prompt.greedy_margin.iter().position(|&m| m < 2.0 * LOGIT_TOLERANCE).unwrap_or(prompt.greedy.len());
        let n_prompt = prompt.tokens.len();
        assert!(n_sure > 8, "{name}, prompt of {n_prompt}: the golden decides too little");
        assert_eq!(answers.of(id).ids()[..n_sure], prompt.greedy[..n_sure], "{name}, prompt of {n_prompt}");
    }
    let prompt = golden.prompts.iter().max_by_key(|p| p.tokens.len()).unwrap();
    let mut n_rows = 0;
    let row = |position: usize, logits: &[f32]| {
        if let Some(i) = prompt.positions.iter().position(|&p| p as usize == position) {
            let worst = prompt.logits[i].iter().zip(logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < LOGIT_TOLERANCE, "{name}, position {position}: {worst}");
            n_rows += 1;
        }
        ControlFlow::Continue(())
    };
    engine.evaluate(&prompt.tokens, row).unwrap();
    assert_eq!(n_rows, prompt.positions.len());
}

#[test]
fn llama_with_a_full_cache() {
    check("llama-a.F32.golden.json");
}

#[test]
fn gemma3_with_sliding_windows() {
    check("gemma3-a.F32.golden.json");
}

#[test]
fn qwen35_with_recurrent_states() {
    check("qwen35-m.F32.golden.json");
}
