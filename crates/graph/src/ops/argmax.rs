//! `y[r] = the lowest i with x[r][i] = max_i x[r][i]`
//!
//! Greedy sampling without a round trip to the host. NaN never wins; a row of NaN gives 0.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::{Elem, Shape};

impl Builder {
    /// `[rows, 1]` of u32.
    pub const fn argmax(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let out = Shape { rows: shape.rows, cols: 1, elem: Elem::U32 };
        self.node(Op::Argmax, Operands::values(&[x]), &[out])
    }
}

pub(super) fn reference(io: &mut Io<'_>) {
    if io.rows == 0 {
        return;
    }
    let cols = io.cols(0);
    for (y, x) in io.outputs[0].iter_mut().zip(io.inputs[0].chunks_exact(cols)) {
        let mut best = (0u32, f32::NEG_INFINITY);
        for (i, &v) in (0u32..).zip(x) {
            if v > best.1 {
                best = (i, v);
            }
        }
        *y = f32::from_bits(best.0);
    }
}

pub(super) fn cases() -> Vec<Case> {
    [(1, 512), (3, 1), (5, 49_157)]
        .map(|(n_tokens, width)| {
            Case::new(format!("argmax/{n_tokens}x{width}"), 0.0).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(width));
                let y = b.argmax(x);
                b.output(y);
            })
        })
        .into()
}
