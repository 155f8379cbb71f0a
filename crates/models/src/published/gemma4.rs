//! Gemma 4, text.
//!
//! Sources: Google's own configurations in MaxText (`gemma4-e2b.yml`, `-e4b`, `-12b`, `-26b`, `-31b`) and in gemma.cpp
//! (`gemma/configs.cc`: which layers are global and which share caches). The counts leave out the frequency table.
//! `llama-bench` prints 11.91 B, 25.23 B and 30.70 B for public GGUF files; files of E2B and E4B are on record with
//! 4,647,450,147 and 7,518,069,290, which is the count below, 256 frequencies, and the keys and values of layers that
//! share caches (18,880,512 and 55,055,616): those files keep them, no layer reads them.

use crate::blocks::experts::Experts;
use crate::check::check;
use crate::gemma4::{Gemma4, Heads};
use crate::hparams::{Hparams, LayerSet};

/// What all sizes share, with the shape of the 31B.
const BASE: Gemma4 = Gemma4 {
    hp: Hparams {
        n_layers: 60,
        n_vocab: 262_144,
        n_embd: 5376,
        n_heads: 32,
        n_kv_heads: 4,
        head_dim: 512,
        n_rot: 512,
        rope_base: 1e6,
        eps: 1e-6,
        context_train: 262_144,
        tied: true,
    },
    sliding: LayerSet::all_but_every(6),
    window: 1024,
    sliding_heads: Heads { n_kv_heads: 16, head_dim: 256, n_rot: 256, rope_base: 1e4 },
    global_k_is_v: true,
    n_shared: 0,
    n_ff: 21_504,
    n_ff_shared: 21_504,
    per_layer_width: None,
    experts: None,
    final_softcap: Some(30.0),
};

/// The two small models: per-layer embeddings, shared caches, a window of 512.
const SMALL: Gemma4 = Gemma4 { window: 512, global_k_is_v: false, per_layer_width: Some(256), ..BASE };

/// Gemma 4 E2B.
pub const GEMMA_4_E2B: Gemma4 = Gemma4 {
    hp: Hparams { n_layers: 35, n_embd: 1536, n_heads: 8, n_kv_heads: 1, context_train: 131_072, ..BASE.hp },
    sliding: LayerSet::all_but_every(5),
    sliding_heads: Heads { n_kv_heads: 1, ..BASE.sliding_heads },
    n_shared: 20,
    n_ff: 6144,
    n_ff_shared: 12_288,
    ..SMALL
};
/// Gemma 4 E4B.
pub const GEMMA_4_E4B: Gemma4 = Gemma4 {
    hp: Hparams { n_layers: 42, n_embd: 2560, n_heads: 8, n_kv_heads: 2, context_train: 131_072, ..BASE.hp },
    sliding_heads: Heads { n_kv_heads: 2, ..BASE.sliding_heads },
    n_shared: 18,
    n_ff: 10_240,
    n_ff_shared: 10_240,
    ..SMALL
};
/// Gemma 4 12B.
pub const GEMMA_4_12B: Gemma4 = Gemma4 {
    hp: Hparams { n_layers: 48, n_embd: 3840, n_heads: 16, n_kv_heads: 1, ..BASE.hp },
    sliding_heads: Heads { n_kv_heads: 8, ..BASE.sliding_heads },
    n_ff: 15_360,
    n_ff_shared: 15_360,
    ..BASE
};
/// Gemma 4 26B-A4B.
pub const GEMMA_4_26B_A4B: Gemma4 = Gemma4 {
    hp: Hparams { n_layers: 30, n_embd: 2816, n_heads: 16, n_kv_heads: 2, ..BASE.hp },
    sliding_heads: Heads { n_kv_heads: 8, ..BASE.sliding_heads },
    n_ff: 2112,
    n_ff_shared: 2112,
    experts: Some(Experts { n_experts: 128, n_used: 8, n_ff: 704, fused_gate_up: true }),
    ..BASE
};
/// Gemma 4 31B.
pub const GEMMA_4_31B: Gemma4 = BASE;

const _: () = check("Gemma 4 E2B", &GEMMA_4_E2B.declare(), 4_628_569_379);
const _: () = check("Gemma 4 E4B", &GEMMA_4_E4B.declare(), 7_463_013_418);
const _: () = check("Gemma 4 12B", &GEMMA_4_12B.declare(), 11_907_350_320);
const _: () = check("Gemma 4 26B-A4B", &GEMMA_4_26B_A4B.declare(), 25_233_141_790);
const _: () = check("Gemma 4 31B", &GEMMA_4_31B.declare(), 30_697_345_340);
