//! Which layers of `gemma3` have a window, from each way in which files say it, and what else follows from the kind.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use zinc_gguf::{Array, DType, Gguf, Value, Writer};
use zinc_graph::ops::{Attention, Op, Rope};
use zinc_models::{Error, Model};

const N_LAYERS: u32 = 8;

/// A file of 8 layers with metadata only, which is all that the graph needs.
fn load(n_layers: u32, extra: &[(&str, Value)]) -> Result<Model, Error> {
    let keys: Vec<(&str, Value)> = vec![
        ("block_count", n_layers.into()),
        ("context_length", 64u32.into()),
        ("embedding_length", 48u32.into()),
        ("feed_forward_length", 64u32.into()),
        ("attention.head_count", 4u32.into()),
        ("attention.head_count_kv", 2u32.into()),
        ("attention.key_length", 16u32.into()),
        ("attention.layer_norm_rms_epsilon", 1e-6f32.into()),
        ("rope.freq_base", 1e6f32.into()),
        ("vocab_size", 5u32.into()),
    ];
    let mut writer = Writer::new();
    writer.metadata("general.architecture", "gemma3");
    for (key, value) in keys.iter().chain(extra) {
        writer.metadata(format!("gemma3.{key}"), value.clone());
    }
    writer.tensor("output_norm.weight", &[48], DType::F32, vec![0; 48 * 4]);
    Model::from_gguf(&Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap())
}

fn attentions(model: &Model) -> Vec<Attention> {
    let ops = model.graph.nodes.iter().map(|node| node.op);
    ops.filter_map(|op| if let Op::Attention(attention) = op { Some(attention) } else { None }).collect()
}

/// The rotation of each layer's queries.
fn ropes(model: &Model) -> Vec<Rope> {
    let ops = model.graph.nodes.iter().map(|node| node.op);
    let all: Vec<Rope> = ops.filter_map(|op| if let Op::Rope(rope) = op { Some(rope) } else { None }).collect();
    all.into_iter().step_by(2).collect()
}

/// `S` for a layer with a window, `F` for one without.
#[track_caller]
fn kinds(extra: &[(&str, Value)], expected: &str) {
    let model = load(N_LAYERS, extra).unwrap();
    let kinds: String = attentions(&model).iter().map(|a| if a.window > 0 { 'S' } else { 'F' }).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn every_sixth_layer_is_global_unless_the_file_says_otherwise() {
    let window = || ("attention.sliding_window", Value::from(32u32));
    const PATTERN: &str = "attention.sliding_window_pattern";
    kinds(&[window()], "SSSSSFSS");
    kinds(&[window(), (PATTERN, 2u32.into())], "SFSFSFSF");
    kinds(&[window(), (PATTERN, 1u32.into())], "FFFFFFFF");
    let flags = [true, true, false, false, true, false, true, false];
    kinds(&[window(), (PATTERN, Value::Array(Array::Bool(flags.to_vec())))], "SSFFSFSF");
    kinds(&[], "FFFFFFFF");
    kinds(&[("attention.sliding_window", 0u32.into())], "FFFFFFFF");
}

#[test]
fn a_pattern_that_cannot_be_is_refused() {
    let refused = |value: Value, message: &str| {
        let keys = [("attention.sliding_window", 32u32.into()), ("attention.sliding_window_pattern", value)];
        assert_eq!(load(N_LAYERS, &keys).unwrap_err().to_string(), message);
    };
    let key = r#"metadata key "gemma3.attention.sliding_window_pattern""#;
    refused(0u32.into(), &format!("{key}: 0 is not from 1 to 1024"));
    refused(Value::Array(Array::Bool(vec![true; 3])), &format!("{key}: 3 is not the number of layers"));
    refused("all".into(), &format!("{key} is of type string, expected u32"));
}

#[test]
fn the_two_kinds_rotate_differently() {
    let keys = [
        ("attention.sliding_window", 32u32.into()),
        ("rope.scaling.type", "linear".into()),
        ("rope.scaling.factor", 8f32.into()),
    ];
    let ropes = ropes(&load(N_LAYERS, &keys).unwrap());
    assert_eq!((ropes[0].base, ropes[0].position_scale), (10_000.0, 1.0));
    assert_eq!((ropes[5].base, ropes[5].position_scale), (1e6, 0.125));
}

#[test]
fn scores_are_scaled_by_the_head_but_in_the_model_of_62_layers() {
    assert_eq!(attentions(&load(N_LAYERS, &[]).unwrap())[0].scale, 0.25);
    let per_head = (48f32 / 4.0).sqrt();
    assert!((attentions(&load(62, &[]).unwrap())[61].scale - 1.0 / per_head).abs() < 1e-7);
}

#[test]
fn logits_are_capped_where_the_file_asks_for_it() {
    let caps = |model: &Model| model.graph.nodes.iter().filter(|n| matches!(n.op, Op::Softcap(_))).count();
    assert_eq!(caps(&load(N_LAYERS, &[]).unwrap()), 0);
    assert_eq!(caps(&load(N_LAYERS, &[("final_logit_softcapping", 30f32.into())]).unwrap()), 1);
}
