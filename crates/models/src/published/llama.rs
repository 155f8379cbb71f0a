//! SmolLM2 and Llama 3.
//!
//! Sources: `config.json` on Hugging Face of `HuggingFaceTB/SmolLM2-135M-Instruct`, `-360M-Instruct` and
//! `-1.7B-Instruct`, `meta-llama/Llama-3.2-1B`, `-3.2-3B` and `-3.1-8B`; the counts are those that the hub gives for their
//! safetensors files. A GGUF of SmolLM2-135M-Instruct has the same header.

use crate::check::check;
use crate::hparams::Hparams;
use crate::llama::Llama;

const SMOLLM2: Llama = Llama {
    hp: Hparams {
        n_layers: 30,
        n_vocab: 49_152,
        n_embd: 576,
        n_heads: 9,
        n_kv_heads: 3,
        head_dim: 64,
        n_rot: 64,
        rope_base: 100_000.0,
        eps: 1e-5,
        context_train: 8192,
        tied: true,
    },
    n_ff: 1536,
    position_scale: 1.0,
    has_rope_factors: false,
    has_qkv_bias: false,
    has_output_bias: false,
};

/// SmolLM2-135M.
pub const SMOLLM2_135M: Llama = SMOLLM2;
/// SmolLM2-360M.
pub const SMOLLM2_360M: Llama = Llama {
    hp: Hparams { n_layers: 32, n_embd: 960, n_heads: 15, n_kv_heads: 5, ..SMOLLM2.hp },
    n_ff: 2560,
    ..SMOLLM2
};
/// SmolLM2-1.7B.
pub const SMOLLM2_1_7B: Llama = Llama {
    hp: Hparams { n_layers: 24, n_embd: 2048, n_heads: 32, n_kv_heads: 32, rope_base: 130_000.0, ..SMOLLM2.hp },
    n_ff: 8192,
    ..SMOLLM2
};

/// Llama 3.2 1B.
pub const LLAMA_3_2_1B: Llama = Llama {
    hp: Hparams {
        n_layers: 16,
        n_vocab: 128_256,
        n_embd: 2048,
        n_heads: 32,
        n_kv_heads: 8,
        head_dim: 64,
        n_rot: 64,
        rope_base: 500_000.0,
        eps: 1e-5,
        context_train: 131_072,
        tied: true,
    },
    n_ff: 8192,
    position_scale: 1.0,
    has_rope_factors: true,
    has_qkv_bias: false,
    has_output_bias: false,
};
/// Llama 3.2 3B.
pub const LLAMA_3_2_3B: Llama = Llama {
    hp: Hparams { n_layers: 28, n_embd: 3072, n_heads: 24, head_dim: 128, n_rot: 128, ..LLAMA_3_2_1B.hp },
    ..LLAMA_3_2_1B
};
/// Llama 3.1 8B.
pub const LLAMA_3_1_8B: Llama = Llama {
    hp: Hparams { n_layers: 32, n_embd: 4096, head_dim: 128, n_rot: 128, tied: false, ..LLAMA_3_2_1B.hp },
    n_ff: 14_336,
    ..LLAMA_3_2_1B
};

const _: () = check("SmolLM2-135M", &SMOLLM2_135M.declare(), 134_515_008);
const _: () = check("SmolLM2-360M", &SMOLLM2_360M.declare(), 361_821_120);
const _: () = check("SmolLM2-1.7B", &SMOLLM2_1_7B.declare(), 1_711_376_384);
const _: () = check("Llama-3.2-1B", &LLAMA_3_2_1B.declare(), 1_235_814_400);
const _: () = check("Llama-3.2-3B", &LLAMA_3_2_3B.declare(), 3_212_749_824);
const _: () = check("Llama-3.1-8B", &LLAMA_3_1_8B.declare(), 8_030_261_248);
