//! The hybrids, the mixtures of experts and Gemma 4 against `transformers`: tiny random models, their logits, greedy
//! tokens, activations and recurrent states, whatever the steps in which a prompt is fed.
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
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes};
use zinc_graph::batch::Places;
use zinc_graph::ops::Op;
use zinc_graph::reference::{Reference, Resource};
use zinc_graph::section::ResourceId;
use zinc_graph::{Backend, Batch, Graph};
use zinc_testkit::crowd::check_crowd;
use zinc_testkit::golden::{Demand, Golden, check, check_resumed, check_trace};

type MakeBackend = fn() -> Box<dyn Backend>;

/// Backends that compute in f32 throughout.
const BACKENDS: &[MakeBackend] = &[|| Box::new(Reference::new()), || Box::new(Cpu::new(2).unwrap())];

const EXACT: Demand<'_> = Demand {
    kv_format: KvFormat::F32,
    logit_tolerance: 2e-4,
    router_gap_min: 0.0,
    chunks: &[usize::MAX, 1, 3, 16, 64],
};

/// 1 + 7 + 33 positions and 14 of 130.
const N_ROWS: usize = 55;

fn golden(name: &str) -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.golden.json"));
    Golden::load(&path).unwrap()
}

/// Logits and greedy tokens: whole, in chunks, resumed from copied states, and in a crowd.
fn agrees(name: &str) {
    let golden = golden(name);
    let clear = |margins: &[f32]| margins.iter().take_while(|m| **m >= 2.0 * EXACT.logit_tolerance).count();
    let n_greedy: usize = golden.prompts.iter().map(|p| clear(&p.greedy_margin)).sum();
    assert!(n_greedy >= 48, "half of the greedy tokens of {name} are clear winners");
    for make in BACKENDS {
        let outcome = check(&golden, make(), &EXACT).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}: {outcome:?}");
        assert_eq!((outcome.n_rows, outcome.n_greedy), (EXACT.chunks.len() * N_ROWS, EXACT.chunks.len() * n_greedy));
        let resumed = check_resumed(&golden, make(), &EXACT).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}, resumed: {resumed:?}");
        let crowd = check_crowd(&golden, make(), &EXACT).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}, crowd: {crowd:?}");
        assert_eq!(crowd.n_rows, N_ROWS);
    }
}

fn trace_agrees(name: &str) {
    for make in BACKENDS {
        let worst = check_trace(&golden(name), make(), 2e-4).unwrap_or_else(|e| panic!("{e}"));
        println!("{name}: {worst:e}");
    }
}

/// Recurrent states after a prompt fed in two steps, by the layout that the ops document.
fn states_agree(name: &str) {
    let golden = golden(name);
    let state = golden.state.as_ref().expect("the golden has states");
    let tokens = &golden.prompts[state.prompt].tokens;
    let (file, model) = golden.open().unwrap();
    let mut reference = Reference::new();
    let sizes = StateSizes { n_pages: 4, n_window_pages: 0, kv_format: KvFormat::F32, n_slots: 3 };
    reference.load(&model.graph, model.weights(&file).unwrap(), sizes).unwrap();
    let options = PlanOptions { bucket: Bucket { tokens: 64, outputs: 64 }, keep_values: false };
    let plan = reference.compile(&model.graph, &options).unwrap();
    for (first, part) in [(0, &tokens[..20]), (20, &tokens[20..])] {
        let ticket = reference.submit(plan, &in_slot_2(part, first)).unwrap();
        reference.wait(ticket).unwrap();
    }
    for (name, expected) in &state.tensors {
        let (layer, what) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).unwrap();
        let (resource, keys) = resource_of(&model.graph, layer.parse().unwrap(), what);
        let Resource::State { len, data } = &reference.resources()[usize::from(resource.0)] else { panic!("{name}") };
        assert_eq!(*len, expected.len(), "{name}");
        let got = &data[2 * len..3 * len];
        // The golden has keys outermost in a head, the op values.
        let values = keys.map_or(1, |(k_dim, v_dim)| k_dim * v_dim);
        for (i, &got) in got.iter().enumerate() {
            let at = match keys {
                Some((k_dim, v_dim)) => i / values * values + i % k_dim * v_dim + i % values / k_dim,
                None => i,
            };
            assert!((got - expected[at]).abs() < 1e-4, "{name}[{i}] is {got}, expected {}", expected[at]);
        }
    }
}

