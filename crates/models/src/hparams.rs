//! The hyperparameters that every architecture has: read from a file or written in a constant, then checked once.
//!
//! An architecture's `check` runs [`Hparams::rules`] and rules of its own before anything is computed from the numbers,
//! at compile time and at load. What only one architecture has (windows, experts, states) is in its own file.

use crate::Error;
use crate::keys::{Keys, TOKENS_KEY};
use crate::rules::Rules;

/// Most layers.
pub const LAYERS_MAX: u32 = 1024;
/// Most query heads, and most key and value heads.
pub const HEADS_MAX: u32 = 1024;
/// Widest head.
pub const HEAD_DIM_MAX: u32 = 4096;
/// Widest residual stream.
pub const EMBD_MAX: u32 = 65_536;
/// Widest feed-forward part.
pub const FF_MAX: u32 = 1 << 20;
/// Largest vocabulary.
pub const VOCAB_MAX: u32 = 1 << 20;
/// Longest context.
pub const CONTEXT_MAX: u32 = 1 << 27;

/// The numbers that every architecture has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hparams {
    /// Layers.
    pub n_layers: u32,
    /// Entries of the vocabulary.
    pub n_vocab: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: u32,
    /// Columns of a head.
    pub head_dim: u32,
    /// Columns of a head that rope rotates.
    pub n_rot: u32,
    /// Base of rope's frequencies.
    pub rope_base: f32,
    /// Added to the mean square in every norm.
    pub eps: f32,
    /// Tokens of context in training.
    pub context_train: u32,
    /// The head reads the embedding table.
    pub tied: bool,
}

impl Hparams {
    /// Reads the numbers with the format's defaults, unchecked.
    ///
    /// # Errors
    /// A required key that is missing, or a key of the wrong type.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Hparams, Error> {
        let n_kv_heads = keys.same_in_all_layers("attention.head_count_kv")?;
        Hparams::read_with_kv_heads(keys, n_kv_heads)
    }

    /// The same where layers differ in their key and value heads; without a number there are as many as query heads.
    ///
    /// # Errors
    /// As [`Hparams::read`].
    pub(crate) fn read_with_kv_heads(keys: &Keys<'_>, n_kv_heads: Option<u32>) -> Result<Hparams, Error> {
        let n_embd = keys.require_u32("embedding_length")?;
        let n_heads = keys.require_u32("attention.head_count")?;
        let head_dim = match keys.u32("attention.key_length")? {
            Some(head_dim) => head_dim,
            None => n_embd.checked_div(n_heads).unwrap_or(0),
        };
        Ok(Hparams {
            n_layers: keys.require_u32("block_count")?,
            n_vocab: keys.n_vocab()?,
            n_embd,
            n_heads,
            n_kv_heads: n_kv_heads.unwrap_or(n_heads),
            head_dim,
            n_rot: keys.u32("rope.dimension_count")?.unwrap_or(head_dim),
            rope_base: keys.f32("rope.freq_base")?.unwrap_or(10_000.0),
            eps: keys.require_f32("attention.layer_norm_rms_epsilon")?,
            context_train: keys.require_u32("context_length")?,
            tied: keys.file.tensor("output.weight").is_none(),
        })
    }

    /// Keeps the bounds of these numbers; an architecture adds its own to the same rules.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        let mut rules = Rules::new();
        rules.between("block_count", self.n_layers, 1, LAYERS_MAX);
        rules.between(TOKENS_KEY, self.n_vocab, 1, VOCAB_MAX);
        rules.between("embedding_length", self.n_embd, 1, EMBD_MAX);
        rules.between("attention.head_count", self.n_heads, 1, HEADS_MAX);
        rules.between("attention.head_count_kv", self.n_kv_heads, 1, HEADS_MAX);
        rules.divides("attention.head_count_kv", self.n_kv_heads, "the number of query heads", self.n_heads);
        rules.between("attention.key_length", self.head_dim, 1, HEAD_DIM_MAX);
        rules.between("rope.dimension_count", self.n_rot, 2, self.head_dim);
        rules.divides_two("rope.dimension_count", self.n_rot);
        rules.above_zero("rope.freq_base", self.rope_base);
        rules.above_zero("attention.layer_norm_rms_epsilon", self.eps);
        rules.below_one("attention.layer_norm_rms_epsilon", self.eps);
        rules.between("context_length", self.context_train, 1, CONTEXT_MAX);
        rules
    }
}

/// Some of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSet {
    bits: [u64; LAYERS_MAX as usize / 64],
}

impl LayerSet {
    /// No layer.
    #[must_use]
    pub const fn none() -> LayerSet {
        LayerSet { bits: [0; LAYERS_MAX as usize / 64] }
    }

    /// All layers but the last of every `n`; `n` is not 0.
    #[must_use]
    pub const fn all_but_every(n: u32) -> LayerSet {
        let (mut set, mut layer) = (LayerSet::none(), 0);
        while layer < LAYERS_MAX {
            if !(layer + 1).is_multiple_of(n) {
                set = set.with(layer);
            }
            layer += 1;
        }
        set
    }

    /// The same and one more.
    #[must_use]
    pub const fn with(mut self, layer: u32) -> LayerSet {
        self.bits[layer as usize / 64] |= 1 << (layer % 64);
        self
    }

    /// Whether `layer` is one of them.
    #[must_use]
    pub const fn has(&self, layer: u32) -> bool {
        self.bits[layer as usize / 64] >> (layer % 64) & 1 == 1
    }
}
