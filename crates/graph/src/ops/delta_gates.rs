//! `g[t][h] = a[h] * ln(1 + exp(alpha[t][h] + dt[h]))`, `beta[t][h] = 1 / (1 + exp(-b[t][h]))`
//!
//! Axes: `t` tokens, `h` value heads. `g` is the logarithm of a head's decay and not above 0,
//! because the file stores `a` as `-exp(A_log)`; `beta` is the part of the error that is learnt.
//! Source: Yang et al., "Gated Delta Networks", 2024.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};

impl Builder {
    /// `(g, beta)`, each as wide as `alpha` and `b`; `a` and `dt` have one element per head.
    pub const fn delta_gates(&mut self, alpha: ValueId, b: ValueId, a: WeightId, dt: WeightId) -> (ValueId, ValueId) {
        let shape = self.shape(alpha);
        self.check("delta_gates", "alpha and b must have the same width", shape.cols, self.shape(b).cols);
        self.check("delta_gates", "a must have one element per head", shape.cols, self.weight_shape(a)[0]);
        self.check("delta_gates", "dt must have one element per head", shape.cols, self.weight_shape(dt)[0]);
        let g = self.node(Op::DeltaGates, Operands::values(&[alpha, b]).weights(&[a, dt]), &[shape, shape]);
        (g, ValueId(g.0 + 1))
    }
}

pub(super) fn reference(io: &mut Io<'_>) {
    let (a, dt) = (io.weights[0], io.weights[1]);
    for (i, alpha) in io.inputs[0].iter().enumerate() {
        let head = i % a.len();
        let x = f64::from(*alpha) + f64::from(dt[head]);
        let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
        io.outputs[0][i] = (f64::from(a[head]) * softplus) as f32;
    }
    for (beta, b) in io.outputs[1].iter_mut().zip(io.inputs[1]) {
        *beta = (1.0 / (1.0 + (-f64::from(*b)).exp())) as f32;
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n_tokens, n_heads) in [(1, 16), (3, 6), (70, 32)] {
        for spread in [1.0, 30.0] {
            cases.push(
                Case::new(format!("delta_gates/{n_tokens}x{n_heads}/{spread}"), 2e-6)
                    .spread(spread)
                    .tokens(n_tokens)
                    .build(|b| {
                        let shape = crate::shape::Shape::tokens(n_heads);
                        let (alpha, beta) = (b.input(shape), b.input(shape));
                        let (a, dt) = (b.vector("ssm_a", n_heads), b.vector("ssm_dt.bias", n_heads));
                        let (g, beta) = b.delta_gates(alpha, beta, a, dt);
                        b.output(g);
                        b.output(beta);
                    }),
            );
        }
    }
    cases
}