fn in_slot_2(ids: &[u32], first: u32) -> Batch {
    let n = u32::try_from(ids.len()).unwrap();
    Batch {
        ids: ids.to_vec(),
        positions: (first..first + n).collect(),
        seq_idx: vec![0; ids.len()],
        query_start: vec![0, n],
        full: Places { kv_slots: (first..first + n).collect(), block_tables: (0..4).collect() },
        window: Places::default(),
        pages_max: 4,
        state_slots: vec![2],
        output_rows: vec![],
    }
}

/// The state of a layer, and the width of its keys and values if it is a delta net's.
fn resource_of(graph: &Graph, layer: usize, what: &str) -> (ResourceId, Option<(usize, usize)>) {
    let nodes = graph.nodes.iter().zip(&graph.layer_of_node).filter(|(_, l)| **l == Some(layer));
    nodes
        .filter_map(|(node, _)| match (node.op, what) {
            (Op::Conv1d(_), "conv") => Some((node.resource?, None)),
            (Op::DeltaNet(d), "recurrent") => Some((node.resource?, Some((d.k_dim as usize, d.v_dim as usize)))),
            _ => None,
        })
        .next()
        .unwrap_or_else(|| panic!("layer {layer} has no state {what}"))
}

macro_rules! each {
    ($check:ident: $($test:ident = $name:literal),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                $check($name);
            }
        )+
    };
}

each! { agrees:
    qwen35_agrees = "qwen35-a.F32",
    qwen35_in_f16_agrees = "qwen35-a.F16",
    qwen35_in_q8_0_agrees = "qwen35-a.Q8_0",
    qwen35_with_shared_key_heads_and_no_list_of_layers_agrees = "qwen35-b.F32",
    qwen35_skips_the_layers_that_predict_further_tokens = "qwen35-m.F32",
    qwen35_in_q4_k_agrees = "qwen35-k.Q4_K",
    qwen35_in_q5_k_agrees = "qwen35-k.Q5_K",
    qwen35_in_q6_k_agrees = "qwen35-k.Q6_K",
    qwen35moe_agrees = "qwen35moe-a.F32",
    qwen35moe_in_q8_0_agrees = "qwen35moe-a.Q8_0",
    qwen35moe_in_q4_k_agrees = "qwen35moe-k.Q4_K",
    qwen3moe_agrees = "qwen3moe-a.F32",
    qwen3moe_in_q8_0_agrees = "qwen3moe-a.Q8_0",
    gpt_oss_agrees = "gptoss-a.F32",
    gpt_oss_in_mxfp4_agrees = "gptoss-a.MXFP4",
    gpt_oss_with_rounded_yarn_agrees = "gptoss-t.F32",
    gemma4_agrees = "gemma4-a.F32",
    gemma4_in_q8_0_agrees = "gemma4-a.Q8_0",
    gemma4_with_experts_agrees = "gemma4moe-a.F32",
    gemma4_with_experts_in_q8_0_agrees = "gemma4moe-a.Q8_0",
}

each! { trace_agrees:
    every_layer_of_qwen35_agrees = "qwen35-a.F32",
    every_layer_of_qwen35_with_shared_key_heads_agrees = "qwen35-b.F32",
    every_layer_of_qwen35_with_k_quants_agrees = "qwen35-k.Q4_K",
    every_layer_of_qwen35moe_agrees = "qwen35moe-a.F32",
    every_layer_of_qwen35moe_with_k_quants_agrees = "qwen35moe-k.Q4_K",
    every_layer_of_qwen3moe_agrees = "qwen3moe-a.F32",
    every_layer_of_gpt_oss_agrees = "gptoss-a.F32",
    every_layer_of_gemma4_agrees = "gemma4-a.F32",
    every_layer_of_gemma4_with_experts_agrees = "gemma4moe-a.F32",
}

each! { states_agree:
    states_of_qwen35_agree = "qwen35-a.F32",
    states_of_qwen35_with_shared_key_heads_agree = "qwen35-b.F32",
    states_of_qwen35_before_a_skipped_layer_agree = "qwen35-m.F32",
    states_of_qwen35_with_k_quants_agree = "qwen35-k.Q4_K",
    states_of_qwen35moe_agree = "qwen35moe-a.F32",
    states_of_qwen35moe_with_k_quants_agree = "qwen35moe-k.Q4_K",
}
