//! Gemma 3, text: norms before and after each part, GELU, and two kinds of layer that differ in reach and rope.
//!
//! Sliding layers see a window and rotate by a base of their own; global layers see everything, and in the larger models
//! divide positions by a factor. Files store norm weights as the final multipliers. Images are not read.

use zinc_gguf::{Gguf, Value};
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Blueprint, Builder, Section};

use crate::Error;
use crate::blocks::attention::{SelfAttention, self_attention};
use crate::blocks::ffn::ffn;
use crate::blocks::{embedding, head, inverse_sqrt, norm, sqrt_f32};
use crate::declaration::{Declaration, Fault};
use crate::hparams::{CONTEXT_MAX, FF_MAX, Hparams, LayerSet};
use crate::keys::Keys;
use crate::rules::Broken;

/// The value of `general.architecture`.
pub const NAME: &str = "gemma3";

/// One layer in this many is global, where the file does not say.
const PATTERN: u32 = 6;
/// The 27B's number of layers. It alone scales its scores by the width per head, and no key says so.
const LAYERS_27B: u32 = 62;

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemma3 {
    /// The shared ones; `rope_base` is that of the global layers.
    pub hp: Hparams,
    /// Width inside the feed-forward part.
    pub n_ff: u32,
    /// The layers that see a window only.
    pub sliding: LayerSet,
    /// Keys that a sliding layer sees, the query's own included.
    pub window: u32,
    /// Base of rope's frequencies in sliding layers.
    pub rope_base_sliding: f32,
    /// Positions are multiplied by this before rope, in global layers.
    pub position_scale: f32,
    /// Scores are divided by the square root of this: the width of a head, but for the 27B.
    pub query_pre_attn: u32,
    /// Soft limit of the logits.
    pub final_softcap: Option<f32>,
}

impl Gemma3 {
    fn read(file: &Gguf) -> Result<Gemma3, Error> {
        let keys = Keys::new(file, NAME);
        let hp = Hparams::read(&keys)?;
        let per_head = hp.n_embd.checked_div(hp.n_heads).unwrap_or(0);
        let window = keys.u32("attention.sliding_window")?.unwrap_or(0);
        Ok(Gemma3 {
            hp,
            n_ff: keys.require_u32("feed_forward_length")?,
            sliding: if window == 0 { LayerSet::none() } else { sliding_layers(&keys)? },
            window,
            rope_base_sliding: keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0),
            position_scale: keys.linear_rope_scale()?,
            query_pre_attn: if hp.n_layers == LAYERS_27B { per_head } else { hp.head_dim },
            final_softcap: keys.f32("final_logit_softcapping")?.filter(|&cap| cap != 0.0),
        })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hp.rules();
        rules.between("feed_forward_length", self.n_ff, 1, FF_MAX);
        rules.between("attention.sliding_window", self.window, 0, CONTEXT_MAX);
        rules.above_zero("rope.freq_base_swa", self.rope_base_sliding);
        rules.above_zero("rope.scaling.factor", self.position_scale);
        rules.between("attention.head_count", self.query_pre_attn, 1, self.hp.n_embd);
        if let Some(cap) = self.final_softcap {
            rules.above_zero("final_logit_softcapping", cap);
        }
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
        model.prologue(embedding::prologue(&self.hp, sqrt_f32(self.hp.n_embd)));
        let sliding = model.block(self.block("gemma3 sliding block", &self.sliding_attention()));
        let global = model.block(self.block("gemma3 global block", &self.global_attention()));
        let mut layer = 0;
        while layer < self.hp.n_layers {
            model.layer(if self.sliding.has(layer) { sliding } else { global });
            layer += 1;
        }
        model.epilogue(head::epilogue(&self.hp, self.final_softcap));
        model.finish()
    }

    const fn block(&self, name: &'static str, attention: &SelfAttention) -> Result<Section, ShapeError> {
        let mut b = Builder::new(name);
        let x = b.input(Shape::tokens(self.hp.n_embd));

        let h = norm(&mut b, x, "attn_norm.weight", self.hp.eps);
        let mixer = self_attention(&mut b, h, attention);
        b.name(mixer, "mixer");
        let h = norm(&mut b, mixer, "post_attention_norm.weight", self.hp.eps);
        let x = b.add(x, h);

        let h = norm(&mut b, x, "ffn_norm.weight", self.hp.eps);
        let mlp = ffn(&mut b, h, self.n_ff, Activation::GeluTanh);
        b.name(mlp, "mlp");
        let h = norm(&mut b, mlp, "post_ffw_norm.weight", self.hp.eps);
        let out = b.add(x, h);

        b.name(out, "out");
        b.output(out);
        b.finish()
    }

    const fn global_attention(&self) -> SelfAttention {
        let Hparams { n_heads, n_kv_heads, head_dim, n_rot, rope_base: base, .. } = self.hp;
        let scale = inverse_sqrt(self.query_pre_attn);
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

    const fn sliding_attention(&self) -> SelfAttention {
        let global = self.global_attention();
        SelfAttention {
            op: Attention { window: self.window, ..global.op },
            rope: Rope { base: self.rope_base_sliding, position_scale: 1.0, ..global.rope },
            ..global
        }
    }
}

/// The layers with a window: by a list of flags, by "one in n is global", or by the family's habit.
fn sliding_layers(keys: &Keys<'_>) -> Result<LayerSet, Error> {
    const KEY: &str = "attention.sliding_window_pattern";
    match keys.get(KEY) {
        Some(Value::Array(_)) => keys.layer_set(KEY),
        _ => keys.all_but_every(KEY, PATTERN),
    }
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = Gemma3::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// Everything in such a file has a use.
pub(crate) fn leaves_unread(_file: &Gguf, _tensor: &str) -> bool {
    false
}
