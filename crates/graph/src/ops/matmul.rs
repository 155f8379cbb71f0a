//! `y[t][o] = sum_k W[o][k] * x[t][k] (+ b[o])`
//!
//! Axes: `t` rows, `k` inputs, `o` outputs. `W` is stored as GGUF has it: row `o` holds `n_in`
//! weights in blocks of its type. Fused: `matmul_add` adds a residual `r[t][o]`.

use zinc_gguf::DType;

use crate::conformance::{Case, matrix_types};
use crate::ops::{Activation, Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// Matrix product with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matmul {
    /// Length of a weight row.
    pub n_in: u32,
    /// Number of weight rows.
    pub n_out: u32,
}

impl Builder {
    /// `W x`: `[rows, n_out]`.
    pub const fn matmul(&mut self, x: ValueId, w: WeightId) -> ValueId {
        let (op, shape) = self.matmul_rule(x, w);
        self.node(Op::Matmul(op), Operands::values(&[x]).weights(&[w]), &[shape])
    }

    /// `W x + b`: `[rows, n_out]`.
    pub const fn matmul_bias(&mut self, x: ValueId, w: WeightId, bias: WeightId) -> ValueId {
        let (op, shape) = self.matmul_rule(x, w);
        let n = self.weight_shape(bias)[0];
        self.check("matmul", "the bias must have one element per output", op.n_out, n);
        self.node(Op::Matmul(op), Operands::values(&[x]).weights(&[w, bias]), &[shape])
    }

    /// Fused `r + W x`.
    pub const fn matmul_add(&mut self, x: ValueId, w: WeightId, r: ValueId) -> ValueId {
        let (op, shape) = self.matmul_rule(x, w);
        self.check("matmul_add", "the residual must be as wide as the output", op.n_out, self.shape(r).cols);
        self.node(Op::MatmulAdd(op), Operands::values(&[x, r]).weights(&[w]), &[shape])
    }

    const fn matmul_rule(&mut self, x: ValueId, w: WeightId) -> (Matmul, Shape) {
        let [n_in, n_out, _] = self.weight_shape(w);
        let shape = self.shape(x);
        self.check("matmul", "the weight's rows must be as long as the input", shape.cols, n_in);
        (Matmul { n_in, n_out }, shape.with_cols(n_out))
    }
}

impl Matmul {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let bias = io.weights.get(1).copied();
        self.multiply(io.inputs[0], io.weights[0], bias, &mut io.outputs[0]);
    }

    pub(super) fn reference_then_add(self, io: &mut Io<'_>) {
        self.reference(io);
        for (y, r) in io.outputs[0].iter_mut().zip(io.inputs[1]) {
            *y += r;
        }
    }

    pub(super) fn multiply(self, x: &[f32], w: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let (n_in, n_out) = (self.n_in as usize, self.n_out as usize);
        for (x, y) in x.chunks_exact(n_in).zip(y.chunks_exact_mut(n_out)) {
            for (o, y) in y.iter_mut().enumerate() {
                let row = &w[o * n_in..][..n_in];
                let sum: f64 = x.iter().zip(row).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                *y = (sum + bias.map_or(0.0, |b| f64::from(b[o]))) as f32;
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in matrix_types() {
        for (n_tokens, n_in, n_out) in [
            (1, 512, 70),
            (2, 256, 33),
            (5, 768, 64),
            (8, 256, 9),
            (9, 256, 65),
            (17, 256, 128),
            (33, 512, 48),
            (65, 256, 31),
        ] {
            let name = format!("matmul/{dtype}/{n_tokens}x{n_in}x{n_out}");
            cases.push(Case::new(name, 1e-5).dtype(dtype).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(n_in));
                let w = b.matrix("w", n_in, n_out);
                let y = if n_tokens % 2 == 0 {
                    b.matmul(x, w)
                } else {
                    let bias = b.vector("b", n_out);
                    b.matmul_bias(x, w, bias)
                };
                b.output(y);
            }));
        }
        for n_tokens in [1, 6, 40] {
            let name = format!("matmul_add/{dtype}/{n_tokens}");
            cases.push(Case::new(name, 1e-5).dtype(dtype).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(256));
                let r = b.input(Shape::tokens(36));
                let w = b.matrix("w", 256, 36);
                let y = b.matmul_add(x, w, r);
                b.output(y);
            }));
        }
    }
    cases.extend(long_rows());
    // What a backend keeps between the ops in a form of its own must give the same numbers.
    for dtype in [DType::F16, DType::Q4_K, DType::Q6_K] {
        for n_tokens in [3, 20, 70] {
            cases.push(
                Case::new(format!("matmul/block/{dtype}/{n_tokens}"), 5e-5).dtype(dtype).tokens(n_tokens).build(|b| {
                    let x = b.input(Shape::tokens(256));
                    let norm = b.vector("norm", 256);
                    let y = b.rms_norm(x, norm, 1e-6);
                    let (gate, up) = (b.matrix("gate", 256, 512), b.matrix("up", 256, 512));
                    let (g, u) = (b.matmul(y, gate), b.matmul(y, up));
                    let h = b.glu(g, u, Activation::Silu);
                    let down = b.matrix("down", 512, 256);
                    let d = b.matmul(h, down);
                    let sum = b.add(x, d);
                    let last = b.vector("last", 256);
                    let z = b.rms_norm(sum, last, 1e-6);
                    let head = b.matrix("head", 256, 96);
                    let logits = b.matmul(z, head);
                    b.output(logits);
                }),
            );
        }
    }
    cases.extend(layers());
    cases
}

