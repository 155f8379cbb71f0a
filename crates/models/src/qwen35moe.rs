//! Qwen3.5, mixture of experts: the layers of the dense hybrid with routed experts and one shared expert.
//!
//! Layers that predict further tokens are left out. Images are not read.

use zinc_gguf::Gguf;
use zinc_graph::Blueprint;

use crate::Error;
use crate::blocks::experts::Experts;
use crate::blocks::hybrid::{FeedForward, Hybrid, is_of_skipped_layer};
use crate::blocks::{embedding, head};
use crate::declaration::{Declaration, Fault};
use crate::hparams::FF_MAX;
use crate::keys::Keys;
use crate::rules::Broken;

/// The value of `general.architecture`.
pub const NAME: &str = "qwen35moe";

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qwen35Moe {
    /// Those of the hybrid.
    pub hybrid: Hybrid,
    /// The experts of every layer.
    pub experts: Experts,
    /// Width inside the expert that every token takes.
    pub n_ff_shared: u32,
}

impl Qwen35Moe {
    fn read(file: &Gguf) -> Result<Qwen35Moe, Error> {
        let keys = Keys::new(file, NAME);
        Ok(Qwen35Moe {
            hybrid: Hybrid::read(&keys)?,
            experts: Experts::read(&keys)?,
            n_ff_shared: keys.require_u32("expert_shared_feed_forward_length")?,
        })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hybrid.rules();
        self.experts.add_rules(&mut rules);
        rules.between("expert_shared_feed_forward_length", self.n_ff_shared, 1, FF_MAX);
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
        let (hybrid, second) = (&self.hybrid, FeedForward::Experts(self.experts, self.n_ff_shared));
        let mut model = Declaration::new();
        model.prologue(embedding::prologue(&hybrid.hp, 1.0));
        let recurrent = model.block(hybrid.block("qwen35moe recurrent block", true, &second));
        let attending = model.block(hybrid.block("qwen35moe attention block", false, &second));
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
    let model = Qwen35Moe::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// The layers that predict further tokens.
pub(crate) fn leaves_unread(file: &Gguf, tensor: &str) -> bool {
    is_of_skipped_layer(file, NAME, tensor)
}
