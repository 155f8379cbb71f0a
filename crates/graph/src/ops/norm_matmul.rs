//! `y = W rms_norm(x) (+ b)` and `y = act(G rms_norm(x)) * (U rms_norm(x))`, fused
//!
//! Axes: as in `rms_norm` over the whole row and in `matmul`. The norm is a factor per row, so a
//! product of few rows takes it along for nothing: each of its workgroups reads the whole row anyway.

use crate::conformance::Case;
use crate::ops::{Activation, Glu, Io, Matmul, RmsNorm};
use crate::shape::Shape;

/// Norm, then a matrix product. Weights: the norm's, the matrix, perhaps a bias.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormMatmul {
    /// The norm, over the whole row.
    pub norm: RmsNorm,
    /// The product.
    pub product: Matmul,
}

/// Norm, then a gated product. Weights: the norm's, gate, up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormMatmulGlu {
    /// The norm, over the whole row.
    pub norm: RmsNorm,
    /// The gate's function.
    pub glu: Glu,
}

impl NormMatmul {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        normed(self.norm, io, |io| self.product.reference(io));
    }
}

impl NormMatmulGlu {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        normed(self.norm, io, |io| self.glu.reference_of_matmuls(io));
    }
}

/// Runs `rest` on the normed first input, the other inputs, and the weights behind the norm's.
pub(super) fn normed(norm: RmsNorm, io: &mut Io<'_>, rest: impl FnOnce(&mut Io<'_>)) {
    let mut x = vec![vec![0.0; io.inputs[0].len()]];
    let (inputs, weights, rows, batch) = (io.inputs, io.weights, io.rows, io.batch);
    norm.reference(&mut Io {
        inputs: &inputs[..1],
        weights: &weights[..1],
        outputs: &mut x,
        batch,
        resource: None,
        rows,
    });
    let inputs: Vec<&[f32]> = std::iter::once(x[0].as_slice()).chain(inputs[1..].iter().copied()).collect();
    rest(&mut Io { inputs: &inputs, weights: &weights[1..], outputs: io.outputs, batch, resource: None, rows });
}

/// The parts, which a backend that has the fusion fuses itself.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [zinc_gguf::DType::F32, zinc_gguf::DType::F16, zinc_gguf::DType::Q4_K, zinc_gguf::DType::Q6_K] {
        for n_tokens in [1, 3, 8, 20] {
            let name = format!("norm_matmul/{dtype}/{n_tokens}");
            cases.push(Case::new(name, 1e-5).dtype(dtype).tokens(n_tokens).spread(3.0).build(|b| {
                let x = b.input(Shape::tokens(512));
                let w = b.vector("norm", 512);
                let h = b.rms_norm(x, w, 1e-5);
                let (q, k) = (b.matrix("q", 512, 70), b.matrix("k", 512, 33));
                let bias = b.vector("bias", 33);
                let (q, k) = (b.matmul(h, q), b.matmul_bias(h, k, bias));
                let (gate, up) = (b.matrix("gate", 512, 50), b.matrix("up", 512, 50));
                let (gate, up) = (b.matmul(h, gate), b.matmul(h, up));
                let y = b.glu(gate, up, Activation::Silu);
                [q, k, y].into_iter().for_each(|y| b.output(y));
            }));
        }
    }
    cases
}
