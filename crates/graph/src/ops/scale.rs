//! `y[t][i] = factor * x[t][i]`, or `y[t][i] = factor * w * x[t][i]` with a weight of one element
//!
//! Axes: `t` rows, `i` columns.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// Multiplication by a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The constant part of the scalar.
    pub factor: f32,
}

impl Builder {
    /// `factor * x`.
    pub const fn scale(&mut self, x: ValueId, factor: f32) -> ValueId {
        let shape = self.shape(x);
        self.node(Op::Scale(Scale { factor }), Operands::values(&[x]), &[shape])
    }

    /// `w * x`, `w` a plain weight of one element.
    pub const fn scale_by(&mut self, x: ValueId, w: WeightId) -> ValueId {
        let shape = self.shape(x);
        let [n, m, k] = self.weight_shape(w);
        self.check("scale", "the weight must have one element", 1, n.saturating_mul(m).saturating_mul(k));
        self.node(Op::Scale(Scale { factor: 1.0 }), Operands::values(&[x]).weights(&[w]), &[shape])
    }
}

impl Scale {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let factor = f64::from(self.factor) * io.weights.first().map_or(1.0, |w| f64::from(w[0]));
        for (y, x) in io.outputs[0].iter_mut().zip(io.inputs[0]) {
            *y = (f64::from(*x) * factor) as f32;
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n_tokens, width) in [(1, 64), (3, 577), (33, 100)] {
        cases.push(Case::new(format!("scale/constant/{n_tokens}x{width}"), 1e-6).tokens(n_tokens).build(|b| {
            let x = b.input(Shape::tokens(width));
            let y = b.scale(x, 0.707_106_77);
            b.output(y);
        }));
        cases.push(Case::new(format!("scale/weight/{n_tokens}x{width}"), 1e-6).tokens(n_tokens).build(|b| {
            let x = b.input(Shape::tokens(width));
            let w = b.vector("w", 1);
            let y = b.scale_by(x, w);
            b.output(y);
        }));
    }
    cases
}
