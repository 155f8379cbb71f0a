//! Choosing experts and combining what they give: the ops around the expert products.

use std::cmp::Ordering;

use zinc_graph::ops::Router;

use crate::context::Context;
use crate::rows::for_rows;

/// Ids (as bits) and weights of the chosen experts of each row of logits, both `[n][n_used]`.
/// The choice is that of `zinc_graph::ops::Router`: equal logits go to the lower expert.
pub(crate) fn router(op: Router, logits: &[f32], scale: Option<&[f32]>, ids: &mut [f32], weights: &mut [f32]) {
    let (n_experts, n_used) = (op.n_experts as usize, op.n_used as usize);
    let mut order: Vec<u32> = Vec::with_capacity(n_experts);
    for ((logits, ids), weights) in
        logits.chunks_exact(n_experts).zip(ids.chunks_exact_mut(n_used)).zip(weights.chunks_exact_mut(n_used))
    {
        let rank = |e: u32| Router::rank(logits[e as usize]);
        let better = |a: &u32, b: &u32| rank(*b).partial_cmp(&rank(*a)).unwrap_or(Ordering::Equal).then(a.cmp(b));
        order.clear();
        order.extend(0..op.n_experts);
        if n_used < n_experts {
            order.select_nth_unstable_by(n_used, better);
        }
        let chosen = &mut order[..n_used];
        chosen.sort_unstable_by(better);
        let most = rank(chosen[0]);
        let sum: f32 = chosen.iter().map(|&e| (rank(e) - most).exp()).sum();
        for ((id, weight), &e) in ids.iter_mut().zip(weights).zip(&*chosen) {
            *id = f32::from_bits(e);
            *weight = (rank(e) - most).exp() / sum * scale.map_or(1.0, |s| s[e as usize]);
        }
    }
}

/// `y[t][i] = sum_s weights[t][s] x[t][s][i]`, `x` `[n][n_used][cols]`.
pub(crate) fn expert_sum(ctx: &mut Context, x: &[f32], weights: &[f32], n_used: usize, cols: usize, y: &mut [f32]) {
    for_rows(ctx, y, cols, |t, y| {
        y.fill(0.0);
        for (x, w) in x[t * n_used * cols..].chunks_exact(cols).zip(&weights[t * n_used..][..n_used]) {
            for (y, x) in y.iter_mut().zip(x) {
                *y += w * x;
            }
        }
    });
}

/// `y[t][i] = x[t][i] sigmoid(gate[t])`.
pub(crate) fn gate_rows(ctx: &mut Context, x: &[f32], gate: &[f32], cols: usize, y: &mut [f32]) {
    for_rows(ctx, y, cols, |t, y| {
        let share = 1.0 / (1.0 + (-gate[t]).exp());
        for (y, x) in y.iter_mut().zip(&x[t * cols..]) {
            *y = x * share;
        }
    });
}
