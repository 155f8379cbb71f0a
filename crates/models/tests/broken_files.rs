//! Files that are no model: each gets the error that names the key or tensor, what it is and what it must be.
//!
//! Every case is one change to a small sound file.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use zinc_gguf::{Array, DType, Gguf, Value, Writer};
use zinc_models::{Error, Model};

/// A model file in pieces.
struct File {
    keys: Vec<(&'static str, Value)>,
    tensors: Vec<(String, Vec<u64>, DType)>,
}

impl File {
    /// One layer, two query heads and one key and value head of 4 columns, 32 wide, 5 tokens.
    fn sound() -> File {
        let keys = vec![
            ("general.architecture", "llama".into()),
            ("llama.block_count", 1u32.into()),
            ("llama.context_length", 64u32.into()),
            ("llama.embedding_length", 32u32.into()),
            ("llama.feed_forward_length", 64u32.into()),
            ("llama.attention.head_count", 2u32.into()),
            ("llama.attention.head_count_kv", 1u32.into()),
            ("llama.attention.key_length", 4u32.into()),
            ("llama.attention.layer_norm_rms_epsilon", 1e-5f32.into()),
            ("llama.rope.freq_base", 10_000f32.into()),
            ("llama.vocab_size", 5u32.into()),
        ];
        let tensors = [
            ("token_embd.weight", vec![32, 5], DType::F32),
            ("output_norm.weight", vec![32], DType::F32),
            ("blk.0.attn_norm.weight", vec![32], DType::F32),
            ("blk.0.attn_q.weight", vec![32, 8], DType::Q8_0),
            ("blk.0.attn_k.weight", vec![32, 4], DType::Q8_0),
            ("blk.0.attn_v.weight", vec![32, 4], DType::Q8_0),
            ("blk.0.attn_output.weight", vec![8, 32], DType::F16),
            ("blk.0.ffn_norm.weight", vec![32], DType::F32),
            ("blk.0.ffn_gate.weight", vec![32, 64], DType::Q8_0),
            ("blk.0.ffn_up.weight", vec![32, 64], DType::Q8_0),
            ("blk.0.ffn_down.weight", vec![64, 32], DType::Q8_0),
        ];
        File { keys, tensors: tensors.map(|(name, shape, dtype)| (name.to_owned(), shape, dtype)).into() }
    }

    fn set(mut self, key: &'static str, value: impl Into<Value>) -> File {
        self.keys.retain(|(k, _)| *k != key);
        self.keys.push((key, value.into()));
        self
    }

    fn without(mut self, key_or_tensor: &str) -> File {
        let before = self.keys.len() + self.tensors.len();
        self.keys.retain(|(k, _)| *k != key_or_tensor);
        self.tensors.retain(|(t, ..)| t != key_or_tensor);
        assert_eq!(self.keys.len() + self.tensors.len() + 1, before, "{key_or_tensor} is not in the sound file");
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64], dtype: DType) -> File {
        self.tensors.retain(|(t, ..)| t != name);
        self.tensors.push((name.to_owned(), shape.to_vec(), dtype));
        self
    }

    fn gguf(&self) -> Gguf {
        let mut writer = Writer::new();
        for (key, value) in &self.keys {
            writer.metadata(*key, value.clone());
        }
        for (name, shape, dtype) in &self.tensors {
            let n: u64 = shape.iter().product();
            let n_bytes = usize::try_from(n).unwrap() / dtype.block_len() * dtype.block_bytes();
            writer.tensor(name.as_str(), shape, *dtype, vec![0; n_bytes]);
        }
        Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
    }

    fn load(&self) -> Result<Model, Error> {
        let file = self.gguf();
        let model = Model::from_gguf(&file)?;
        model.dtypes(&file)?;
        model.weights(&file)?;
        Ok(model)
    }
}

#[track_caller]
fn refused(file: File, message: &str) {
    let error = file.load().expect_err("the file is broken");
    assert_eq!(error.to_string(), message);
}

