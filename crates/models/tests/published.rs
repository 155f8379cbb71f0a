//! What holds for every published dense model once it is unrolled. That its numbers are the published ones is checked
//! when the crate is compiled.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use zinc_graph::Graph;
use zinc_models::declaration::{Declaration, Fault};
use zinc_models::hparams::Hparams;
use zinc_models::published::{gemma3, llama, qwen2, qwen3};

fn unrolls(declared: Result<Declaration, Fault>, hp: &Hparams, nodes_per_layer: usize) -> Graph {
    let graph = declared.unwrap().blueprint().unroll().unwrap();
    graph.validate().unwrap();
    // The prologue is one node, the epilogue four.
    assert_eq!(graph.nodes.len(), hp.n_layers as usize * nodes_per_layer + 5);
    assert_eq!(graph.resources.len(), hp.n_layers as usize);
    assert_eq!(graph.shape(graph.outputs[0]).cols, hp.n_vocab);
    graph
}

#[test]
fn each_unrolls_to_a_valid_graph() {
    for model in [llama::SMOLLM2_135M, llama::SMOLLM2_360M, llama::SMOLLM2_1_7B] {
        unrolls(model.declare(), &model.hp, 16);
    }
    for model in [llama::LLAMA_3_2_1B, llama::LLAMA_3_2_3B, llama::LLAMA_3_1_8B] {
        let graph = unrolls(model.declare(), &model.hp, 16);
        assert_eq!(graph.weights.iter().filter(|w| w.name == "rope_freqs.weight").count(), 1);
    }
    for model in [qwen2::QWEN2_5_CODER_0_5B, qwen2::QWEN2_5_CODER_1_5B, qwen2::QWEN2_5_CODER_7B] {
        unrolls(model.declare(), &model.hp, 16);
    }
    for model in
        [qwen3::QWEN3_0_6B, qwen3::QWEN3_1_7B, qwen3::QWEN3_4B, qwen3::QWEN3_8B, qwen3::QWEN3_14B, qwen3::QWEN3_32B]
    {
        unrolls(model.declare(), &model.hp, 18);
    }
    for model in [gemma3::GEMMA3_270M, gemma3::GEMMA3_1B, gemma3::GEMMA3_4B, gemma3::GEMMA3_12B, gemma3::GEMMA3_27B] {
        unrolls(model.declare(), &model.hp, 20);
    }
}

#[test]
fn the_head_is_read_from_the_embedding_where_they_are_tied() {
    let has_head = |declared: Result<Declaration, Fault>, hp| {
        unrolls(declared, hp, 18).weights.iter().any(|w| w.name == "output.weight")
    };
    assert!(!has_head(qwen3::QWEN3_4B.declare(), &qwen3::QWEN3_4B.hp));
    assert!(has_head(qwen3::QWEN3_8B.declare(), &qwen3::QWEN3_8B.hp));
}
