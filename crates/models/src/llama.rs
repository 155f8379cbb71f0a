//! Llama and the models of its shape (SmolLM2): grouped attention with rope on adjacent pairs, SiLU
//! feed-forward part.
//!
//! Files of this architecture have their query and key rows permuted so that rope turns neighbouring columns. Llama 3.1
//! and later carry their frequency scaling as a table, `rope_freqs.weight`. Mixtures of experts under this name are not
//! read.

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
pub const NAME: &str = "llama";

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama {
    /// The shared ones.
    pub hp: Hparams,
    /// Width inside the feed-forward part.
    pub n_ff: u32,
    /// Positions are multiplied by this before rope.
    pub position_scale: f32,
    /// The file has a table of frequency divisors.
    pub has_rope_factors: bool,
    /// The projections to queries, keys and values have biases.
    pub has_qkv_bias: bool,
    /// The output projection of attention has a bias.
    pub has_output_bias: bool,
}

impl Llama {
    fn read(file: &Gguf) -> Result<Llama, Error> {
        let keys = Keys::new(file, NAME);
        Ok(Llama {
            hp: Hparams::read(&keys)?,
            n_ff: keys.require_u32("feed_forward_length")?,
            position_scale: keys.linear_rope_scale()?,
            has_rope_factors: file.tensor("rope_freqs.weight").is_some(),
            has_qkv_bias: file.tensor("blk.0.attn_q.bias").is_some(),
            has_output_bias: file.tensor("blk.0.attn_output.bias").is_some(),
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
        let mut b = Builder::new("llama block");
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
        let mode = RopeMode::Adjacent;
        SelfAttention {
            op: Attention { n_heads, n_kv_heads, head_dim, scale, window: 0, softcap: 0.0 },
            rope: Rope { head_dim, n_rot, mode, base, position_scale: self.position_scale, yarn: None },
            has_rope_factors: self.has_rope_factors,
            has_qkv_bias: self.has_qkv_bias,
            has_output_bias: self.has_output_bias,
            qk_norm_eps: None,
            has_sinks: false,
        }
    }
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = Llama::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// Old converters stored rope's frequencies in every layer; they are computed from the base.
pub(crate) fn leaves_unread(_file: &Gguf, tensor: &str) -> bool {
    tensor.ends_with(".attn_rot_embd.weight") || tensor.ends_with(".attention.rotary_emb.inv_freq")
}
