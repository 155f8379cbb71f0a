//! gpt-oss: attention with sinks and biases, alternately in a window and without; experts with biases and a clamped
//! gate; YaRN.
//!
//! No key tells which layers have the window: they are the even ones. The limits of YaRN's ramp are not rounded,
//! as the original's configuration says.

use zinc_gguf::Gguf;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode, Yarn};
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Blueprint, Builder, Section};

use crate::Error;
use crate::blocks::attention::{SelfAttention, self_attention};
use crate::blocks::experts::{ExpertForm, Experts, experts};
use crate::blocks::{embedding, head, inverse_sqrt, norm};
use crate::declaration::{Declaration, Fault};
use crate::hparams::{CONTEXT_MAX, Hparams};
use crate::keys::Keys;
use crate::rules::Broken;

/// The value of `general.architecture`.
pub const NAME: &str = "gpt-oss";

/// The clamped gate; no key gives its numbers.
const ACTIVATION: Activation = Activation::Clamped { alpha: 1.702, limit: 7.0 };

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptOss {
    /// The shared ones.
    pub hp: Hparams,
    /// The experts of every layer.
    pub experts: Experts,
    /// Keys that an even layer sees, the query's own included.
    pub window: u32,
    /// Scaling of rope.
    pub yarn: Yarn,
}

impl GptOss {
    fn read(file: &Gguf) -> Result<GptOss, Error> {
        let keys = Keys::new(file, NAME);
        Ok(GptOss {
            hp: Hparams::read(&keys)?,
            experts: Experts::read(&keys)?,
            window: keys.require_u32("attention.sliding_window")?,
            yarn: yarn(&keys)?,
        })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hp.rules();
        self.experts.add_rules(&mut rules);
        rules.between("attention.sliding_window", self.window, 1, CONTEXT_MAX);
        rules.above_zero("rope.scaling.factor", self.yarn.factor);
        rules.above_zero("rope.scaling.original_context_length", self.yarn.original_context);
        rules.above_zero("rope.scaling.yarn_beta_fast", self.yarn.beta_fast);
        rules.above_zero("rope.scaling.yarn_beta_slow", self.yarn.beta_slow);
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
        let sliding = model.block(self.block("gpt-oss sliding block", self.window));
        let global = model.block(self.block("gpt-oss global block", 0));
        let mut layer = 0;
        while layer < self.hp.n_layers {
            model.layer(if layer.is_multiple_of(2) { sliding } else { global });
            layer += 1;
        }
        model.epilogue(head::epilogue(&self.hp, None));
        model.finish()
    }

    const fn block(&self, name: &'static str, window: u32) -> Result<Section, ShapeError> {
        let mut b = Builder::new(name);
        let x = b.input(Shape::tokens(self.hp.n_embd));

        let h = norm(&mut b, x, "attn_norm.weight", self.hp.eps);
        let mixer = self_attention(&mut b, h, &self.attention(window));
        b.name(mixer, "mixer");
        let x = b.add(x, mixer);

        let h = norm(&mut b, x, "post_attention_norm.weight", self.hp.eps);
        let form = ExpertForm { activation: ACTIVATION, has_bias: true, has_scale: false };
        let mlp = experts(&mut b, h, h, &self.experts, &form);
        b.name(mlp, "mlp");
        let out = b.add(x, mlp);

        b.name(out, "out");
        b.output(out);
        b.finish()
    }

    const fn attention(&self, window: u32) -> SelfAttention {
        let Hparams { n_heads, n_kv_heads, head_dim, n_rot, rope_base: base, .. } = self.hp;
        let scale = inverse_sqrt(head_dim);
        let mode = RopeMode::HalfSplit;
        SelfAttention {
            op: Attention { n_heads, n_kv_heads, head_dim, scale, window, softcap: 0.0 },
            rope: Rope { head_dim, n_rot, mode, base, position_scale: 1.0, yarn: Some(self.yarn) },
            has_rope_factors: false,
            has_qkv_bias: true,
            has_output_bias: true,
            qk_norm_eps: None,
            has_sinks: true,
        }
    }
}

fn yarn(keys: &Keys<'_>) -> Result<Yarn, Error> {
    const KEY: &str = "rope.scaling.type";
    let kind = keys.metadata().require_str(&keys.full(KEY))?;
    if kind != "yarn" {
        return Err(Error::Unsupported { key: keys.full(KEY), got: kind.to_owned(), known: "yarn" });
    }
    Ok(Yarn {
        factor: keys.require_f32("rope.scaling.factor")?,
        original_context: keys.require_u32("rope.scaling.original_context_length")? as f32,
        beta_fast: keys.f32("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: keys.f32("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        rounded_limits: false,
    })
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = GptOss::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// Everything in such a file has a use.
pub(crate) fn leaves_unread(_file: &Gguf, _tensor: &str) -> bool {
    false
}
