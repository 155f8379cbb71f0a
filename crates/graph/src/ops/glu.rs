//! `y[t][i] = act(gate[t][i]) * up[t][i]`
//!
//! Axes: `t` rows, `i` columns. `act` is one of [`Activation`]; `Clamped` also clamps and shifts
//! `up`. Fused: `matmul_glu` reads one input and the two matrices that make gate and up.
//! Source: Shazeer, "GLU Variants Improve Transformer", 2020; gpt-oss's model card for `Clamped`.

use crate::conformance::{Case, matrix_types};
use crate::ops::{Io, Matmul, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// The function applied to the gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `sigmoid(x)`.
    Sigmoid,
    /// `g = min(x, limit); u = clamp(up, -limit, limit); g * sigmoid(alpha g) * (u + 1)`.
    Clamped {
        /// Steepness of the sigmoid.
        alpha: f32,
        /// Bound of both sides.
        limit: f32,
    },
}

impl Activation {
    /// `act(gate) * up` in f64.
    #[must_use]
    pub fn gated(self, gate: f64, up: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match self {
            Activation::Silu => gate * sigmoid(gate) * up,
            Activation::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
                0.5 * gate * (1.0 + inner.tanh()) * up
            }
            Activation::Sigmoid => sigmoid(gate) * up,
            Activation::Clamped { alpha, limit } => {
                let (alpha, limit) = (f64::from(alpha), f64::from(limit));
                let (gate, up) = (gate.min(limit), up.clamp(-limit, limit));
                gate * sigmoid(alpha * gate) * (up + 1.0)
            }
        }
    }
}

/// Gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glu {
    /// The function of the gate.
    pub activation: Activation,
}

impl Builder {
    /// `act(gate) * up`, both of one shape.
    pub const fn glu(&mut self, gate: ValueId, up: ValueId, activation: Activation) -> ValueId {
        let shape = self.shape(gate);
        self.check("glu", "gate and up must have the same width", shape.cols, self.shape(up).cols);
        self.node(Op::Glu(Glu { activation }), Operands::values(&[gate, up]), &[shape])
    }

    /// Fused `act(G x) * (U x)`.
    pub const fn matmul_glu(&mut self, x: ValueId, gate: WeightId, up: WeightId, activation: Activation) -> ValueId {
        let (g, u) = (self.weight_shape(gate), self.weight_shape(up));
        let shape = self.shape(x);
        self.check("matmul_glu", "the weight's rows must be as long as the input", shape.cols, g[0]);
        self.check("matmul_glu", "gate and up must have the same inputs", g[0], u[0]);
        self.check("matmul_glu", "gate and up must have the same outputs", g[1], u[1]);
        let op = Op::MatmulGlu(Glu { activation });
        self.node(op, Operands::values(&[x]).weights(&[gate, up]), &[shape.with_cols(g[1])])
    }
}

impl Glu {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        self.combine(io.inputs[0], io.inputs[1], &mut io.outputs[0]);
    }

    pub(super) fn reference_of_matmuls(self, io: &mut Io<'_>) {
        let n_in = io.cols(0);
        let n_out = io.weights[0].len() / n_in;
        let matmul = Matmul { n_in: n_in as u32, n_out: n_out as u32 };
        let mut gate = vec![0.0; io.rows * n_out];
        let mut up = gate.clone();
        matmul.multiply(io.inputs[0], io.weights[0], None, &mut gate);
        matmul.multiply(io.inputs[0], io.weights[1], None, &mut up);
        self.combine(&gate, &up, &mut io.outputs[0]);
    }

    fn combine(self, gate: &[f32], up: &[f32], y: &mut [f32]) {
        for (y, (g, u)) in y.iter_mut().zip(gate.iter().zip(up)) {
            *y = self.activation.gated(f64::from(*g), f64::from(*u)) as f32;
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let activations = [
        ("silu", Activation::Silu),
        ("gelu", Activation::GeluTanh),
        ("sigmoid", Activation::Sigmoid),
        ("clamped", Activation::Clamped { alpha: 1.702, limit: 7.0 }),
    ];
    for (name, activation) in activations {
        for (n_tokens, width, spread) in [(1, 64, 1.0), (3, 577, 8.0), (33, 100, 40.0)] {
            cases.push(
                Case::new(format!("glu/{name}/{n_tokens}x{width}"), 2e-6).spread(spread).tokens(n_tokens).build(|b| {
                    let gate = b.input(Shape::tokens(width));
                    let up = b.input(Shape::tokens(width));
                    let y = b.glu(gate, up, activation);
                    b.output(y);
                }),
            );
        }
    }
    for dtype in matrix_types() {
        for n_tokens in [1, 5, 34] {
            cases.push(Case::new(format!("matmul_glu/{dtype}/{n_tokens}"), 2e-5).dtype(dtype).tokens(n_tokens).build(
                |b| {
                    let x = b.input(Shape::tokens(256));
                    let gate = b.matrix("gate", 256, 70);
                    let up = b.matrix("up", 256, 70);
                    let y = b.matmul_glu(x, gate, up, Activation::Silu);
                    b.output(y);
                },
            ));
        }
    }
    cases
}
