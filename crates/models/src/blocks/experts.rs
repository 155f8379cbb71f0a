//! Mixture of experts: a router, the chosen experts' feed-forward parts, and one that every token takes.

use zinc_graph::Builder;
use zinc_graph::ops::{Activation, EXPERTS_MAX, EXPERTS_USED_MAX};
use zinc_graph::section::ValueId;

use super::{linear, linear_bias};
use crate::Error;
use crate::hparams::FF_MAX;
use crate::keys::Keys;
use crate::rules::Rules;

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// How many there are.
    pub n_experts: u32,
    /// How many a token takes.
    pub n_used: u32,
    /// Width inside one of them.
    pub n_ff: u32,
    /// The file has one tensor for gate and up, gate's rows first.
    pub fused_gate_up: bool,
}

/// What differs between architectures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExpertForm {
    /// The function of the gate.
    pub(crate) activation: Activation,
    /// The router and the three products have biases.
    pub(crate) has_bias: bool,
    /// Each expert has a scale that its weight is multiplied by.
    pub(crate) has_scale: bool,
}

impl Experts {
    /// Reads the numbers, unchecked.
    ///
    /// # Errors
    /// A required key that is missing, or a key of the wrong type.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Experts, Error> {
        Ok(Experts {
            n_experts: keys.require_u32("expert_count")?,
            n_used: keys.require_u32("expert_used_count")?,
            n_ff: keys.require_u32("expert_feed_forward_length")?,
            fused_gate_up: keys.file.tensor("blk.0.ffn_gate_up_exps.weight").is_some(),
        })
    }

    /// Adds the bounds of these numbers.
    pub(crate) const fn add_rules(&self, rules: &mut Rules) {
        rules.between("expert_count", self.n_experts, 1, EXPERTS_MAX);
        let used_max = if self.n_experts < EXPERTS_USED_MAX { self.n_experts } else { EXPERTS_USED_MAX };
        rules.between("expert_used_count", self.n_used, 1, used_max);
        rules.between("expert_feed_forward_length", self.n_ff, 1, FF_MAX);
    }
}

/// The weighted sum of the chosen experts of `x`; the router looks at `routed`, mostly the same value.
pub(crate) const fn experts(
    b: &mut Builder,
    routed: ValueId,
    x: ValueId,
    experts: &Experts,
    form: &ExpertForm,
) -> ValueId {
    let n_embd = b.shape(x).cols;
    let Experts { n_experts, n_used, n_ff, .. } = *experts;
    let bias = if form.has_bias { Some("ffn_gate_inp.bias") } else { None };
    let logits = linear_bias(b, routed, "ffn_gate_inp.weight", bias, n_experts);
    let scale = if form.has_scale { Some(b.vector("ffn_down_exps.scale", n_experts)) } else { None };
    let (ids, weights) = b.router(logits, n_used, scale);

    let (gate, up) = if experts.fused_gate_up {
        let w = b.experts("ffn_gate_up_exps.weight", n_embd, 2 * n_ff, n_experts);
        let bias =
            if form.has_bias { Some(b.expert_biases("ffn_gate_up_exps.bias", 2 * n_ff, n_experts)) } else { None };
        let both = b.expert_matmul(x, ids, w, bias);
        (b.slice_groups(both, 2 * n_ff, 0, n_ff), b.slice_groups(both, 2 * n_ff, n_ff, n_ff))
    } else {
        let w = b.experts("ffn_gate_exps.weight", n_embd, n_ff, n_experts);
        let bias = if form.has_bias { Some(b.expert_biases("ffn_gate_exps.bias", n_ff, n_experts)) } else { None };
        let gate = b.expert_matmul(x, ids, w, bias);
        let w = b.experts("ffn_up_exps.weight", n_embd, n_ff, n_experts);
        let bias = if form.has_bias { Some(b.expert_biases("ffn_up_exps.bias", n_ff, n_experts)) } else { None };
        (gate, b.expert_matmul(x, ids, w, bias))
    };
    let inner = b.glu(gate, up, form.activation);
    let w = b.experts("ffn_down_exps.weight", n_ff, n_embd, n_experts);
    let bias = if form.has_bias { Some(b.expert_biases("ffn_down_exps.bias", n_embd, n_experts)) } else { None };
    let parts = b.expert_matmul(inner, ids, w, bias);
    b.expert_sum(parts, weights)
}

/// The expert that every token takes, `n_ff` wide inside, each token as much of it as its gate says.
pub(crate) const fn shared_expert(b: &mut Builder, x: ValueId, n_ff: u32) -> ValueId {
    let n_embd = b.shape(x).cols;
    let share = linear(b, x, "ffn_gate_inp_shexp.weight", 1);
    let gate = linear(b, x, "ffn_gate_shexp.weight", n_ff);
    let up = linear(b, x, "ffn_up_shexp.weight", n_ff);
    let inner = b.glu(gate, up, Activation::Silu);
    let y = linear(b, inner, "ffn_down_shexp.weight", n_embd);
    b.gate_rows(y, share)
}
