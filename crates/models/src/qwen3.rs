//! Qwen3, dense: as Llama, but rope pairs the two halves of a head, and query and key heads are normed before it.
//!
//! The head width is its own number, not `n_embd / n_heads`. The mixture-of-experts models have an architecture of
//! their own.

use zinc_gguf::Gguf;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Blueprint, Builder, Section};

use crate::Error;
use crate::blocks::attention::{SelfAttention, self_attention};
use crate::blocks::ffn::ffn;
use crate::blocks::{embedding, head, inverse_sqrt, norm};
use crate::declaration::{Declaration, Fault};
use crate::hparams::{FF_MAX, Hparams};
use crate::keys::Keys;
use crate::rules::Broken;

/// The value of `general.architecture`.
pub const NAME: &str = "qwen3";

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qwen3 {
    /// The shared ones.
    pub hp: Hparams,
    /// Width inside the feed-forward part.
    pub n_ff: u32,
    /// Positions are multiplied by this before rope.
    pub position_scale: f32,
}

impl Qwen3 {
    fn read(file: &Gguf) -> Result<Qwen3, Error> {
        let keys = Keys::new(file, NAME);
        Ok(Qwen3 {
            hp: Hparams::read(&keys)?,
            n_ff: keys.require_u32("feed_forward_length")?,
            position_scale: keys.linear_rope_scale()?,
        })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hp.rules();
        rules.between("feed_forward_length", self.n_ff, 1, FF_MAX);
        rules.above_zero("rope.scaling.factor", self.position_scale);
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
        let mut model = Declaration::new();
        model.prologue(embedding::prologue(&self.hp, 1.0));
        let block = model.block(self.block());
        model.layers(block, self.hp.n_layers);
        model.epilogue(head::epilogue(&self.hp, None));
        model.finish()
    }

    const fn block(&self) -> Result<Section, ShapeError> {
        let mut b = Builder::new("qwen3 block");
        let x = b.input(Shape::tokens(self.hp.n_embd));

        let h = norm(&mut b, x, "attn_norm.weight", self.hp.eps);
        let mixer = self_attention(&mut b, h, &self.attention());
        b.name(mixer, "mixer");
        let x = b.add(x, mixer);

        let h = norm(&mut b, x, "ffn_norm.weight", self.hp.eps);
        let mlp = ffn(&mut b, h, self.n_ff, Activation::Silu);
        b.name(mlp, "mlp");
        let out = b.add(x, mlp);

        b.name(out, "out");
        b.output(out);
        b.finish()
    }

    const fn attention(&self) -> SelfAttention {
        let Hparams { n_heads, n_kv_heads, head_dim, n_rot, rope_base: base, .. } = self.hp;
        let scale = inverse_sqrt(head_dim);
        let mode = RopeMode::HalfSplit;
        SelfAttention {
            op: Attention { n_heads, n_kv_heads, head_dim, scale, window: 0, softcap: 0.0 },
            rope: Rope { head_dim, n_rot, mode, base, position_scale: self.position_scale, yarn: None },
            has_rope_factors: false,
            has_qkv_bias: false,
            has_output_bias: false,
            qk_norm_eps: Some(self.hp.eps),
            has_sinks: false,
        }
    }
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = Qwen3::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// Everything in such a file has a use.
pub(crate) fn leaves_unread(_file: &Gguf, _tensor: &str) -> bool {
    false
}
