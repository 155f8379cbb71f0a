//! `y[t][s][o] = sum_i W[e][o][i] * x[t][s][i] (+ b[e][o])`, `e = ids[t][s]`
//!
//! Axes: `t` tokens, `s` chosen experts of a token, `i` inputs, `o` outputs. `x` has a part for
//! every slot, or one for all slots of a token (the first product of an expert). `W` is stored as
//! GGUF has it: expert by expert, each row by row in blocks of its type. Many tokens are best
//! sorted by expert, so that an expert's weights are read once; the result does not depend on it.

use crate::conformance::{Case, matrix_types};
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, Scope, ValueId, WeightClass, WeightDecl, WeightId};
use crate::shape::{Elem, Shape};

/// Matrix product with the matrices of the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertMatmul {
    /// Length of a weight row.
    pub n_in: u32,
    /// Rows of one expert.
    pub n_out: u32,
    /// Experts.
    pub n_experts: u32,
    /// Experts chosen per token.
    pub n_used: u32,
    /// Parts of a row of `x`: `n_used`, or 1 when all slots read the same.
    pub n_parts: u32,
}

impl Builder {
    /// Biases `[n, n_experts]` of the current layer, plain f32.
    pub const fn expert_biases(&mut self, name: &'static str, n: u32, n_experts: u32) -> WeightId {
        let shape = [n, n_experts, 1];
        self.weight(WeightDecl { name, scope: Scope::Layer, shape, class: WeightClass::Plain })
    }

    /// `[Tokens, n_used * n_out]`; `x` is `[Tokens, n_in]` or `[Tokens, n_used * n_in]`, `ids`
    /// `[Tokens, n_used]`, `w` `[n_in, n_out, n_experts]`, `bias` `[n_out, n_experts]`.
    pub const fn expert_matmul(&mut self, x: ValueId, ids: ValueId, w: WeightId, bias: Option<WeightId>) -> ValueId {
        let [n_in, n_out, n_experts] = self.weight_shape(w);
        let (shape, chosen) = (self.shape(x), self.shape(ids));
        let n_used = chosen.cols;
        let n_parts = if shape.cols == n_in { 1 } else { n_used };
        self.check("expert_matmul", "the experts must be named by integers", Elem::U32 as u32, chosen.elem as u32);
        self.check(
            "expert_matmul",
            "the weight's rows must be as long as the input",
            shape.cols,
            n_in.saturating_mul(n_parts),
        );
        let op = Op::ExpertMatmul(ExpertMatmul { n_in, n_out, n_experts, n_used, n_parts });
        let out = shape.with_cols(n_used.saturating_mul(n_out));
        match bias {
            Some(bias) => {
                let [n, n_biases, _] = self.weight_shape(bias);
                self.check("expert_matmul", "the bias must have one element per output", n_out, n);
                self.check("expert_matmul", "there must be one bias per expert", n_experts, n_biases);
                self.node(op, Operands::values(&[x, ids]).weights(&[w, bias]), &[out])
            }
            None => self.node(op, Operands::values(&[x, ids]).weights(&[w]), &[out]),
        }
    }
}

impl ExpertMatmul {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (n_in, n_out) = (self.n_in as usize, self.n_out as usize);
        let (n_used, n_parts) = (self.n_used as usize, self.n_parts as usize);
        for (slot, (y, id)) in io.outputs[0].chunks_exact_mut(n_out).zip(io.inputs[1]).enumerate() {
            let expert = id.to_bits() as usize;
            let part = if n_parts == 1 { slot / n_used } else { slot };
            let x = &io.inputs[0][part * n_in..][..n_in];
            let rows = io.weights[0][expert * n_in * n_out..].chunks_exact(n_in);
            for (o, (y, row)) in y.iter_mut().zip(rows).enumerate() {
                let sum: f64 = x.iter().zip(row).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                let bias = io.weights.get(1).map_or(0.0, |b| f64::from(b[expert * n_out + o]));
                *y = (sum + bias) as f32;
            }
        }
    }
}

/// What one case of the table varies.
#[derive(Clone, Copy)]
struct Sizes {
    n_tokens: u32,
    n_in: u32,
    n_out: u32,
    n_experts: u32,
    n_used: u32,
}

/// The first product of an expert reads the token, the second what the first gave each slot.
fn case(label: String, sizes: Sizes, biased: bool, dtype: zinc_gguf::DType, prepare: fn(&str, &mut [f32])) -> Case {
    let Sizes { n_tokens, n_in, n_out, n_experts, n_used } = sizes;
    Case::new(label, 1e-5).dtype(dtype).tokens(n_tokens).prepare(prepare).build(|b| {
        let x = b.input(Shape::tokens(n_in));
        let logits = b.input(Shape::tokens(n_experts));
        let parts = b.input(Shape::tokens(n_used * n_in));
        let (ids, _) = b.router(logits, n_used, None);
        let w = b.experts("w", n_in, n_out, n_experts);
        let bias = if biased { Some(b.expert_biases("b", n_out, n_experts)) } else { None };
        let of_token = b.expert_matmul(x, ids, w, bias);
        let of_slot = b.expert_matmul(parts, ids, w, bias);
        b.output(of_token);
        b.output(of_slot);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in matrix_types() {
        for (n_tokens, n_in, n_out, n_experts, n_used) in [(1, 256, 70, 8, 3), (5, 512, 33, 6, 2), (33, 256, 16, 5, 2)]
        {
            let sizes = Sizes { n_tokens, n_in, n_out, n_experts, n_used };
            let name = format!("expert_matmul/{dtype}/{n_tokens}x{n_in}x{n_out}/{n_experts}of{n_used}");
            cases.push(case(name, sizes, n_tokens % 3 == 2, dtype, |_, _| ()));
        }
    }
    // Logits that grow with the expert send all tokens to the last ones; nobody chooses the rest.
    let crowded = |name: &str, data: &mut [f32]| {
        if name == "input.1" {
            data.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 64) as f32);
        }
    };
    let sizes = Sizes { n_tokens: 66, n_in: 64, n_out: 20, n_experts: 64, n_used: 1 };
    for dtype in [zinc_gguf::DType::F32, zinc_gguf::DType::Q8_0, zinc_gguf::DType::MXFP4] {
        for (n_tokens, n_used) in [(66, 1), (40, 4), (1, 8)] {
            let name = format!("expert_matmul/{dtype}/crowded/{n_tokens}x{n_used}");
            cases.push(case(name, Sizes { n_tokens, n_used, ..sizes }, n_used == 4, dtype, crowded));
        }
        let name = format!("expert_matmul/{dtype}/all");
        cases.push(case(name, Sizes { n_tokens: 130, n_experts: 4, n_used: 4, ..sizes }, true, dtype, |_, _| ()));
    }
    // Rows of many blocks, which a backend may keep in another order.
    let sizes = Sizes { n_tokens: 2, n_in: 2048, n_out: 20, n_experts: 3, n_used: 2 };
    cases.push(case("expert_matmul/Q6_K/long".to_owned(), sizes, false, zinc_gguf::DType::Q6_K, |_, _| ()));
    cases
}
