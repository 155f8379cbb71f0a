//! The gated feed-forward part: `down * (act(gate * x) * (up * x))`.

use zinc_graph::Builder;
use zinc_graph::ops::Activation;
use zinc_graph::section::ValueId;

use super::linear;

/// The feed-forward part of one layer, `n_ff` wide inside.
pub(crate) const fn ffn(b: &mut Builder, x: ValueId, n_ff: u32, activation: Activation) -> ValueId {
    let n_embd = b.shape(x).cols;
    let gate = linear(b, x, "ffn_gate.weight", n_ff);
    let up = linear(b, x, "ffn_up.weight", n_ff);
    let inner = b.glu(gate, up, activation);
    linear(b, inner, "ffn_down.weight", n_embd)
}
