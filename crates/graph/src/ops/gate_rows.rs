//! `y[t][i] = x[t][i] * sigmoid(s[t])`
//!
//! Axes: `t` rows, `i` columns. One gate per row: how much of a shared expert a token takes.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::Shape;

impl Builder {
    /// `x * sigmoid(gate)`; `gate` is `[rows, 1]`.
    pub const fn gate_rows(&mut self, x: ValueId, gate: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.check("gate_rows", "there must be one gate per row", 1, self.shape(gate).cols);
        self.node(Op::GateRows, Operands::values(&[x, gate]), &[shape])
    }
}

pub(super) fn reference(io: &mut Io<'_>) {
    let cols = io.cols(0);
    let rows = io.outputs[0].chunks_exact_mut(cols).zip(io.inputs[0].chunks_exact(cols));
    for ((y, x), gate) in rows.zip(io.inputs[1]) {
        let gate = 1.0 / (1.0 + (-f64::from(*gate)).exp());
        for (y, x) in y.iter_mut().zip(x) {
            *y = (f64::from(*x) * gate) as f32;
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n_tokens, width) in [(1, 64), (3, 577), (33, 100)] {
        for spread in [1.0, 30.0] {
            cases.push(
                Case::new(format!("gate_rows/{n_tokens}x{width}/{spread}"), 2e-6)
                    .spread(spread)
                    .tokens(n_tokens)
                    .build(|b| {
                        let x = b.input(Shape::tokens(width));
                        let gate = b.input(Shape::tokens(1));
                        let y = b.gate_rows(x, gate);
                        b.output(y);
                    }),
            );
        }
    }
    cases
}