/// Layers one behind the other: a backend may let the ops of a short step follow each other without waiting for the whole device.
fn layers() -> Vec<Case> {
    let mut cases = Vec::new();
    for n_tokens in [1, 2, 5, 8] {
        let name = format!("matmul/layers/Q4_K/{n_tokens}");
        cases.push(Case::new(name, 1e-4).dtype(DType::Q4_K).tokens(n_tokens).build(|b| {
            let mut x = b.input(Shape::tokens(256));
            for [norm, gate, up, down] in LAYERS {
                let norm = b.vector(norm, 256);
                let y = b.rms_norm(x, norm, 1e-6);
                let (gate, up, down) = (b.matrix(gate, 256, 512), b.matrix(up, 256, 512), b.matrix(down, 512, 256));
                let (g, u) = (b.matmul(y, gate), b.matmul(y, up));
                let h = b.glu(g, u, Activation::Silu);
                let d = b.matmul(h, down);
                x = b.add(x, d);
            }
            b.output(x);
        }));
    }
    cases
}

/// Norm, gate, up and down of layers one behind the other.
const LAYERS: [[&str; 4]; 4] = [
    ["norm 0", "gate 0", "up 0", "down 0"],
    ["norm 1", "gate 1", "up 1", "down 1"],
    ["norm 2", "gate 2", "up 2", "down 2"],
    ["norm 3", "gate 3", "up 3", "down 3"],
];

/// Long rows and few of them: a backend may cut the sums into slices.
fn long_rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for n_tokens in [7, 16, 20] {
        let case = |op: &str| Case::new(format!("{op}/Q4_K/long/{n_tokens}"), 1e-5).dtype(DType::Q4_K).tokens(n_tokens);
        cases.push(case("matmul").build(|b| {
            let x = b.input(Shape::tokens(2048));
            let (w, bias) = (b.matrix("w", 2048, 84), b.vector("b", 84));
            let y = b.matmul_bias(x, w, bias);
            b.output(y);
        }));
        cases.push(case("matmul_glu").build(|b| {
            let x = b.input(Shape::tokens(2048));
            let (gate, up) = (b.matrix("gate", 2048, 40), b.matrix("up", 2048, 40));
            let y = b.matmul_glu(x, gate, up, Activation::Silu);
            b.output(y);
        }));
        cases.push(case("matmul_add").build(|b| {
            let (x, r) = (b.input(Shape::tokens(2048)), b.input(Shape::tokens(84)));
            let w = b.matrix("w", 2048, 84);
            let y = b.matmul_add(x, w, r);
            b.output(y);
        }));
    }
    // One token and several turns of a row, for kernels that go along rows of blocks.
    for dtype in [DType::Q4_K, DType::Q6_K] {
        cases.push(Case::new(format!("matmul/{dtype}/1x1024x40"), 1e-5).dtype(dtype).tokens(1).build(|b| {
            let x = b.input(Shape::tokens(1024));
            let (w, bias) = (b.matrix("w", 1024, 40), b.vector("b", 40));
            let y = b.matmul_bias(x, w, bias);
            b.output(y);
        }));
    }
    // Rows of many blocks, which a backend may keep in another order.
    for (n_tokens, n_in) in [(1, 4096), (3, 6144), (20, 2048)] {
        let case = |op: &str| Case::new(format!("{op}/Q6_K/long/{n_tokens}"), 1e-5).dtype(DType::Q6_K).tokens(n_tokens);
        cases.push(case("matmul").build(|b| {
            let x = b.input(Shape::tokens(n_in));
            let w = b.matrix("w", n_in, 35);
            let y = b.matmul(x, w);
            b.output(y);
        }));
        cases.push(case("matmul_glu").build(|b| {
            let x = b.input(Shape::tokens(n_in));
            let (gate, up) = (b.matrix("gate", n_in, 20), b.matrix("up", n_in, 20));
            let y = b.matmul_glu(x, gate, up, Activation::Silu);
            b.output(y);
        }));
    }
    cases
}
