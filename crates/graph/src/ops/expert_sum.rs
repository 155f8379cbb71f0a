//! `y[t][i] = sum_{s<k} weight[t][s] * x[t][s][i]`
//!
//! Axes: `t` tokens, `s` the chosen experts of a token in the router's order, `i` columns. Fused:
//! `expert_sum_add` adds one or two more inputs.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::Shape;

/// Weighted sum of what the chosen experts gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertSum {
    /// Experts chosen per token.
    pub n_used: u32,
}

impl Builder {
    /// `[Tokens, d]` of `[Tokens, n_used * d]` and weights `[Tokens, n_used]`.
    pub const fn expert_sum(&mut self, x: ValueId, weights: ValueId) -> ValueId {
        let (shape, n_used) = (self.shape(x), self.shape(weights).cols);
        if n_used == 0 || !shape.cols.is_multiple_of(n_used) {
            self.fail("expert_sum", "the number of experts must divide the row", n_used, shape.cols);
            return x;
        }
        let op = Op::ExpertSum(ExpertSum { n_used });
        self.node(op, Operands::values(&[x, weights]), &[shape.with_cols(shape.cols / n_used)])
    }
}

impl ExpertSum {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let n_used = self.n_used as usize;
        let width = io.cols(0) / n_used;
        for (t, y) in io.outputs[0].chunks_exact_mut(width).enumerate() {
            let weights = &io.inputs[1][t * n_used..][..n_used];
            let x = &io.inputs[0][t * n_used * width..][..n_used * width];
            for (i, y) in y.iter_mut().enumerate() {
                let sum: f64 = (0..n_used).map(|s| f64::from(weights[s]) * f64::from(x[s * width + i])).sum();
                *y = sum as f32;
            }
        }
    }
}

impl ExpertSum {
    pub(super) fn reference_then_add(self, io: &mut Io<'_>) {
        self.reference(io);
        for added in &io.inputs[2..] {
            io.outputs[0].iter_mut().zip(*added).for_each(|(y, x)| *y += x);
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = plain_cases();
    for n_tokens in [1, 35] {
        cases.push(Case::new(format!("expert_sum_add/{n_tokens}"), 2e-6).tokens(n_tokens).build(|b| {
            let (x, weights) = (b.input(Shape::tokens(3 * 64)), b.input(Shape::tokens(3)));
            let (shared, residual) = (b.input(Shape::tokens(64)), b.input(Shape::tokens(64)));
            let chosen = b.expert_sum(x, weights);
            let both = b.add(chosen, shared);
            let y = b.add(residual, both);
            b.output(y);
        }));
    }
    cases
}

fn plain_cases() -> Vec<Case> {
    [(1, 8, 128), (3, 2, 77), (5, 1, 64), (33, 3, 100), (130, 4, 20)]
        .map(|(n_tokens, n_used, width)| {
            Case::new(format!("expert_sum/{n_tokens}x{n_used}x{width}"), 2e-6).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(n_used * width));
                let weights = b.input(Shape::tokens(n_used));
                let y = b.expert_sum(x, weights);
                b.output(y);
            })
        })
        .into()
}
