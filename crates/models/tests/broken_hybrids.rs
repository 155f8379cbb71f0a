//! Files of hybrids, mixtures of experts and Gemma 4 that are no model: each gets the error that names the key or
//! tensor, what it is and what it must be.
//!
//! Every case is one change to a sound file of `fixtures/tiny`.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;

use zinc_gguf::{Array, Bytes, DType, Gguf, Value, Writer};
use zinc_models::{Error, Model};

/// A model file in pieces.
struct File {
    architecture: String,
    keys: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<u64>, DType, Bytes)>,
}

impl File {
    fn sound(name: &str) -> File {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.gguf"));
        let file = Gguf::open(&path).unwrap();
        File {
            architecture: file.metadata().require_str("general.architecture").unwrap().to_owned(),
            keys: file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            tensors: file
                .tensors()
                .iter()
                .map(|t| (t.name.clone(), t.shape.clone(), t.dtype, file.data_shared(t).unwrap()))
                .collect(),
        }
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> File {
        let key = format!("{}.{key}", self.architecture);
        self.keys.retain(|(k, _)| *k != key);
        self.keys.push((key, value.into()));
        self
    }

    fn without(mut self, key_or_tensor: &str) -> File {
        let before = self.keys.len() + self.tensors.len();
        let key = format!("{}.{key_or_tensor}", self.architecture);
        self.keys.retain(|(k, _)| *k != key);
        self.tensors.retain(|(t, ..)| t != key_or_tensor);
        assert_eq!(self.keys.len() + self.tensors.len() + 1, before, "{key_or_tensor} is not in the sound file");
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64], dtype: DType) -> File {
        let n = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let data = Bytes::from(vec![0; n / dtype.block_len() * dtype.block_bytes()]);
        self.tensors.retain(|(t, ..)| t != name);
        self.tensors.push((name.to_owned(), shape.to_vec(), dtype, data));
        self
    }

