//! Layers of a hybrid: delta nets, and now and then attention whose output is gated column by column.
//!
//! Also here: the layers at the end of a file that predict further tokens. They are recognised by their count and left
//! out of the graph.

use zinc_gguf::Gguf;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::section::ValueId;
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Builder, Section};

use super::delta_net::{DeltaMixer, delta_net};
use super::experts::{ExpertForm, Experts, experts, shared_expert};
use super::ffn::ffn;
use super::{head_norm, inverse_sqrt, linear, norm};
use crate::Error;
use crate::hparams::{Hparams, LAYERS_MAX, LayerSet};
use crate::keys::Keys;
use crate::rules::Rules;

/// One layer in this many attends, where the file does not say.
const INTERVAL: u32 = 4;
const SKIPPED_KEY: &str = "nextn_predict_layers";

/// Hyperparameters that the hybrids share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid {
    /// The shared ones; `n_layers` counts the layers that run.
    pub hp: Hparams,
    /// Layers at the end of the file that do not run.
    pub n_skipped: u32,
    /// The layers that are delta nets.
    pub recurrent: LayerSet,
    /// Their sizes.
    pub delta: DeltaMixer,
}

/// The second half of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FeedForward {
    /// One part for all tokens, this wide inside.
    Dense(u32),
    /// Experts, and one that every token takes, this wide inside.
    Experts(Experts, u32),
}

impl Hybrid {
    /// Reads the numbers, unchecked.
    ///
    /// # Errors
    /// A required key that is missing, or a key of the wrong type.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Hybrid, Error> {
        const RECURRENT: &str = "attention.recurrent_layers";
        let mut hp = Hparams::read(keys)?;
        let n_skipped = keys.u32(SKIPPED_KEY)?.unwrap_or(0);
        let mut rules = Rules::new();
        rules.between("block_count", hp.n_layers, 1, LAYERS_MAX);
        rules.holds(n_skipped < hp.n_layers, SKIPPED_KEY, n_skipped, "leaves no layers of block_count");
        rules.finish().map_err(|broken| keys.broken(broken))?;
        hp.n_layers -= n_skipped;
        let recurrent = match keys.get(RECURRENT) {
            Some(_) => keys.layer_set(RECURRENT)?,
            None => keys.all_but_every("full_attention_interval", INTERVAL)?,
        };
        Ok(Hybrid { hp, n_skipped, recurrent, delta: DeltaMixer::read(keys)? })
    }

    /// The bounds of these numbers.
    pub(crate) const fn rules(&self) -> Rules {
        let mut rules = self.hp.rules();
        self.delta.add_rules(&mut rules);
        rules
    }

    /// One kind of layer.
    pub(crate) const fn block(
        &self,
        name: &'static str,
        recurrent: bool,
        second: &FeedForward,
    ) -> Result<Section, ShapeError> {
        let mut b = Builder::new(name);
        let x = b.input(Shape::tokens(self.hp.n_embd));

        let h = norm(&mut b, x, "attn_norm.weight", self.hp.eps);
        let mixer = if recurrent {
            delta_net(&mut b, h, &self.delta, self.hp.eps)
        } else {
            gated_attention(&mut b, h, &self.hp)
        };
        b.name(mixer, "mixer");
        let x = b.add(x, mixer);

        // The name is that of the original's module; it stands before the second half.
        let h = norm(&mut b, x, "post_attention_norm.weight", self.hp.eps);
        let mlp = match second {
            FeedForward::Dense(n_ff) => ffn(&mut b, h, *n_ff, Activation::Silu),
            FeedForward::Experts(chosen, n_ff_shared) => {
                let form = ExpertForm { activation: Activation::Silu, has_bias: false, has_scale: false };
                let y = experts(&mut b, h, h, chosen, &form);
                let shared = shared_expert(&mut b, h, *n_ff_shared);
                b.add(y, shared)
            }
        };
        b.name(mlp, "mlp");
        let out = b.add(x, mlp);

        b.name(out, "out");
        b.output(out);
        b.finish()
    }
}

/// Attention whose query projection also makes the gate of its output: in each head first the query, then the gate.
const fn gated_attention(b: &mut Builder, x: ValueId, hp: &Hparams) -> ValueId {
    let Hparams { n_embd, n_heads, n_kv_heads, head_dim, n_rot, rope_base: base, eps, .. } = *hp;
    let q_and_gate = linear(b, x, "attn_q.weight", n_heads * 2 * head_dim);
    let q = b.slice_groups(q_and_gate, 2 * head_dim, 0, head_dim);
    let gate = b.slice_groups(q_and_gate, 2 * head_dim, head_dim, head_dim);
    let k = linear(b, x, "attn_k.weight", n_kv_heads * head_dim);
    let v = linear(b, x, "attn_v.weight", n_kv_heads * head_dim);
    let q = head_norm(b, q, "attn_q_norm.weight", head_dim, eps);
    let k = head_norm(b, k, "attn_k_norm.weight", head_dim, eps);
    // The sections of positions in an image (time, height, width) are all one position in text.
    let rope = Rope { head_dim, n_rot, mode: RopeMode::HalfSplit, base, position_scale: 1.0, yarn: None };
    let (q, k) = (b.rope(q, rope), b.rope(k, rope));
    let cache = b.kv_cache(n_kv_heads, head_dim);
    b.kv_write(k, v, cache);
    let scale = inverse_sqrt(head_dim);
    let o = b.attention(q, cache, None, Attention { n_heads, n_kv_heads, head_dim, scale, window: 0, softcap: 0.0 });
    let o = b.glu(gate, o, Activation::Sigmoid);
    linear(b, o, "attn_output.weight", n_embd)
}

/// Whether `tensor` belongs to a layer that does not run.
pub(crate) fn is_of_skipped_layer(file: &Gguf, architecture: &'static str, tensor: &str) -> bool {
    let keys = Keys::new(file, architecture);
    let count = |key| keys.u32(key).ok().flatten().unwrap_or(0);
    let layer = tensor.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    layer.is_some_and(|layer| layer >= count("block_count").saturating_sub(count(SKIPPED_KEY)))
}
