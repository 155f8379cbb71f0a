//! Qwen3.5, dense: three of four layers are gated delta nets, the fourth is attention with an output gate.
//!
//! Layers that predict further tokens are left out. Images are not read.

use zinc_gguf::Gguf;
use zinc_graph::Blueprint;

use crate::Error;
use crate::blocks::hybrid::{FeedForward, Hybrid, is_of_skipped_layer};
use crate::blocks::{embedding, head};
use crate::declaration::{Declaration, Fault};
use crate::hparams::FF_MAX;
use crate::keys::Keys;
use crate::rules::Broken;

/// The value of `general.architecture`.
pub const NAME: &str = "qwen35";

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qwen35 {
    /// Those of the hybrid.
    pub hybrid: Hybrid,
    /// Width inside the feed-forward part.
    pub n_ff: u32,
}

impl Qwen35 {
    fn read(file: &Gguf) -> Result<Qwen35, Error> {
        let keys = Keys::new(file, NAME);
        Ok(Qwen35 { hybrid: Hybrid::read(&keys)?, n_ff: keys.require_u32("feed_forward_length")? })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hybrid.rules();
        rules.between("feed_forward_length", self.n_ff, 1, FF_MAX);
        rules.finish()
    }

    /// The model's sections and layers.
    ///
    /// # Errors
    /// The first rule that the hyperparameters break.
    pub const fn declare(&self) -> Result<Declaration, Fault> {
        if let Err(broken) = self.check() {
            return Err(Fault::Hparam(broken));
        }
        let (hybrid, second) = (&self.hybrid, FeedForward::Dense(self.n_ff));
        let mut model = Declaration::new();
        model.prologue(embedding::prologue(&hybrid.hp, 1.0));
        let recurrent = model.block(hybrid.block("qwen35 recurrent block", true, &second));
        let attending = model.block(hybrid.block("qwen35 attention block", false, &second));
        let mut layer = 0;
        while layer < hybrid.hp.n_layers {
            model.layer(if hybrid.recurrent.has(layer) { recurrent } else { attending });
            layer += 1;
        }
        model.epilogue(head::epilogue(&hybrid.hp, None));
        model.finish()
    }
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = Qwen35::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// The layers that predict further tokens.
pub(crate) fn leaves_unread(file: &Gguf, tensor: &str) -> bool {
    is_of_skipped_layer(file, NAME, tensor)
}