#[test]
fn the_sound_file_loads() {
    let model = File::sound().set("general.name", "tiny").load().unwrap();
    assert_eq!((model.architecture, model.name.as_deref()), ("llama", Some("tiny")));
    assert_eq!((model.n_layers, model.n_embd, model.n_vocab, model.context_train), (1, 32, 5, 64));
    let shape = model.graph.shape(model.logits);
    assert_eq!((shape.cols, model.graph.shape(model.greedy).cols), (5, 1));
}

#[test]
fn weights_come_in_the_order_of_the_graph() {
    let file = File::sound().gguf();
    let model = Model::from_gguf(&file).unwrap();
    let weights = model.weights(&file).unwrap();
    let dtypes = model.dtypes(&file).unwrap();
    assert_eq!(weights.len(), model.graph.weights.len());
    for ((weight, data), dtype) in model.graph.weights.iter().zip(&weights).zip(dtypes) {
        let tensor = file.tensor(&weight.name).unwrap();
        assert_eq!((data.dtype, data.dtype), (tensor.dtype, dtype), "{}", weight.name);
        assert_eq!(data.bytes.as_ptr(), file.data(tensor).unwrap().as_ptr(), "{} was copied", weight.name);
    }
}

#[test]
fn an_architecture_must_be_known() {
    let error = File::sound().set("general.architecture", "mamba\u{1b}[2J").load().unwrap_err().to_string();
    assert!(error.starts_with(r#"general.architecture is "mamba\u{1b}[2J", which is not supported"#), "{error}");
    assert!(error.contains("supported are llama, qwen2, qwen3, gemma3"), "{error}");
    refused(File::sound().without("general.architecture"), r#"metadata key "general.architecture" is missing"#);
}

#[test]
fn keys_must_be_there_and_of_their_type() {
    for key in ["block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"] {
        let key = format!("llama.{key}");
        refused(File::sound().without(&key), &format!("metadata key {key:?} is missing"));
    }
    refused(
        File::sound().set("llama.block_count", "one"),
        r#"metadata key "llama.block_count" is of type string, expected u32"#,
    );
    refused(
        File::sound().set("llama.block_count", -1i32),
        r#"metadata key "llama.block_count" is -1, which does not fit u32"#,
    );
    refused(File::sound().without("llama.vocab_size"), r#"metadata key "tokenizer.ggml.tokens" is missing"#);
}

#[test]
fn hyperparameters_must_be_inside_their_bounds() {
    let cases: [(&str, Value, &str); 18] = [
        ("block_count", 0u32.into(), "0 is not from 1 to 1024"),
        ("block_count", 1025u32.into(), "1025 is not from 1 to 1024"),
        ("embedding_length", 0u32.into(), "0 is not from 1 to 65536"),
        ("embedding_length", u32::MAX.into(), "4294967295 is not from 1 to 65536"),
        ("feed_forward_length", 0u32.into(), "0 is not from 1 to 1048576"),
        ("attention.head_count", 0u32.into(), "0 is not from 1 to 1024"),
        ("attention.head_count", u32::MAX.into(), "4294967295 is not from 1 to 1024"),
        ("attention.head_count_kv", 0u32.into(), "0 is not from 1 to 1024"),
        ("attention.head_count_kv", 3u32.into(), "3 does not divide the number of query heads, 2"),
        ("attention.key_length", 0u32.into(), "0 is not from 1 to 4096"),
        ("rope.dimension_count", 6u32.into(), "6 is not from 2 to 4"),
        ("rope.dimension_count", 3u32.into(), "3 is not even"),
        ("rope.freq_base", 0f32.into(), "0 is not a finite number above 0"),
        ("rope.freq_base", f32::INFINITY.into(), "inf is not a finite number above 0"),
        ("attention.layer_norm_rms_epsilon", f32::NAN.into(), "NaN is not a finite number above 0"),
        ("attention.layer_norm_rms_epsilon", 1f32.into(), "1 is not below 1"),
        ("context_length", 0u32.into(), "0 is not from 1 to 134217728"),
        ("rope.scaling.factor", (-2f32).into(), "-2 is not a finite number above 0"),
    ];
    for (key, value, rule) in cases {
        let key: &'static str = format!("llama.{key}").leak();
        refused(File::sound().set(key, value), &format!("metadata key {key:?}: {rule}"));
    }
    refused(
        File::sound().set("llama.vocab_size", (1u32 << 20) + 1),
        r#"metadata key "tokenizer.ggml.tokens": 1048577 is not from 1 to 1048576"#,
    );
}

#[test]
fn variants_that_are_not_supported_are_named() {
    refused(
        File::sound().set("llama.rope.scaling.type", "yarn"),
        r#"metadata key "llama.rope.scaling.type" is "yarn", which is not supported; supported are none, linear"#,
    );
    let heads: Array = Array::U32(vec![1, 2]);
    refused(
        File::sound().set("llama.attention.head_count_kv", Value::Array(heads)),
        r#"metadata key "llama.attention.head_count_kv" is "[1, 2]", which is not supported; supported are arrays whose entries are all equal"#,
    );
}

#[test]
fn every_tensor_of_the_graph_must_be_there() {
    for (name, shape, _) in File::sound().tensors {
        refused(File::sound().without(&name), &format!("tensor {name:?} is missing, expected one of shape {shape:?}"));
    }
    let two_layers = File::sound().set("llama.block_count", 2u32);
    refused(two_layers, r#"tensor "blk.1.attn_norm.weight" is missing, expected one of shape [32]"#);
}

#[test]
fn every_tensor_of_the_file_must_have_a_use() {
    refused(
        File::sound().tensor("blk.0.attn_q_norm.weight", &[4], DType::F32),
        r#"tensor "blk.0.attn_q_norm.weight" has no use in the architecture "llama": the file is of a variant that is not supported"#,
    );
    refused(
        File::sound().tensor("blk.1.attn_norm.weight", &[32], DType::F32),
        r#"tensor "blk.1.attn_norm.weight" has no use in the architecture "llama": the file is of a variant that is not supported"#,
    );
    File::sound().tensor("blk.0.attn_rot_embd.weight", &[2], DType::F32).load().unwrap();
}

#[test]
fn every_tensor_must_have_its_shape() {
    refused(
        File::sound().tensor("blk.0.attn_q.weight", &[32, 4], DType::Q8_0),
        r#"tensor "blk.0.attn_q.weight" has shape [32, 4], expected [32, 8] by the file's metadata"#,
    );
    refused(
        File::sound().tensor("blk.0.attn_norm.weight", &[32, 2], DType::F32),
        r#"tensor "blk.0.attn_norm.weight" has shape [32, 2], expected [32] by the file's metadata"#,
    );
    refused(
        File::sound().tensor("token_embd.weight", &[32, 6], DType::F32),
        r#"tensor "token_embd.weight" has shape [32, 6], expected [32, 5] by the file's metadata"#,
    );
    File::sound().tensor("blk.0.attn_norm.weight", &[32, 1, 1], DType::F32).load().unwrap();
}

#[test]
fn vectors_must_be_f32() {
    refused(
        File::sound().tensor("blk.0.attn_norm.weight", &[32], DType::F16),
        r#"tensor "blk.0.attn_norm.weight" is stored as F16, expected F32"#,
    );
}

#[test]
fn what_the_file_has_decides_what_the_graph_reads() {
    let weights = |file: File| file.load().unwrap().graph.weights.into_iter().map(|w| w.name).collect::<Vec<_>>();
    let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
    let plain = weights(File::sound());
    assert!(!has(&plain, "output.weight") && !has(&plain, "blk.0.attn_q.bias") && !has(&plain, "rope_freqs.weight"));
    let untied = weights(File::sound().tensor("output.weight", &[32, 5], DType::Q8_0));
    assert!(has(&untied, "output.weight"));
    let scaled = weights(File::sound().tensor("rope_freqs.weight", &[2], DType::F32));
    assert!(has(&scaled, "rope_freqs.weight"));
    let biased = File::sound()
        .tensor("blk.0.attn_q.bias", &[8], DType::F32)
        .tensor("blk.0.attn_k.bias", &[4], DType::F32)
        .tensor("blk.0.attn_v.bias", &[4], DType::F32)
        .tensor("blk.0.attn_output.bias", &[32], DType::F32);
    let biased = weights(biased);
    assert!(has(&biased, "blk.0.attn_v.bias") && has(&biased, "blk.0.attn_output.bias"));
}
