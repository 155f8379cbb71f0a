//! Parts of a forward pass that architectures share, as `const fn`s over the builder.

pub(crate) mod attention;
pub(crate) mod delta_net;
pub(crate) mod embedding;
pub(crate) mod experts;
pub(crate) mod ffn;
pub(crate) mod head;
pub(crate) mod hybrid;
pub(crate) mod per_layer;

use zinc_graph::Builder;
use zinc_graph::section::ValueId;

/// `W x`, with `W` of the current layer.
pub(crate) const fn linear(b: &mut Builder, x: ValueId, weight: &'static str, n_out: u32) -> ValueId {
    let n_in = b.shape(x).cols;
    let w = b.matrix(weight, n_in, n_out);
    b.matmul(x, w)
}

/// `W x + b`, or `W x` where there is no bias.
pub(crate) const fn linear_bias(
    b: &mut Builder,
    x: ValueId,
    weight: &'static str,
    bias: Option<&'static str>,
    n_out: u32,
) -> ValueId {
    let Some(bias) = bias else { return linear(b, x, weight, n_out) };
    let n_in = b.shape(x).cols;
    let w = b.matrix(weight, n_in, n_out);
    let bias = b.vector(bias, n_out);
    b.matmul_bias(x, w, bias)
}

/// Norm of the whole row, with a weight of the current layer.
pub(crate) const fn norm(b: &mut Builder, x: ValueId, weight: &'static str, eps: f32) -> ValueId {
    let width = b.shape(x).cols;
    let w = b.vector(weight, width);
    b.rms_norm(x, w, eps)
}

/// Norm of each head of `head_dim` columns, with one weight of the current layer for all of them.
pub(crate) const fn head_norm(b: &mut Builder, x: ValueId, weight: &'static str, head_dim: u32, eps: f32) -> ValueId {
    let w = b.vector(weight, head_dim);
    b.rms_norm_groups(x, Some(w), head_dim, eps)
}

/// Square root for constants: Newton's method in f64, from above, until it stands still.
pub(crate) const fn sqrt(x: u32) -> f64 {
    if x == 0 {
        return 0.0;
    }
    let x = x as f64;
    let mut root = x;
    loop {
        let next = 0.5 * (root + x / root);
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// `sqrt(x)` rounded to f32: the scale of embeddings.
#[expect(clippy::cast_possible_truncation, reason = "rounded once, on purpose")]
pub(crate) const fn sqrt_f32(x: u32) -> f32 {
    sqrt(x) as f32
}

/// `1 / sqrt(x)` rounded to f32: the scale of dot products over `x` columns.
#[expect(clippy::cast_possible_truncation, reason = "rounded once, on purpose")]
pub(crate) const fn inverse_sqrt(x: u32) -> f32 {
    (1.0 / sqrt(x)) as f32
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_root_is_that_of_the_standard_library() {
        for x in (0..70_000).chain([1 << 20, u32::MAX]) {
            let (got, expected) = (super::sqrt(x), f64::from(x).sqrt());
            assert!((got - expected).abs() <= expected * f64::EPSILON, "{x}: {got} {expected}");
        }
    }
}
