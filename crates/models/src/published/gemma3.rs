//! Gemma 3, the text part.
//!
//! Sources: `config.json` on Hugging Face of `google/gemma-3-270m`, `-1b-it`, `-4b-it`, `-12b-it` and `-27b-it`; the counts
//! are those of the text models in keras-hub's presets. The larger models' checkpoints have 64 more rows of padding in the
//! vocabulary and an image encoder, which GGUF files leave out. A GGUF of the 270M has the same header.

use crate::check::check;
use crate::gemma3::Gemma3;
use crate::hparams::{Hparams, LayerSet};

/// Gemma 3 270M.
pub const GEMMA3_270M: Gemma3 = Gemma3 {
    hp: Hparams {
        n_layers: 18,
        n_vocab: 262_144,
        n_embd: 640,
        n_heads: 4,
        n_kv_heads: 1,
        head_dim: 256,
        n_rot: 256,
        rope_base: 1e6,
        eps: 1e-6,
        context_train: 32_768,
        tied: true,
    },
    n_ff: 2048,
    sliding: LayerSet::all_but_every(6),
    window: 512,
    rope_base_sliding: 10_000.0,
    position_scale: 1.0,
    query_pre_attn: 256,
    final_softcap: None,
};
/// Gemma 3 1B.
pub const GEMMA3_1B: Gemma3 =
    Gemma3 { hp: Hparams { n_layers: 26, n_embd: 1152, ..GEMMA3_270M.hp }, n_ff: 6912, ..GEMMA3_270M };
/// Gemma 3 4B.
pub const GEMMA3_4B: Gemma3 = Gemma3 {
    hp: Hparams { n_layers: 34, n_embd: 2560, n_heads: 8, n_kv_heads: 4, context_train: 131_072, ..GEMMA3_270M.hp },
    n_ff: 10_240,
    window: 1024,
    position_scale: 1.0 / 8.0,
    ..GEMMA3_270M
};
/// Gemma 3 12B.
pub const GEMMA3_12B: Gemma3 = Gemma3 {
    hp: Hparams { n_layers: 48, n_embd: 3840, n_heads: 16, n_kv_heads: 8, ..GEMMA3_4B.hp },
    n_ff: 15_360,
    ..GEMMA3_4B
};
/// Gemma 3 27B.
pub const GEMMA3_27B: Gemma3 = Gemma3 {
    hp: Hparams { n_layers: 62, n_embd: 5376, n_heads: 32, n_kv_heads: 16, head_dim: 128, n_rot: 128, ..GEMMA3_4B.hp },
    n_ff: 21_504,
    query_pre_attn: 168,
    ..GEMMA3_4B
};

const _: () = check("Gemma 3 270M", &GEMMA3_270M.declare(), 268_098_176);
const _: () = check("Gemma 3 1B", &GEMMA3_1B.declare(), 999_885_952);
const _: () = check("Gemma 3 4B", &GEMMA3_4B.declare(), 3_880_099_328);
const _: () = check("Gemma 3 12B", &GEMMA3_12B.declare(), 11_765_788_416);
const _: () = check("Gemma 3 27B", &GEMMA3_27B.declare(), 27_009_002_240);
