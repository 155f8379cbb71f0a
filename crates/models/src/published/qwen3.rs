//! Qwen3, dense.
//!
//! Sources: `config.json` on Hugging Face of `Qwen/Qwen3-0.6B`, `-1.7B`, `-4B`, `-8B`, `-14B` and `-32B`; the counts are
//! those of the models that transformers loads from them (files of the two smallest hold the tied head twice).

use crate::check::check;
use crate::hparams::Hparams;
use crate::qwen3::Qwen3;

/// Qwen3-0.6B.
pub const QWEN3_0_6B: Qwen3 = Qwen3 {
    hp: Hparams {
        n_layers: 28,
        n_vocab: 151_936,
        n_embd: 1024,
        n_heads: 16,
        n_kv_heads: 8,
        head_dim: 128,
        n_rot: 128,
        rope_base: 1e6,
        eps: 1e-6,
        context_train: 40_960,
        tied: true,
    },
    n_ff: 3072,
    position_scale: 1.0,
};
/// Qwen3-1.7B.
pub const QWEN3_1_7B: Qwen3 = Qwen3 { hp: Hparams { n_embd: 2048, ..QWEN3_0_6B.hp }, n_ff: 6144, ..QWEN3_0_6B };
/// Qwen3-4B.
pub const QWEN3_4B: Qwen3 =
    Qwen3 { hp: Hparams { n_layers: 36, n_embd: 2560, n_heads: 32, ..QWEN3_0_6B.hp }, n_ff: 9728, ..QWEN3_0_6B };
/// Qwen3-8B.
pub const QWEN3_8B: Qwen3 =
    Qwen3 { hp: Hparams { n_embd: 4096, tied: false, ..QWEN3_4B.hp }, n_ff: 12_288, ..QWEN3_4B };
/// Qwen3-14B.
pub const QWEN3_14B: Qwen3 =
    Qwen3 { hp: Hparams { n_layers: 40, n_embd: 5120, n_heads: 40, ..QWEN3_8B.hp }, n_ff: 17_408, ..QWEN3_8B };
/// Qwen3-32B.
pub const QWEN3_32B: Qwen3 =
    Qwen3 { hp: Hparams { n_layers: 64, n_embd: 5120, n_heads: 64, ..QWEN3_8B.hp }, n_ff: 25_600, ..QWEN3_8B };

const _: () = check("Qwen3-0.6B", &QWEN3_0_6B.declare(), 596_049_920);
const _: () = check("Qwen3-1.7B", &QWEN3_1_7B.declare(), 1_720_574_976);
const _: () = check("Qwen3-4B", &QWEN3_4B.declare(), 4_022_468_096);
const _: () = check("Qwen3-8B", &QWEN3_8B.declare(), 8_190_735_360);
const _: () = check("Qwen3-14B", &QWEN3_14B.declare(), 14_768_307_200);
const _: () = check("Qwen3-32B", &QWEN3_32B.declare(), 32_762_123_264);
