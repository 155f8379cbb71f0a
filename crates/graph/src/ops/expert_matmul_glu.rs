//! `y[t][s] = act(G[e] x) * (U[e] x)`, `e = ids[t][s]`, fused: two `expert_matmul`s of one input and `glu`, or one whose matrices
//! hold gate's rows and then up's; with or without `rms_norm` of the whole row before
//!
//! Axes: as in its parts. Biases are added before the activation.

use zinc_gguf::DType;

use crate::conformance::{Case, matrix_types};
use crate::ops::norm_matmul::normed;
use crate::ops::{Activation, ExpertMatmul, Glu, Io, Op, RmsNorm, Slice};
use crate::section::WeightId;
use crate::shape::Shape;

/// The gated product of the chosen experts. Inputs: `x`, ids. Weights: the norm's if there is one, gate's and up's matrices, then
/// perhaps their biases; one of each if they are stacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertMatmulGlu {
    /// The norm of `x`, over the whole row.
    pub norm: Option<RmsNorm>,
    /// Either product; `n_out` counts the rows of gate alone.
    pub product: ExpertMatmul,
    /// The gate's function.
    pub glu: Glu,
    /// Gate and up are one weight, gate's rows first in each expert.
    pub stacked: bool,
}

impl ExpertMatmulGlu {
    /// Its weights without the norm's.
    #[must_use]
    pub fn product_weights(self, weights: &[WeightId]) -> &[WeightId] {
        &weights[usize::from(self.norm.is_some())..]
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        if let Some(norm) = self.norm {
            return normed(norm, io, |io| ExpertMatmulGlu { norm: None, ..self }.reference(io));
        }
        let (batch, rows) = (io.batch, io.rows);
        let made = |op: Op, inputs: &[&[f32]], weights: &[&[f32]], n: usize| -> Vec<f32> {
            let mut y = vec![vec![0.0; n]];
            op.reference(&mut Io { inputs, weights, outputs: &mut y, batch, resource: None, rows });
            y.swap_remove(0)
        };
        let n = io.outputs[0].len();
        let (gate, up) = if self.stacked {
            let width = self.product.n_out;
            let both = ExpertMatmul { n_out: 2 * width, ..self.product };
            let both = made(Op::ExpertMatmul(both), io.inputs, io.weights, 2 * n);
            let half = |offset| Slice { width_in: 2 * width, width, offset, offset_per_layer: 0 };
            (made(Op::Slice(half(0)), &[&both], &[], n), made(Op::Slice(half(width)), &[&both], &[], n))
        } else {
            let of = |i: usize| -> Vec<&[f32]> { io.weights.iter().skip(i).step_by(2).copied().collect() };
            let op = Op::ExpertMatmul(self.product);
            (made(op, io.inputs, &of(0), n), made(op, io.inputs, &of(1), n))
        };
        let inputs = [gate.as_slice(), up.as_slice()];
        self.glu.reference(&mut Io { inputs: &inputs, weights: &[], outputs: io.outputs, batch, resource: None, rows });
    }
}

const CLAMPED: Activation = Activation::Clamped { alpha: 1.702, limit: 7.0 };

/// What one case of the table varies.
#[derive(Clone, Copy)]
struct Form {
    n_tokens: u32,
    stacked: bool,
    biased: bool,
    normed: bool,
    activation: Activation,
}

/// The parts, which a backend that has the fusion fuses itself.
fn case(dtype: DType, (n_in, n_out): (u32, u32), form: Form) -> Case {
    let Form { n_tokens, stacked, biased, normed, activation } = form;
    let layout = if stacked { "stacked" } else { "apart" };
    let bias = if biased { "/biased" } else { "" };
    let norm = if normed { "/normed" } else { "" };
    let name = format!("expert_matmul_glu/{dtype}/{n_tokens}x{n_in}x{n_out}/{layout}{bias}{norm}");
    Case::new(name, 2e-5).dtype(dtype).tokens(n_tokens).build(|b| {
        let mut x = b.input(Shape::tokens(n_in));
        if normed {
            let w = b.vector("norm", n_in);
            x = b.rms_norm(x, w, 1e-5);
        }
        let logits = b.input(Shape::tokens(6));
        let (ids, _) = b.router(logits, 3, None);
        let mut product = |name, bias, n| {
            let w = b.experts(name, n_in, n, 6);
            let bias = if biased { Some(b.expert_biases(bias, n, 6)) } else { None };
            b.expert_matmul(x, ids, w, bias)
        };
        let (gate, up) = if stacked {
            let both = product("gate_up", "gate_up.bias", 2 * n_out);
            (b.slice_groups(both, 2 * n_out, 0, n_out), b.slice_groups(both, 2 * n_out, n_out, n_out))
        } else {
            (product("gate", "gate.bias", n_out), product("up", "up.bias", n_out))
        };
        let y = b.glu(gate, up, activation);
        b.output(y);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let plain = Form { n_tokens: 3, stacked: true, biased: false, normed: false, activation: Activation::Silu };
    let biased = Form { biased: true, activation: CLAMPED, ..plain };
    let mut cases: Vec<Case> = matrix_types().into_iter().map(|dtype| case(dtype, (256, 35), plain)).collect();
    for dtype in [DType::F32, DType::Q4_K, DType::MXFP4] {
        let apart = Form { stacked: false, ..plain };
        for form in [Form { n_tokens: 1, ..apart }, Form { n_tokens: 5, ..biased }, Form { stacked: false, ..biased }] {
            cases.push(case(dtype, (256, 70), form));
        }
    }
    for dtype in [DType::F32, DType::Q4_K, DType::Q8_0] {
        for (n_tokens, stacked) in [(1, false), (3, true), (5, false)] {
            cases.push(case(dtype, (512, 70), Form { n_tokens, stacked, normed: true, ..plain }));
        }
    }
    cases.push(case(DType::Q4_K, (512, 70), Form { normed: true, ..biased }));
    // More tokens than are done one by one; few columns; more columns than are brought at a time.
    for (sizes, n_tokens) in [((256, 20), 40), ((64, 20), 2), ((4096, 33), 2)] {
        for form in [plain, Form { stacked: false, activation: Activation::GeluTanh, ..plain }] {
            cases.push(case(DType::F32, sizes, Form { n_tokens, ..form }));
        }
    }
    cases
}
