//! Causal self-attention with grouped heads: projections, optional q/k norms, rope, cache, output projection.

use zinc_graph::Builder;
use zinc_graph::ops::{Attention, Rope};
use zinc_graph::section::{ValueId, WeightId};

use super::{head_norm, linear_bias};

/// How a layer attends; widths come from [`Attention`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelfAttention {
    /// Heads, scale, window, soft-cap.
    pub(crate) op: Attention,
    /// Rotation of queries and keys.
    pub(crate) rope: Rope,
    /// Divides the frequencies of `rope` by the file's `rope_freqs`.
    pub(crate) has_rope_factors: bool,
    /// The projections to queries, keys and values have biases.
    pub(crate) has_qkv_bias: bool,
    /// The output projection has a bias.
    pub(crate) has_output_bias: bool,
    /// `eps` of the norms of query and key heads, where there are any.
    pub(crate) qk_norm_eps: Option<f32>,
    /// Each query head has a sink logit.
    pub(crate) has_sinks: bool,
}

/// The mixer of one layer: `[Tokens, width of x]`, before any post norm and residual.
pub(crate) const fn self_attention(b: &mut Builder, x: ValueId, attn: &SelfAttention) -> ValueId {
    let (n_embd, op) = (b.shape(x).cols, attn.op);
    let (q_width, kv_width) = (op.n_heads * op.head_dim, op.n_kv_heads * op.head_dim);
    let q = linear_bias(b, x, "attn_q.weight", only_if(attn.has_qkv_bias, "attn_q.bias"), q_width);
    let k = linear_bias(b, x, "attn_k.weight", only_if(attn.has_qkv_bias, "attn_k.bias"), kv_width);
    let v = linear_bias(b, x, "attn_v.weight", only_if(attn.has_qkv_bias, "attn_v.bias"), kv_width);
    let (q, k) = match attn.qk_norm_eps {
        Some(eps) => (
            head_norm(b, q, "attn_q_norm.weight", op.head_dim, eps),
            head_norm(b, k, "attn_k_norm.weight", op.head_dim, eps),
        ),
        None => (q, k),
    };
    let factors = if attn.has_rope_factors { Some(rope_factors(b, &attn.rope)) } else { None };
    let q = rotate(b, q, factors, attn.rope);
    let k = rotate(b, k, factors, attn.rope);
    let cache = b.kv_cache(op.n_kv_heads, op.head_dim);
    b.kv_write(k, v, cache);
    let sinks = if attn.has_sinks { Some(b.vector("attn_sinks.weight", op.n_heads)) } else { None };
    let o = b.attention(q, cache, sinks, op);
    linear_bias(b, o, "attn_output.weight", only_if(attn.has_output_bias, "attn_output.bias"), n_embd)
}

const fn only_if(has: bool, name: &'static str) -> Option<&'static str> {
    if has { Some(name) } else { None }
}

/// The file's table of frequency divisors, one per rotated pair.
pub(crate) const fn rope_factors(b: &mut Builder, rope: &Rope) -> WeightId {
    b.model_vector("rope_freqs.weight", rope.n_rot / 2)
}

/// Rope with or without frequency divisors.
pub(crate) const fn rotate(b: &mut Builder, x: ValueId, factors: Option<WeightId>, rope: Rope) -> ValueId {
    match factors {
        Some(factors) => b.rope_factors(x, factors, rope),
        None => b.rope(x, rope),
    }
}
