//! The hyperparameters that every architecture has: read from a file or written in a constant, then checked once.
//!
//! [`Keys`] reads `{architecture}.…` keys. [`Rules`] is the place where bounds are kept: an architecture's `check` runs
//! it over the shared [`Hparams`] and its own numbers before anything is computed from them, at compile time and at load.
//! What only one architecture has (windows, experts, states) is in its own file.

use std::fmt;

use zinc_gguf::{Gguf, Metadata, Value};

use crate::Error;

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

/// Where the vocabulary's size comes from; the one key that does not begin with the architecture's name.
const TOKENS_KEY: &str = "tokenizer.ggml.tokens";

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
    pub fn read(keys: &Keys<'_>) -> Result<Hparams, Error> {
        let n_kv_heads = keys.same_in_all_layers("attention.head_count_kv")?;
        Hparams::read_with_kv_heads(keys, n_kv_heads)
    }

    /// The same where layers differ in their key and value heads; without a number there are as many as query heads.
    ///
    /// # Errors
    /// As [`Hparams::read`].
    pub fn read_with_kv_heads(keys: &Keys<'_>, n_kv_heads: Option<u32>) -> Result<Hparams, Error> {
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

/// A hyperparameter that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broken {
    /// The key, without the architecture's name before it.
    pub key: &'static str,
    /// The value found.
    pub got: Number,
    /// The rule.
    pub rule: Rule,
}

/// A value of a hyperparameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Count(u32),
    /// A real number.
    Real(f32),
}

