//! `y = act(gate) * rms_norm(x)`, fused
//!
//! Axes: as in its parts; the norm is over groups of columns, with a weight.

use crate::conformance::Case;
use crate::ops::{Activation, Glu, Io, RmsNorm};
use crate::shape::Shape;

/// Norm of `x`, then the product with a gate. Inputs: `x`, `gate`; weight: the norm's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormGlu {
    /// The norm.
    pub norm: RmsNorm,
    /// The gate's function.
    pub glu: Glu,
}

impl NormGlu {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let mut x = vec![vec![0.0; io.inputs[0].len()]];
        let (inputs, weights, rows, batch) = (&io.inputs[..1], io.weights, io.rows, io.batch);
        self.norm.reference(&mut Io { inputs, weights, outputs: &mut x, batch, resource: None, rows });
        let inputs = [io.inputs[1], x[0].as_slice()];
        self.glu.reference(&mut Io { inputs: &inputs, weights: &[], outputs: io.outputs, batch, resource: None, rows });
    }
}

/// The parts, which a backend that has the fusion fuses itself.
pub(super) fn cases() -> Vec<Case> {
    let case = |(n_tokens, groups, width, activation): (u32, u32, u32, Activation)| {
        Case::new(format!("norm_glu/{n_tokens}x{groups}x{width}"), 1e-5).tokens(n_tokens).build(|b| {
            let (x, gate) = (b.input(Shape::tokens(groups * width)), b.input(Shape::tokens(groups * width)));
            let w = b.vector("w", width);
            let h = b.rms_norm_groups(x, Some(w), width, 1e-6);
            let y = b.glu(gate, h, activation);
            b.output(y);
        })
    };
    [(1, 4, 128, Activation::Silu), (9, 2, 64, Activation::Sigmoid), (33, 1, 2048, Activation::Silu)].map(case).into()
}
