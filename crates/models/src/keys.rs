//! The metadata keys of one architecture, `{architecture}.…`, read by type.
//!
//! Nothing is checked against bounds here, but where a key's form depends on its value: arrays by layer, rope scaling.

use zinc_gguf::{Gguf, Metadata, Value};

use crate::Error;
use crate::hparams::{LAYERS_MAX, LayerSet};
use crate::rules::{Broken, Number, Rule, Rules};

/// Where the vocabulary's size comes from; the one key that does not begin with the architecture's name.
pub(crate) const TOKENS_KEY: &str = "tokenizer.ggml.tokens";

/// Reads the keys of one architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<'a> {
    /// The file, for what its tensors alone tell.
    pub(crate) file: &'a Gguf,
    architecture: &'static str,
}

impl<'a> Keys<'a> {
    /// The keys `{architecture}.…` of `file`.
    #[must_use]
    pub(crate) fn new(file: &'a Gguf, architecture: &'static str) -> Keys<'a> {
        Keys { file, architecture }
    }

    /// The key as it stands in the file.
    #[must_use]
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// All metadata.
    #[must_use]
    pub(crate) fn metadata(&self) -> &'a Metadata {
        self.file.metadata()
    }

    /// The value of a key, of any type.
    #[must_use]
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.metadata().get(&self.full(key))
    }

    /// A count, if the key is there.
    ///
    /// # Errors
    /// A value of another type, as in the other methods.
    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        Ok(self.metadata().u32(&self.full(key))?)
    }

    /// A count that must be there.
    ///
    /// # Errors
    /// A missing key, or a value of another type.
    pub(crate) fn require_u32(&self, key: &str) -> Result<u32, Error> {
        Ok(self.metadata().require_u32(&self.full(key))?)
    }

    /// A real number, if the key is there.
    ///
    /// # Errors
    /// A value of another type.
    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        Ok(self.metadata().f32(&self.full(key))?)
    }

    /// A real number that must be there.
    ///
    /// # Errors
    /// A missing key, or a value of another type.
    pub(crate) fn require_f32(&self, key: &str) -> Result<f32, Error> {
        Ok(self.metadata().require_f32(&self.full(key))?)
    }

    /// A count that a file may give once or layer by layer: one entry, or one per layer.
    ///
    /// # Errors
    /// A value of another type.
    pub(crate) fn u32_or_per_layer(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        match self.get(key) {
            Some(Value::Array(_)) => Ok(self.metadata().u32s(&self.full(key))?),
            _ => Ok(self.u32(key)?.map(|n| vec![n])),
        }
    }

    /// A count that must be the same in all layers, however the file gives it.
    ///
    /// # Errors
    /// Layers that differ, or a value of another type.
    pub(crate) fn same_in_all_layers(&self, key: &str) -> Result<Option<u32>, Error> {
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
    pub(crate) fn layer_set(&self, key: &'static str) -> Result<LayerSet, Error> {
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
    pub(crate) fn all_but_every(&self, key: &'static str, default: u32) -> Result<LayerSet, Error> {
        let n = self.u32(key)?.unwrap_or(default);
        let mut rules = Rules::new();
        rules.between(key, n, 1, LAYERS_MAX);
        rules.finish().map_err(|broken| self.broken(broken))?;
        Ok(LayerSet::all_but_every(n))
    }

    /// The error of this file for a broken rule.
    #[must_use]
    pub(crate) fn broken(&self, broken: Broken) -> Error {
        Error::Hparam { key: broken.key_in_file(self.architecture), broken }
    }

    /// Linear scaling of rope's positions: the factor that positions are multiplied by, 1 without scaling.
    ///
    /// # Errors
    /// Another kind of scaling, or a factor that is not a finite number above 0.
    pub(crate) fn linear_rope_scale(&self) -> Result<f32, Error> {
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
    pub(crate) fn n_vocab(&self) -> Result<u32, Error> {
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
