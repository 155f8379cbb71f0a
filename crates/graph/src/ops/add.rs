//! `y[t][i] = a[t][i] + b[t][i]`

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::Shape;

impl Builder {
    /// Elementwise sum of two values of one shape.
    pub const fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let shape = self.shape(a);
        self.check("add", "both summands must have the same width", shape.cols, self.shape(b).cols);
        self.node(Op::Add, Operands::values(&[a, b]), &[shape])
    }
}

pub(super) fn reference(io: &mut Io<'_>) {
    for (y, (a, b)) in io.outputs[0].iter_mut().zip(io.inputs[0].iter().zip(io.inputs[1])) {
        *y = a + b;
    }
}

pub(super) fn cases() -> Vec<Case> {
    [(1, 64), (3, 577), (33, 100)]
        .map(|(n_tokens, width)| {
            Case::new(format!("add/{n_tokens}x{width}"), 1e-7).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(width));
                let r = b.input(Shape::tokens(width));
                let y = b.add(x, r);
                b.output(y);
            })
        })
        .into()
}
