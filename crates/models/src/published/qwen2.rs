//! Qwen2.5-Coder.
//!
//! Sources: `config.json` on Hugging Face of `Qwen/Qwen2.5-Coder-0.5B-Instruct`, `-1.5B-Instruct` and `-7B-Instruct`; the
//! counts are those that the hub gives for their safetensors files. A GGUF of the 0.5B has the same header, but stores
//! the head a second time.

use crate::check::check;
use crate::hparams::Hparams;
use crate::qwen2::Qwen2;

/// Qwen2.5-Coder 0.5B.
pub const QWEN2_5_CODER_0_5B: Qwen2 = Qwen2 {
    hp: Hparams {
        n_layers: 24,
        n_vocab: 151_936,
        n_embd: 896,
        n_heads: 14,
        n_kv_heads: 2,
        head_dim: 64,
        n_rot: 64,
        rope_base: 1e6,
        eps: 1e-6,
        context_train: 32_768,
        tied: true,
    },
    n_ff: 4864,
    position_scale: 1.0,
};
/// Qwen2.5-Coder 1.5B.
pub const QWEN2_5_CODER_1_5B: Qwen2 = Qwen2 {
    hp: Hparams { n_layers: 28, n_embd: 1536, n_heads: 12, head_dim: 128, n_rot: 128, ..QWEN2_5_CODER_0_5B.hp },
    n_ff: 8960,
    ..QWEN2_5_CODER_0_5B
};
/// Qwen2.5-Coder 7B.
pub const QWEN2_5_CODER_7B: Qwen2 = Qwen2 {
    hp: Hparams { n_vocab: 152_064, n_embd: 3584, n_heads: 28, n_kv_heads: 4, tied: false, ..QWEN2_5_CODER_1_5B.hp },
    n_ff: 18_944,
    ..QWEN2_5_CODER_1_5B
};

const _: () = check("Qwen2.5-Coder-0.5B", &QWEN2_5_CODER_0_5B.declare(), 494_032_768);
const _: () = check("Qwen2.5-Coder-1.5B", &QWEN2_5_CODER_1_5B.declare(), 1_543_714_304);
const _: () = check("Qwen2.5-Coder-7B", &QWEN2_5_CODER_7B.declare(), 7_615_616_512);
