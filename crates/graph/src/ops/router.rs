//! `ids[t] = the k largest of l[t]`, `weights[t][s] = scale[e] * exp(l[t][e]) / sum_{r<k} exp(l[t][ids[t][r]])`, `e = ids[t][s]`
//!
//! Axes: `t` tokens, `e` experts, `s` slots of a token, the largest logit first. Of equal logits
//! the lower expert comes first. A softmax over the chosen logits is the softmax over all of them
//! renormalised over the chosen, so both kinds of router are this op. Whatever the logits, the ids
//! of a token are distinct and below the number of experts and the weights are finite: infinities
//! count as the largest finite values, NaN as the smallest. `scale` is optional, one per expert.
//! Source: Shazeer et al., "Outrageously Large Neural Networks", 2017.

use std::cmp::Ordering;

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::{Elem, Shape};

/// Most experts of a layer.
pub const EXPERTS_MAX: u32 = 1024;
/// Most experts chosen for a token.
pub const EXPERTS_USED_MAX: u32 = 32;

/// Chooses experts and weighs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Experts, 1 to [`EXPERTS_MAX`].
    pub n_experts: u32,
    /// Experts chosen per token, 1 to [`EXPERTS_USED_MAX`] and to `n_experts`.
    pub n_used: u32,
}

impl Builder {
    /// `(ids, weights)`, each `[Tokens, n_used]`, of logits `[Tokens, n_experts]`; `scale` is
    /// `[n_experts]`.
    pub const fn router(&mut self, logits: ValueId, n_used: u32, scale: Option<WeightId>) -> (ValueId, ValueId) {
        let shape = self.shape(logits);
        let n_experts = shape.cols;
        if n_experts > EXPERTS_MAX {
            self.fail("router", "a layer has at most 1024 experts", EXPERTS_MAX, n_experts);
        }
        if n_used == 0 || n_used > EXPERTS_USED_MAX || n_used > n_experts {
            self.fail("router", "the chosen must be 1 to 32 and not more than there are", n_experts, n_used);
        }
        let op = Op::Router(Router { n_experts, n_used });
        let weights = shape.with_cols(n_used);
        let outputs = [Shape { elem: Elem::U32, ..weights }, weights];
        let ids = match scale {
            Some(scale) => {
                self.check("router", "there must be one scale per expert", n_experts, self.weight_shape(scale)[0]);
                self.node(op, Operands::values(&[logits]).weights(&[scale]), &outputs)
            }
            None => self.node(op, Operands::values(&[logits]), &outputs),
        };
        (ids, ValueId(ids.0 + 1))
    }
}

impl Router {
    /// The order of the experts that both the choice and its ties follow.
    #[must_use]
    pub fn rank(logit: f32) -> f32 {
        if logit.is_nan() { f32::MIN } else { logit.clamp(f32::MIN, f32::MAX) }
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (n_experts, n_used) = (self.n_experts as usize, self.n_used as usize);
        for (t, logits) in io.inputs[0].chunks_exact(n_experts).enumerate() {
            let logits: Vec<f32> = logits.iter().map(|&l| Router::rank(l)).collect();
            let mut order: Vec<usize> = (0..n_experts).collect();
            order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b)));
            let chosen = &order[..n_used];
            let shifted = |e: usize| (f64::from(logits[e]) - f64::from(logits[chosen[0]])).exp();
            let sum: f64 = chosen.iter().map(|&e| shifted(e)).sum();
            for (s, &e) in chosen.iter().enumerate() {
                let scale = io.weights.first().map_or(1.0, |scale| f64::from(scale[e]));
                io.outputs[0][t * n_used + s] = f32::from_bits(e as u32);
                io.outputs[1][t * n_used + s] = (shifted(e) / sum * scale) as f32;
            }
        }
    }
}

fn case(
    name: &str,
    (n_tokens, n_experts, n_used): (u32, u32, u32),
    scaled: bool,
    prepare: fn(&str, &mut [f32]),
) -> Case {
    let label = format!("router/{name}/{n_tokens}x{n_experts}of{n_used}");
    Case::new(label, 2e-6).tokens(n_tokens).prepare(prepare).build(|b| {
        let logits = b.input(Shape::tokens(n_experts));
        let scale = if scaled { Some(b.vector("scale", n_experts)) } else { None };
        let (ids, weights) = b.router(logits, n_used, scale);
        b.output(ids);
        b.output(weights);
    })
}

pub(super) fn cases() -> Vec<Case> {
    let sizes = [(1, 256, 8), (3, 8, 3), (7, 5, 2), (33, 128, 8), (2, 1, 1), (4, 32, 32), (5, 1000, 4), (130, 6, 2)];
    let mut cases = Vec::new();
    for size in sizes {
        cases.push(case("plain", size, false, |_, _| ()));
        cases.push(case("scaled", size, true, |_, _| ()));
    }
    // Three logits in all, and both zeros: nearly every choice is a tie.
    let ties = |name: &str, data: &mut [f32]| {
        if name.starts_with("input") {
            data.iter_mut().for_each(|x| *x = if x.abs() < 0.2 { -0.0 } else { x.round().clamp(-1.0, 1.0) });
        }
    };
    let not_finite = |name: &str, data: &mut [f32]| {
        if name.starts_with("input") {
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN];
            data.iter_mut().enumerate().filter(|(i, _)| i % 3 != 1).for_each(|(i, x)| *x = special[i % 4]);
        }
    };
    let all_nan = |name: &str, data: &mut [f32]| {
        if name.starts_with("input") {
            data.fill(f32::NAN);
        }
    };
    for size in [(9, 64, 8), (3, 256, 8), (5, 7, 7)] {
        cases.push(case("ties", size, false, ties));
        cases.push(case("not_finite", size, false, not_finite));
        cases.push(case("all_nan", size, false, all_nan));
    }
    cases
}
