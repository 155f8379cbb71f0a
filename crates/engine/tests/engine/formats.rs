//! Formats of keys and values with a real model: how far the predictions move, over a text that the model wrote itself.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use zinc_cpu::Cpu;
use zinc_engine::config::KvSize;
use zinc_engine::request::Request;
use zinc_engine::sampler::Sampling;
use zinc_engine::{Engine, EngineConfig};
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;
use zinc_models::Model;
use zinc_testkit::environment::model_file;

use crate::tiny::drain;

const CONFIG: EngineConfig = EngineConfig {
    context_tokens: 512,
    sequences_max: 1,
    step_tokens: 256,
    kv: KvSize::Contexts,
    kv_format: KvFormat::F16,
    queue_max: 4,
    snapshot_bytes: 0,
    snapshot_tokens: 64,
    decode_gap_max: Duration::from_secs(60),
};
const N_TOKENS: u32 = 240;

fn engine(path: &Path, kv_format: KvFormat) -> Engine {
    let file = Gguf::open(path).unwrap();
    let model = Model::from_gguf(&file).unwrap();
    let weights = model.weights(&file).unwrap();
    Engine::new(Box::new(Cpu::new(2).unwrap()), model, weights, EngineConfig { kv_format, ..CONFIG }).unwrap()
}

/// Log probabilities of every position.
fn predictions(engine: &mut Engine, ids: &[u32]) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    let row = |_: usize, logits: &[f32]| {
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&x| f64::from(x - most).exp()).sum();
        rows.push(logits.iter().map(|&x| f64::from(x - most) - sum.ln()).collect());
        ControlFlow::Continue(())
    };
    engine.evaluate(ids, row).unwrap();
    rows
}

fn best(row: &[f64]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

#[test]
fn bytes_hardly_move_what_a_model_predicts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(path) = model_file(&root, "SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let mut half = engine(&path, KvFormat::F16);
    let sampling = Sampling { temperature: 0.8, top_p: 0.95, ..Sampling::greedy() };
    let id = half.submit(Request { sampling, seed: 3, ..Request::greedy(vec![1, 504], N_TOKENS) }).unwrap();
    let ids = drain(&mut half).of(id).ids();
    let expected = predictions(&mut half, &ids);
    let mut bytes = engine(&path, KvFormat::Q8);
    // Three heads of 64: 192 bytes and six scales, in whole words of 16, instead of 384 bytes.
    assert_eq!(bytes.limits().kv_bytes * 384, half.limits().kv_bytes * 208);
    let got = predictions(&mut bytes, &ids);
    let divergence = |(p, q): (&Vec<f64>, &Vec<f64>)| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
    let rows = || expected.iter().zip(&got);
    let n = rows().count() as f64;
    let mean = rows().map(divergence).sum::<f64>() / n;
    let same = rows().filter(|(p, q)| best(p) == best(q)).count() as f64 / n;
    let perplexity = |rows: &[Vec<f64>]| {
        let likely: f64 = ids[1..].iter().zip(rows).map(|(&id, row)| row[id as usize]).sum();
        (-likely / (ids.len() - 1) as f64).exp()
    };
    eprintln!(
        "{n} positions: mean divergence {mean:.2e}, same best token {same:.4}, perplexity {:.4} in f16, {:.4} in bytes",
        perplexity(&expected),
        perplexity(&got)
    );
    assert!(mean > 0.0 && mean < 2e-3 && same > 0.97);
}