/// What a hyperparameter must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Inside bounds, both included.
    Between {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A divisor of another number.
    Divides {
        /// What the other number is.
        what: &'static str,
        /// The other number.
        of: u32,
    },
    /// A multiple of two.
    Even,
    /// Finite and above zero.
    AboveZero,
    /// Below one.
    BelowOne,
    /// As the sentence says.
    Other(&'static str),
}

impl Broken {
    /// The key as it stands in a file of `architecture`.
    #[must_use]
    pub fn key_in_file(&self, architecture: &str) -> String {
        if self.key == TOKENS_KEY { self.key.to_owned() } else { format!("{architecture}.{}", self.key) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.got {
            Number::Count(n) => write!(f, "{n}"),
            Number::Real(x) => write!(f, "{x}"),
        }?;
        match self.rule {
            Rule::Between { min, max } => write!(f, " is not from {min} to {max}"),
            Rule::Divides { what, of } => write!(f, " does not divide {what}, {of}"),
            Rule::Even => write!(f, " is not even"),
            Rule::AboveZero => write!(f, " is not a finite number above 0"),
            Rule::BelowOne => write!(f, " is not below 1"),
            Rule::Other(rule) => write!(f, " {rule}"),
        }
    }
}

/// Checks numbers and keeps the first broken rule.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    broken: Option<Broken>,
}

impl Rules {
    /// Nothing broken yet.
    #[expect(clippy::new_without_default, reason = "an empty set of rules is where checking starts, not a value")]
    #[must_use]
    pub const fn new() -> Rules {
        Rules { broken: None }
    }

    /// `min <= got <= max`.
    pub const fn between(&mut self, key: &'static str, got: u32, min: u32, max: u32) {
        self.keep(min <= got && got <= max, key, Number::Count(got), Rule::Between { min, max });
    }

    /// `got` divides `of`, which is `what`.
    pub const fn divides(&mut self, key: &'static str, got: u32, what: &'static str, of: u32) {
        let holds = got != 0 && of.is_multiple_of(got);
        self.keep(holds, key, Number::Count(got), Rule::Divides { what, of });
    }

    /// `got` is even.
    pub const fn divides_two(&mut self, key: &'static str, got: u32) {
        self.keep(got.is_multiple_of(2), key, Number::Count(got), Rule::Even);
    }

    /// `got` is finite and above zero.
    pub const fn above_zero(&mut self, key: &'static str, got: f32) {
        self.keep(got.is_finite() && got > 0.0, key, Number::Real(got), Rule::AboveZero);
    }

    /// `got` is below one.
    pub const fn below_one(&mut self, key: &'static str, got: f32) {
        self.keep(got < 1.0, key, Number::Real(got), Rule::BelowOne);
    }

    /// Any other rule; `rule` follows the value in the message, as in "is not …".
    pub const fn holds(&mut self, holds: bool, key: &'static str, got: u32, rule: &'static str) {
        self.keep(holds, key, Number::Count(got), Rule::Other(rule));
    }

    /// The first broken rule.
    ///
    /// # Errors
    /// If there is one.
    pub const fn finish(self) -> Result<(), Broken> {
        match self.broken {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }

    const fn keep(&mut self, holds: bool, key: &'static str, got: Number, rule: Rule) {
        if !holds && self.broken.is_none() {
            self.broken = Some(Broken { key, got, rule });
        }
    }
}

/// Reads the keys of one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// The file, for what its tensors alone tell.
    pub file: &'a Gguf,
    architecture: &'static str,
}

impl<'a> Keys<'a> {
    /// The keys `{architecture}.…` of `file`.
    #[must_use]
    pub fn new(file: &'a Gguf, architecture: &'static str) -> Keys<'a> {
        Keys { file, architecture }
    }

    /// The key as it stands in the file.
    #[must_use]
    pub fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// All metadata.
    #[must_use]
    pub fn metadata(&self) -> &'a Metadata {
        self.file.metadata()
    }

    /// The value of a key, of any type.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.metadata().get(&self.full(key))
    }

    /// A count, if the key is there.
    ///
    /// # Errors
    /// A value of another type, as in the other methods.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        Ok(self.metadata().u32(&self.full(key))?)
    }

    /// A count that must be there.
    ///
    /// # Errors
    /// A missing key, or a value of another type.
    pub fn require_u32(&self, key: &str) -> Result<u32, Error> {
        Ok(self.metadata().require_u32(&self.full(key))?)
    }

    /// A real number, if the key is there.
    ///
    /// # Errors
    /// A value of another type.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        Ok(self.metadata().f32(&self.full(key))?)
    }

    /// A real number that must be there.
    ///
    /// # Errors
    /// A missing key, or a value of another type.
    pub fn require_f32(&self, key: &str) -> Result<f32, Error> {
        Ok(self.metadata().require_f32(&self.full(key))?)
    }

    /// A count that a file may give once or layer by layer: one entry, or one per layer.
    ///
    /// # Errors
    /// A value of another type.
    pub fn u32_or_per_layer(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        match self.get(key) {
            Some(Value::Array(_)) => Ok(self.metadata().u32s(&self.full(key))?),
            _ => Ok(self.u32(key)?.map(|n| vec![n])),
        }
    }

    /// A count that must be the same in all layers, however the file gives it.
    ///
    /// # Errors
    /// Layers that differ, or a value of another type.
    pub fn same_in_all_layers(&self, key: &str) -> Result<Option<u32>, Error> {
        let Some(values) = self.u32_or_per_layer(key)? else { return Ok(None) };
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|n| n == first) => Ok(Some(*first)),
            _ => Err(Error::Unsupported {
                key: self.full(key),
                got: format!("{values:?}"),
                known: "arrays whose entries are all equal",
            }),
        }
    }

    /// Layers marked in an array of flags, one for each layer of the file.
    ///
    /// # Errors
    /// A missing key, another number of flags than layers, or a value of another type.
    pub fn layer_set(&self, key: &'static str) -> Result<LayerSet, Error> {
        let flags = self.metadata().require_bools(&self.full(key))?;
        let n_layers = self.require_u32("block_count")?;
        let n_flags = u32::try_from(flags.len()).unwrap_or(u32::MAX);
        let mut rules = Rules::new();
        rules.between("block_count", n_layers, 1, LAYERS_MAX);
        rules.holds(n_flags == n_layers, key, n_flags, "is not the number of layers");
        rules.finish().map_err(|broken| self.broken(broken))?;
        let marked = (0..n_layers).zip(flags).filter(|(_, flag)| *flag);
        Ok(marked.fold(LayerSet::none(), |set, (layer, _)| set.with(layer)))
    }

    /// All layers but the last of every n, with n from a key or `default`.
    ///
    /// # Errors
    /// A period of 0 or of more layers than there can be, or a value of another type.
    pub fn all_but_every(&self, key: &'static str, default: u32) -> Result<LayerSet, Error> {
        let n = self.u32(key)?.unwrap_or(default);
        let mut rules = Rules::new();
        rules.between(key, n, 1, LAYERS_MAX);
        rules.finish().map_err(|broken| self.broken(broken))?;
        Ok(LayerSet::all_but_every(n))
    }

    /// The error of this file for a broken rule.
    #[must_use]
    pub fn broken(&self, broken: Broken) -> Error {
        Error::Hparam { key: broken.key_in_file(self.architecture), broken }
    }

    /// Linear scaling of rope's positions: the factor that positions are multiplied by, 1 without scaling.
    ///
    /// # Errors
    /// Another kind of scaling, or a factor that is not a finite number above 0.
    pub fn linear_rope_scale(&self) -> Result<f32, Error> {
        let kind = self.metadata().str(&self.full("rope.scaling.type"))?.unwrap_or("linear");
        let factor = match self.f32("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.f32("rope.scale_linear")?,
        };
        match (kind, factor) {
            ("none", _) | ("linear", None) => Ok(1.0),
            // Converters write 0 for "no scaling".
            ("linear", Some(0.0)) => Ok(1.0),
            ("linear", Some(factor)) if factor.is_finite() && factor > 0.0 => Ok(1.0 / factor),
            ("linear", Some(factor)) => {
                let (key, got) = ("rope.scaling.factor", Number::Real(factor));
                Err(self.broken(Broken { key, got, rule: Rule::AboveZero }))
            }
            (kind, _) => Err(Error::Unsupported {
                key: self.full("rope.scaling.type"),
                got: kind.to_owned(),
                known: "none, linear",
            }),
        }
    }

    /// Entries of the vocabulary: the token list, or the count that files without one give.
    fn n_vocab(&self) -> Result<u32, Error> {
        match self.metadata().array_len(TOKENS_KEY)? {
            // More than u32 holds is also more than the bound that the rules keep.
            Some(n) => Ok(u32::try_from(n).unwrap_or(u32::MAX)),
            None => match self.u32("vocab_size")? {
                Some(n) => Ok(n),
                None => Err(zinc_gguf::Error::MissingKey { key: TOKENS_KEY.to_owned() }.into()),
            },
        }
    }
}
