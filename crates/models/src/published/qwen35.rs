//! Qwen3.5, dense and mixture of experts.
//!
//! Sources: the model cards and `config.json` of `Qwen/Qwen3.5-*` on Hugging Face (9B and 27B: cards; 4B: configurations
//! of models derived from it), and MaxText's `qwen3.5-35b-a3b.yml`. The counts are those of the text model without the
//! layers that predict further tokens; `llama-bench` prints them for public GGUF files as 752.39 M, 1.88 B, 4.21 B,
//! 8.95 B, 26.90 B and 34.66 B, and a file of the 2B with its predicting layer is on record with 1,942,653,248, which
//! is the count below and that layer's 60,828,160.

use crate::blocks::delta_net::DeltaMixer;
use crate::blocks::experts::Experts;
use crate::blocks::hybrid::Hybrid;
use crate::check::check;
use crate::hparams::{Hparams, LayerSet};
use crate::qwen35::Qwen35;
use crate::qwen35moe::Qwen35Moe;

const fn hybrid(n_layers: u32, n_embd: u32, n_heads: u32, n_kv_heads: u32, n_v_heads: u32, tied: bool) -> Hybrid {
    Hybrid {
        hp: Hparams {
            n_layers,
            n_vocab: 248_320,
            n_embd,
            n_heads,
            n_kv_heads,
            head_dim: 256,
            n_rot: 64,
            rope_base: 1e7,
            eps: 1e-6,
            context_train: 262_144,
            tied,
        },
        n_skipped: 0,
        recurrent: LayerSet::all_but_every(4),
        delta: DeltaMixer { n_k_heads: 16, n_v_heads, k_dim: 128, inner: n_v_heads * 128, n_taps: 4 },
    }
}

/// Qwen3.5-0.8B.
pub const QWEN3_5_0_8B: Qwen35 = Qwen35 { hybrid: hybrid(24, 1024, 8, 2, 16, true), n_ff: 3584 };
/// Qwen3.5-2B.
pub const QWEN3_5_2B: Qwen35 = Qwen35 { hybrid: hybrid(24, 2048, 8, 2, 16, true), n_ff: 6144 };
/// Qwen3.5-4B.
pub const QWEN3_5_4B: Qwen35 = Qwen35 { hybrid: hybrid(32, 2560, 16, 4, 32, true), n_ff: 9216 };
/// Qwen3.5-9B.
pub const QWEN3_5_9B: Qwen35 = Qwen35 { hybrid: hybrid(32, 4096, 16, 4, 32, false), n_ff: 12_288 };
/// Qwen3.5-27B.
pub const QWEN3_5_27B: Qwen35 = Qwen35 { hybrid: hybrid(64, 5120, 24, 4, 48, false), n_ff: 17_408 };
/// Qwen3.5-35B-A3B.
pub const QWEN3_5_35B_A3B: Qwen35Moe = Qwen35Moe {
    hybrid: hybrid(40, 2048, 16, 2, 32, false),
    experts: Experts { n_experts: 256, n_used: 8, n_ff: 512, fused_gate_up: false },
    n_ff_shared: 512,
};

const _: () = check("Qwen3.5-0.8B", &QWEN3_5_0_8B.declare(), 752_393_024);
const _: () = check("Qwen3.5-2B", &QWEN3_5_2B.declare(), 1_881_825_088);
const _: () = check("Qwen3.5-4B", &QWEN3_5_4B.declare(), 4_205_751_296);
const _: () = check("Qwen3.5-9B", &QWEN3_5_9B.declare(), 8_953_803_264);
const _: () = check("Qwen3.5-27B", &QWEN3_5_27B.declare(), 26_895_998_464);
const _: () = check("Qwen3.5-35B-A3B", &QWEN3_5_35B_A3B.declare(), 34_660_610_688);