    fn load(&self) -> Result<Model, Error> {
        let mut writer = Writer::new();
        for (key, value) in &self.keys {
            writer.metadata(key.as_str(), value.clone());
        }
        for (name, shape, dtype, data) in &self.tensors {
            writer.tensor(name.as_str(), shape, *dtype, data.clone());
        }
        let file = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
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

/// Each key, set to a value, breaks a rule.
#[track_caller]
fn keys_refused(name: &str, cases: &[(&str, Value, &str)]) {
    for (key, value, rule) in cases {
        let file = File::sound(name).set(key, value.clone());
        let message = format!("metadata key {:?}: {rule}", format!("{}.{key}", file.architecture));
        refused(file, &message);
    }
}

#[test]
fn sound_files_load() {
    for name in
        ["qwen35-m.F32", "qwen35moe-a.Q8_0", "qwen3moe-a.Q8_0", "gptoss-a.MXFP4", "gemma4-a.Q8_0", "gemma4moe-a.Q8_0"]
    {
        File::sound(name).load().unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn numbers_of_a_delta_net_must_be_inside_their_bounds() {
    keys_refused(
        "qwen35-m.F32",
        &[
            ("ssm.group_count", 0u32.into(), "0 is not from 1 to 1024"),
            ("ssm.group_count", 3u32.into(), "3 does not divide the number of value heads, 2"),
            ("ssm.time_step_rank", 0u32.into(), "0 is not from 1 to 1024"),
            ("ssm.time_step_rank", 1_000_000_000u32.into(), "1000000000 is not from 1 to 1024"),
            ("ssm.state_size", 0u32.into(), "0 is not from 4 to 256"),
            ("ssm.state_size", 30u32.into(), "30 is not a multiple of 4"),
            ("ssm.state_size", 260u32.into(), "260 is not from 4 to 256"),
            ("ssm.inner_size", 65u32.into(), "65 is not a multiple of ssm.time_step_rank"),
            ("ssm.inner_size", 0u32.into(), "0 does not make heads whose width is a multiple of 4 up to 256"),
            ("ssm.inner_size", 1024u32.into(), "1024 does not make heads whose width is a multiple of 4 up to 256"),
            ("ssm.conv_kernel", 1u32.into(), "1 is not from 2 to 8"),
            ("ssm.conv_kernel", 9u32.into(), "9 is not from 2 to 8"),
            ("attention.head_count", 0u32.into(), "0 is not from 1 to 1024"),
            ("attention.layer_norm_rms_epsilon", f32::NAN.into(), "NaN is not a finite number above 0"),
            ("block_count", 0u32.into(), "0 is not from 1 to 1024"),
            ("block_count", 1_000_000_000u32.into(), "1000000000 is not from 1 to 1024"),
            ("nextn_predict_layers", 3u32.into(), "3 leaves no layers of block_count"),
            ("nextn_predict_layers", u32::MAX.into(), "4294967295 leaves no layers of block_count"),
            ("attention.recurrent_layers", Value::Array(Array::Bool(vec![true])), "1 is not the number of layers"),
        ],
    );
    for key in ["ssm.group_count", "ssm.time_step_rank", "ssm.state_size", "ssm.inner_size", "ssm.conv_kernel"] {
        refused(File::sound("qwen35-m.F32").without(key), &format!("metadata key \"qwen35.{key}\" is missing"));
    }
    refused(
        File::sound("qwen35-m.F32").without("attention.recurrent_layers").set("full_attention_interval", 0u32),
        r#"metadata key "qwen35.full_attention_interval": 0 is not from 1 to 1024"#,
    );
}

#[test]
fn tensors_of_a_delta_net_must_be_there_and_fit() {
    let file = || File::sound("qwen35-m.F32");
    refused(file().without("blk.0.ssm_a"), r#"tensor "blk.0.ssm_a" is missing, expected one of shape [2]"#);
    refused(
        file().tensor("blk.0.ssm_conv1d.weight", &[3, 128], DType::F32),
        r#"tensor "blk.0.ssm_conv1d.weight" has shape [3, 128], expected [4, 128] by the file's metadata"#,
    );
    refused(
        file().tensor("blk.0.ssm_conv1d.weight", &[4, 128], DType::F16),
        r#"tensor "blk.0.ssm_conv1d.weight" is stored as F16, expected F32"#,
    );
}

#[test]
fn only_layers_that_do_not_run_may_be_left_unread() {
    refused(
        File::sound("qwen35-m.F32").tensor("blk.1.nextn.enorm.weight", &[32], DType::F32),
        r#"tensor "blk.1.nextn.enorm.weight" has no use in the architecture "qwen35": the file is of a variant that is not supported"#,
    );
    // Without the count, the last layer runs, and what it has for prediction has no use.
    let error = File::sound("qwen35-m.F32").without("nextn_predict_layers").load().unwrap_err().to_string();
    assert!(error.starts_with(r#"tensor "blk.2.nextn."#), "{error}");
}

#[test]
fn numbers_of_experts_must_be_inside_their_bounds() {
    for name in ["qwen35moe-a.Q8_0", "qwen3moe-a.Q8_0"] {
        keys_refused(
            name,
            &[
                ("expert_count", 0u32.into(), "0 is not from 1 to 1024"),
                ("expert_count", 1_000_000_000u32.into(), "1000000000 is not from 1 to 1024"),
                ("expert_used_count", 0u32.into(), "0 is not from 1 to 8"),
                ("expert_used_count", 9u32.into(), "9 is not from 1 to 8"),
                ("expert_feed_forward_length", 0u32.into(), "0 is not from 1 to 1048576"),
                ("expert_feed_forward_length", u32::MAX.into(), "4294967295 is not from 1 to 1048576"),
            ],
        );
    }
    keys_refused(
        "qwen35moe-a.Q8_0",
        &[("expert_shared_feed_forward_length", 0u32.into(), "0 is not from 1 to 1048576")],
    );
    refused(
        File::sound("qwen3moe-a.Q8_0").set("expert_count", 7u32),
        r#"tensor "blk.0.ffn_gate_inp.weight" has shape [64, 8], expected [64, 7] by the file's metadata"#,
    );
    refused(
        File::sound("qwen35moe-a.Q8_0").without("blk.3.ffn_gate_inp_shexp.weight"),
        r#"tensor "blk.3.ffn_gate_inp_shexp.weight" is missing, expected one of shape [64]"#,
    );
}

#[test]
fn gpt_oss_needs_its_window_and_its_rope() {
    keys_refused(
        "gptoss-a.MXFP4",
        &[
            ("attention.sliding_window", 0u32.into(), "0 is not from 1 to 134217728"),
            ("rope.scaling.factor", 0f32.into(), "0 is not a finite number above 0"),
            ("rope.scaling.factor", f32::NAN.into(), "NaN is not a finite number above 0"),
            ("rope.scaling.original_context_length", 0u32.into(), "0 is not a finite number above 0"),
            ("rope.scaling.yarn_beta_fast", (-1f32).into(), "-1 is not a finite number above 0"),
        ],
    );
    refused(
        File::sound("gptoss-a.MXFP4").set("rope.scaling.type", "linear"),
        r#"metadata key "gpt-oss.rope.scaling.type" is "linear", which is not supported; supported are yarn"#,
    );
    refused(
        File::sound("gptoss-a.MXFP4").without("blk.1.attn_sinks.weight"),
        r#"tensor "blk.1.attn_sinks.weight" is missing, expected one of shape [4]"#,
    );
}

#[test]
fn gemma4_needs_numbers_for_both_kinds_of_layer() {
    let u32s = |values: &[u32]| Value::Array(Array::U32(values.to_vec()));
    let other = "is not one number for each kind of layer";
    keys_refused(
        "gemma4-a.Q8_0",
        &[
            ("attention.shared_kv_layers", 9u32.into(), "9 leaves no layers of block_count"),
            ("attention.sliding_window", 0u32.into(), "0 is not from 1 to 134217728"),
            ("attention.key_length_swa", 0u32.into(), "0 is not from 1 to 4096"),
            ("rope.dimension_count_swa", 63u32.into(), "63 is not even"),
            ("rope.freq_base_swa", f32::NAN.into(), "NaN is not a finite number above 0"),
            ("embedding_length_per_layer_input", 1_000_000_000u32.into(), "1000000000 is not from 1 to 65536"),
            ("final_logit_softcapping", f32::NAN.into(), "NaN is not a finite number above 0"),
            ("feed_forward_length", u32s(&[64, 64, 65, 64, 64, 64, 128, 128, 128]), &format!("65 {other}")),
            ("feed_forward_length", u32s(&[64, 64]), &format!("2 {other}")),
            ("attention.head_count_kv", u32s(&[1, 1, 1, 2, 1, 1, 1, 1, 1]), &format!("2 {other}")),
            ("attention.head_count_kv", u32s(&[]), &format!("0 {other}")),
            (
                "attention.sliding_window_pattern",
                Value::Array(Array::Bool(vec![true; 8])),
                "8 is not the number of layers",
            ),
        ],
    );
    keys_refused(
        "gemma4moe-a.Q8_0",
        &[
            ("attention.shared_kv_layers", 4u32.into(), "4 leaves a kind of layer without a cache to read"),
            ("expert_count", 1_000_000_000u32.into(), "1000000000 is not from 1 to 1024"),
        ],
    );
}

#[test]
fn gemma4_leaves_the_keys_and_values_of_layers_that_share_caches_unread() {
    let file = || File::sound("gemma4-a.Q8_0");
    file()
        .tensor("blk.6.attn_k.weight", &[64, 64], DType::Q8_0)
        .tensor("blk.6.attn_v.weight", &[64, 64], DType::Q8_0)
        .tensor("blk.6.attn_k_norm.weight", &[64], DType::F32)
        .load()
        .unwrap();
    refused(
        file().without("blk.5.attn_k.weight"),
        r#"tensor "blk.5.attn_k.weight" is missing, expected one of shape [64, 128]"#,
    );
    refused(
        file().tensor("blk.6.attn_k.bias", &[64], DType::F32),
        r#"tensor "blk.6.attn_k.bias" has no use in the architecture "gemma4": the file is of a variant that is not supported"#,
    );
}

#[test]
fn a_fused_tensor_for_gate_and_up_is_read_where_the_file_has_one() {
    let mut file = File::sound("qwen3moe-a.F32");
    let mut fused = Vec::new();
    for layer in 0..2 {
        let names = ["gate", "up"].map(|part| format!("blk.{layer}.ffn_{part}_exps.weight"));
        let parts = names.map(|name| {
            let at = file.tensors.iter().position(|(t, ..)| *t == name).unwrap();
            file.tensors.remove(at).3
        });
        // Expert by expert: gate's rows, then up's.
        let rows = parts[0].chunks_exact(64 * 32 * 4).zip(parts[1].chunks_exact(64 * 32 * 4));
        let data: Vec<u8> = rows.flat_map(|(gate, up)| [gate, up].concat()).collect();
        fused.push((format!("blk.{layer}.ffn_gate_up_exps.weight"), vec![64, 64, 8], DType::F32, Bytes::from(data)));
    }
    file.tensors.extend(fused);
    let model = file.load().unwrap();
    assert!(model.graph.weights.iter().any(|w| w.name == "blk.1.ffn_gate_up_exps.weight" && w.shape == [64, 64, 8]));
}
