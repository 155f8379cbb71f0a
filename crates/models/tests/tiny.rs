//! The dense architectures against `transformers`: tiny random models, their logits, greedy tokens and activations.
//!
//! Goldens were computed in f32 on (dequantised) f32 weights, so a backend that works in f32 with an f32 cache must come
//! within 2e-4 for every storage type; logits have a root mean square of about 3.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise and shows what it measured"
)]

use std::path::Path;

use zinc_cpu::Cpu;
use zinc_graph::Backend;
use zinc_graph::backend::KvFormat;
use zinc_graph::reference::Reference;
use zinc_testkit::crowd::check_crowd;
use zinc_testkit::golden::{Demand, Golden, check, check_trace};

type MakeBackend = fn() -> Box<dyn Backend>;

/// Backends that compute in f32 throughout.
const BACKENDS: &[MakeBackend] = &[|| Box::new(Reference::new()), || Box::new(Cpu::new(2).unwrap())];

const EXACT: Demand<'_> = Demand {
    kv_format: KvFormat::F32,
    logit_tolerance: 2e-4,
    router_gap_min: 0.0,
    chunks: &[usize::MAX, 1, 3, 16, 64],
};

fn golden(name: &str) -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.golden.json"));
    Golden::load(&path).unwrap()
}

fn agrees(name: &str) {
    for make in BACKENDS {
        let outcome = check(&golden(name), make(), &EXACT).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}: {outcome:?}");
        // 1 + 7 + 33 positions and 14 of 130; 24 tokens after each prompt.
        assert_eq!((outcome.n_rows, outcome.n_greedy), (5 * 55, 5 * 4 * 24));
        let crowd = check_crowd(&golden(name), make(), &EXACT).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}, several sequences at once: {crowd:?}");
        assert_eq!(crowd.n_rows, 55);
    }
}

fn trace_agrees(name: &str) {
    for make in BACKENDS {
        let worst = check_trace(&golden(name), make(), 2e-4).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}: {worst:e}");
    }
}

#[test]
fn llama_agrees() {
    agrees("llama-a.F32");
}

#[test]
fn llama_with_k_quants_agrees() {
    agrees("llama-k.Q4_K");
}

#[test]
fn llama_with_frequency_factors_agrees() {
    agrees("llama3-a.F32");
}

#[test]
fn qwen3_agrees() {
    agrees("qwen3-a.F32");
}

#[test]
fn qwen3_in_q8_0_agrees() {
    agrees("qwen3-a.Q8_0");
}

#[test]
fn qwen3_with_k_quants_agrees() {
    agrees("qwen3-k.Q4_K");
}

#[test]
fn gemma3_agrees() {
    agrees("gemma3-a.F32");
}

#[test]
fn gemma3_in_q8_0_agrees() {
    agrees("gemma3-a.Q8_0");
}

#[test]
fn every_layer_of_llama_agrees() {
    trace_agrees("llama-a.F32");
}

#[test]
fn every_layer_of_llama_with_frequency_factors_agrees() {
    trace_agrees("llama3-a.F32");
}

#[test]
fn every_layer_of_qwen3_agrees() {
    trace_agrees("qwen3-a.F32");
}

#[test]
fn every_layer_of_gemma3_agrees() {
    trace_agrees("gemma3-a.F32");
}
