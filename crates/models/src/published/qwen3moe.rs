//! Qwen3, mixture of experts.
//!
//! Sources: `config.json` of `Qwen/Qwen3-30B-A3B` on Hugging Face, MaxText's `qwen3-30b-a3b.yml`; the count is the sum of
//! the published tensors.

use crate::blocks::experts::Experts;
use crate::check::check;
use crate::hparams::Hparams;
use crate::qwen3moe::Qwen3Moe;

/// Qwen3-30B-A3B.
pub const QWEN3_30B_A3B: Qwen3Moe = Qwen3Moe {
    hp: Hparams {
        n_layers: 48,
        n_vocab: 151_936,
        n_embd: 2048,
        n_heads: 32,
        n_kv_heads: 4,
        head_dim: 128,
        n_rot: 128,
        rope_base: 1e6,
        eps: 1e-6,
        context_train: 40_960,
        tied: false,
    },
    experts: Experts { n_experts: 128, n_used: 8, n_ff: 768, fused_gate_up: false },
    position_scale: 1.0,
};

const _: () = check("Qwen3-30B-A3B", &QWEN3_30B_A3B.declare(), 30_532_122_624);
