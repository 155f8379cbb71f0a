//! `y[t][h][i] = scale * x[t][h][i] / sqrt(sum_i(x[t][h][i]^2) + eps)`
//!
//! Axes: `t` rows, `h` groups of `width` columns (a head of keys or queries), `i` inside the
//! group. `eps` stands next to the sum, not to the mean as in `rms_norm`.
//! Source: Yang et al., "Gated Delta Networks", 2024.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::Shape;

/// Scales groups of columns to one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L2Norm {
    /// Columns of a group.
    pub width: u32,
    /// Added to the sum of squares.
    pub eps: f32,
    /// Length of the result.
    pub scale: f32,
}

impl Builder {
    /// Each group of `width` columns, scaled to the length `scale`.
    pub const fn l2_norm(&mut self, x: ValueId, op: L2Norm) -> ValueId {
        let shape = self.shape(x);
        if op.width == 0 || !shape.cols.is_multiple_of(op.width) {
            self.fail("l2_norm", "the group must divide the row", op.width, shape.cols);
        }
        self.node(Op::L2Norm(op), Operands::values(&[x]), &[shape])
    }
}

impl L2Norm {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let width = self.width as usize;
        for (y, x) in io.outputs[0].chunks_exact_mut(width).zip(io.inputs[0].chunks_exact(width)) {
            let sum: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            let factor = f64::from(self.scale) / (sum + f64::from(self.eps)).sqrt();
            for (y, x) in y.iter_mut().zip(x) {
                *y = (f64::from(*x) * factor) as f32;
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n_tokens, groups, width) in [(1, 1, 32), (3, 16, 128), (7, 2, 20), (33, 5, 64)] {
        for (spread, scale) in [(1.0, 1.0), (1e-3, 0.0884)] {
            let name = format!("l2_norm/{n_tokens}x{groups}x{width}/{spread}");
            cases.push(Case::new(name, 2e-6).spread(spread).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(groups * width));
                let y = b.l2_norm(x, L2Norm { width, eps: 1e-6, scale });
                b.output(y);
            }));
        }
    }
    cases
}
