//! gpt-oss.
//!
//! Sources: `config.json` of `openai/gpt-oss-20b` and `openai/gpt-oss-120b` on Hugging Face, MaxText's `gpt-oss-20b.yml`
//! and `gpt-oss-120b.yml`; the model card gives 20.91 B and 116.83 B parameters.

use zinc_graph::ops::Yarn;

use crate::blocks::experts::Experts;
use crate::check::check;
use crate::gpt_oss::GptOss;
use crate::hparams::Hparams;

const fn gpt_oss(n_layers: u32, n_experts: u32) -> GptOss {
    GptOss {
        hp: Hparams {
            n_layers,
            n_vocab: 201_088,
            n_embd: 2880,
            n_heads: 64,
            n_kv_heads: 8,
            head_dim: 64,
            n_rot: 64,
            rope_base: 150_000.0,
            eps: 1e-5,
            context_train: 131_072,
            tied: false,
        },
        experts: Experts { n_experts, n_used: 4, n_ff: 2880, fused_gate_up: false },
        window: 128,
        yarn: Yarn { factor: 32.0, original_context: 4096.0, beta_fast: 32.0, beta_slow: 1.0, rounded_limits: false },
    }
}

/// gpt-oss-20b.
pub const GPT_OSS_20B: GptOss = gpt_oss(24, 32);
/// gpt-oss-120b.
pub const GPT_OSS_120B: GptOss = gpt_oss(36, 128);

const _: () = check("gpt-oss-20b", &GPT_OSS_20B.declare(), 20_914_757_184);
const _: () = check("gpt-oss-120b", &GPT_OSS_120B.declare(), 116_829_156_672);
