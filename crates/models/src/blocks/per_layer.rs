//! Per-layer embeddings: a second table with a few columns for every layer, mixed with a projection of the first, and
//! what a layer takes from it at its end.
//!
//! ```text
//! pl[l] = (sqrt(p) * per_layer_token_embd[id][l] + norm(per_layer_model_proj x0 / sqrt(d))[l]) / sqrt(2)
//! x += norm(proj (gelu(inp_gate x) * pl[l]))
//! ```

use zinc_graph::Builder;
use zinc_graph::ops::Activation;
use zinc_graph::section::ValueId;

use super::{inverse_sqrt, linear, norm, sqrt_f32};
use crate::hparams::Hparams;

/// The columns of all layers, `[Tokens, n_layers * width]`; `x` is the scaled embedding.
pub(crate) const fn per_layer_columns(b: &mut Builder, x: ValueId, hp: &Hparams, width: u32) -> ValueId {
    let all = hp.n_layers * width;
    let table = b.model_matrix("per_layer_token_embd.weight", all, hp.n_vocab);
    let looked_up = b.embed(table, sqrt_f32(width));
    let w = b.model_matrix("per_layer_model_proj.weight", hp.n_embd, all);
    let projected = b.matmul(x, w);
    let projected = b.scale(projected, inverse_sqrt(hp.n_embd));
    let w = b.model_vector("per_layer_proj_norm.weight", width);
    let projected = b.rms_norm_groups(projected, Some(w), width, hp.eps);
    let sum = b.add(looked_up, projected);
    b.scale(sum, std::f32::consts::FRAC_1_SQRT_2)
}

/// What the layer adds to `x` from its own columns.
pub(crate) const fn per_layer_input(b: &mut Builder, x: ValueId, all: ValueId, width: u32, eps: f32) -> ValueId {
    let n_embd = b.shape(x).cols;
    let own = b.slice_of_layer(all, width);
    let gate = linear(b, x, "inp_gate.weight", width);
    let gated = b.glu(gate, own, Activation::GeluTanh);
    let y = linear(b, gated, "proj.weight", n_embd);
    norm(b, y, "post_norm.weight", eps)
}
