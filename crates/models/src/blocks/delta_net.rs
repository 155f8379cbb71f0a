//! The gated delta net as a mixer: short convolution, delta rule with a state per head, gated norm.
//!
//! Files hold the value heads in an order in which head `h` reads key head `h % n_k_heads`, in every tensor that has an
//! axis of value heads; that is the order of `delta_net`, so nothing is permuted.

use zinc_graph::Builder;
use zinc_graph::ops::{Activation, CONV_TAPS_MAX, DELTA_HEAD_DIM_MAX, DeltaInputs, DeltaNet, L2Norm};
use zinc_graph::section::ValueId;

use super::{head_norm, inverse_sqrt, linear};
use crate::Error;
use crate::hparams::HEADS_MAX;
use crate::keys::Keys;
use crate::rules::Rules;

/// Added to the sum of squares of a key or query. The original has a constant here, not the norms' eps.
const L2_EPS: f32 = 1e-6;

/// Sizes of a gated delta net.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaMixer {
    /// Heads of keys and queries.
    pub n_k_heads: u32,
    /// Heads of values.
    pub n_v_heads: u32,
    /// Columns of a key.
    pub k_dim: u32,
    /// Columns of all values.
    pub inner: u32,
    /// Taps of the convolution.
    pub n_taps: u32,
}

impl DeltaMixer {
    /// Reads the numbers, unchecked.
    ///
    /// # Errors
    /// A required key that is missing, or a key of the wrong type.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<DeltaMixer, Error> {
        Ok(DeltaMixer {
            n_k_heads: keys.require_u32("ssm.group_count")?,
            n_v_heads: keys.require_u32("ssm.time_step_rank")?,
            k_dim: keys.require_u32("ssm.state_size")?,
            inner: keys.require_u32("ssm.inner_size")?,
            n_taps: keys.require_u32("ssm.conv_kernel")?,
        })
    }

    /// Adds the bounds of these numbers.
    pub(crate) const fn add_rules(&self, rules: &mut Rules) {
        rules.between("ssm.group_count", self.n_k_heads, 1, HEADS_MAX);
        rules.between("ssm.time_step_rank", self.n_v_heads, 1, HEADS_MAX);
        rules.divides("ssm.group_count", self.n_k_heads, "the number of value heads", self.n_v_heads);
        rules.between("ssm.state_size", self.k_dim, 4, DELTA_HEAD_DIM_MAX);
        rules.holds(self.k_dim.is_multiple_of(4), "ssm.state_size", self.k_dim, "is not a multiple of 4");
        let v_dim = match self.inner.checked_div(self.n_v_heads) {
            Some(v_dim) => v_dim,
            None => 0,
        };
        let whole = v_dim.saturating_mul(self.n_v_heads) == self.inner;
        rules.holds(whole, "ssm.inner_size", self.inner, "is not a multiple of ssm.time_step_rank");
        let in_heads = 0 < v_dim && v_dim <= DELTA_HEAD_DIM_MAX && v_dim.is_multiple_of(4);
        rules.holds(
            in_heads,
            "ssm.inner_size",
            self.inner,
            "does not make heads whose width is a multiple of 4 up to 256",
        );
        rules.between("ssm.conv_kernel", self.n_taps, 2, CONV_TAPS_MAX);
    }
}

/// The mixer of one layer: `[Tokens, width of x]`, before the residual.
pub(crate) const fn delta_net(b: &mut Builder, x: ValueId, mixer: &DeltaMixer, eps: f32) -> ValueId {
    let n_embd = b.shape(x).cols;
    let DeltaMixer { n_k_heads, n_v_heads, k_dim, inner, n_taps } = *mixer;
    let op = DeltaNet { n_k_heads, n_v_heads, k_dim, v_dim: inner / n_v_heads };
    let keys = n_k_heads * k_dim;

    let qkv = linear(b, x, "attn_qkv.weight", 2 * keys + inner);
    let z = linear(b, x, "attn_gate.weight", inner);
    let beta = linear(b, x, "ssm_beta.weight", n_v_heads);
    let alpha = linear(b, x, "ssm_alpha.weight", n_v_heads);

    let taps = b.conv_taps("ssm_conv1d.weight", n_taps, 2 * keys + inner);
    let recent = b.conv_state(n_taps, 2 * keys + inner);
    let qkv = b.conv1d(qkv, taps, recent, true);
    let (q, k, v) = (b.slice(qkv, 0, keys), b.slice(qkv, keys, keys), b.slice(qkv, 2 * keys, inner));
    let unit = L2Norm { width: k_dim, eps: L2_EPS, scale: 1.0 };
    let q = b.l2_norm(q, L2Norm { scale: inverse_sqrt(k_dim), ..unit });
    let k = b.l2_norm(k, unit);
    let (a, dt) = (b.vector("ssm_a", n_v_heads), b.vector("ssm_dt.bias", n_v_heads));
    let (g, beta) = b.delta_gates(alpha, beta, a, dt);

    let state = b.delta_state(op);
    let o = b.delta_net(DeltaInputs { q, k, v, g, beta }, state, op);
    let o = head_norm(b, o, "ssm_norm.weight", op.v_dim, eps);
    let o = b.glu(z, o, Activation::Silu);
    linear(b, o, "ssm_out.weight", n_embd)
}
