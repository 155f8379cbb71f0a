//! Ops with a state per sequence: the short convolution and the gated delta rule.
//!
//! Formulas and layouts of the states are those of `zinc_graph::ops::{Conv1d, DeltaNet}`. Channels
//! and state rows are independent of each other, so each work item takes some of them through all
//! tokens of the step: a state row is read and written once, whatever the number of tokens, and
//! the result cannot depend on how a prompt was cut.

use zinc_graph::Batch;
use zinc_graph::ops::{CONV_TAPS_MAX, Conv1d, DeltaNet};

use crate::context::{Context, RowMut};

/// Channels of a convolution's work item.
const ITEM_CHANNELS: usize = 256;
/// State rows of a delta net's work item.
const ITEM_ROWS: usize = 32;
/// Sums run in that many lanes, so that every machine adds in one order.
const LANES: usize = 16;

/// The rows of sequence `seq` and the start of its slot in a state of `len` f32 a slot.
fn run(batch: &Batch, seq: usize, len: usize) -> (std::ops::Range<usize>, usize, bool) {
    let rows = batch.query_start[seq] as usize..batch.query_start[seq + 1] as usize;
    let fresh = rows.start < rows.end && batch.positions[rows.start] == 0;
    (rows, batch.state_slots[seq] as usize * len, fresh)
}

/// `y[t][c] = act(sum_j taps[c][j] u[c][t - K + 1 + j])`.
pub(crate) fn conv1d(
    ctx: &mut Context,
    op: Conv1d,
    batch: &Batch,
    x: &[f32],
    taps: &[f32],
    state: &mut [f32],
    y: &mut [f32],
) {
    let (n_channels, n_taps) = (op.n_channels as usize, op.n_taps as usize);
    let n_past = n_taps - 1;
    let blocks = n_channels.div_ceil(ITEM_CHANNELS);
    let (state, y) = (RowMut(state.as_mut_ptr()), RowMut(y.as_mut_ptr()));
    ctx.run(batch.n_seqs() * blocks, |_, item| {
        let (state, y) = (&state, &y);
        let (rows, slot, fresh) = run(batch, item / blocks, n_channels * n_past);
        if rows.is_empty() {
            return;
        }
        let first = item % blocks * ITEM_CHANNELS;
        for c in first..(first + ITEM_CHANNELS).min(n_channels) {
            // SAFETY: each item has its own channels of its sequence's slot, inside the state.
            let past = unsafe { std::slice::from_raw_parts_mut(state.0.add(slot + c * n_past), n_past) };
            let mut window = [0.0f32; CONV_TAPS_MAX as usize];
            if !fresh {
                window[..n_past].copy_from_slice(past);
            }
            let taps = &taps[c * n_taps..][..n_taps];
            for t in rows.clone() {
                window[n_past] = x[t * n_channels + c];
                let sum: f32 = taps.iter().zip(&window).map(|(w, u)| w * u).sum();
                let value = if op.silu { sum / (1.0 + (-sum).exp()) } else { sum };
                // SAFETY: each item has its own channels of its sequence's rows, inside `y`.
                unsafe { *y.0.add(t * n_channels + c) = value };
                window.copy_within(1..n_taps, 0);
            }
            past.copy_from_slice(&window[..n_past]);
        }
    });
}

/// What a delta net reads, each `[n_tokens][...]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaRows<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) g: &'a [f32],
    pub(crate) beta: &'a [f32],
}

/// The gated delta rule over the rows of each sequence; `y` is `[n_tokens][n_v_heads * v_dim]`.
pub(crate) fn delta_net(
    ctx: &mut Context,
    op: DeltaNet,
    batch: &Batch,
    x: DeltaRows<'_>,
    state: &mut [f32],
    y: &mut [f32],
) {
    let (n_heads, v_dim, k_dim) = (op.n_v_heads as usize, op.v_dim as usize, op.k_dim as usize);
    let blocks = v_dim.div_ceil(ITEM_ROWS);
    let decay: Vec<f32> = x.g.iter().map(|g| g.exp()).collect();
    let (state, y) = (RowMut(state.as_mut_ptr()), RowMut(y.as_mut_ptr()));
    ctx.run(batch.n_seqs() * n_heads * blocks, |_, item| {
        let (state, y) = (&state, &y);
        let (rows, slot, fresh) = run(batch, item / (n_heads * blocks), op.state_len() as usize);
        let (head, block) = (item / blocks % n_heads, item % blocks);
        let key_head = head % op.n_k_heads as usize;
        for b in block * ITEM_ROWS..((block + 1) * ITEM_ROWS).min(v_dim) {
            // SAFETY: each item has its own rows of its sequence's slot, inside the state.
            let row = unsafe { std::slice::from_raw_parts_mut(state.0.add(slot + (head * v_dim + b) * k_dim), k_dim) };
            if fresh {
                row.fill(0.0);
            }
            for t in rows.clone() {
                let at = (t * op.n_k_heads as usize + key_head) * k_dim;
                let (k, q) = (&x.k[at..at + k_dim], &x.q[at..at + k_dim]);
                let column = (t * n_heads + head) * v_dim + b;
                let h = t * n_heads + head;
                let predicted = decay_and_dot(row, decay[h], k);
                let error = x.beta[h] * (x.v[column] - predicted);
                let out = learn_and_dot(row, error, k, q);
                // SAFETY: each item has its own columns of its sequence's rows, inside `y`.
                unsafe { *y.0.add(column) = out };
            }
        }
    });
}

/// `s *= decay`, and the sum of `s k`.
fn decay_and_dot(s: &mut [f32], decay: f32, k: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let mut tail = 0.0;
    let whole = s.len() / LANES * LANES;
    for (s, k) in s[..whole].chunks_exact_mut(LANES).zip(k.chunks_exact(LANES)) {
        for ((s, k), sum) in s.iter_mut().zip(k).zip(&mut sums) {
            *s *= decay;
            *sum += *s * k;
        }
    }
    for (s, k) in s[whole..].iter_mut().zip(&k[whole..]) {
        *s *= decay;
        tail += *s * k;
    }
    total(sums) + tail
}

/// `s += error k`, and the sum of `s q`.
fn learn_and_dot(s: &mut [f32], error: f32, k: &[f32], q: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let mut tail = 0.0;
    let whole = s.len() / LANES * LANES;
    for ((s, k), q) in s[..whole].chunks_exact_mut(LANES).zip(k.chunks_exact(LANES)).zip(q.chunks_exact(LANES)) {
        for (((s, k), q), sum) in s.iter_mut().zip(k).zip(q).zip(&mut sums) {
            *s += error * k;
            *sum += *s * q;
        }
    }
    for ((s, k), q) in s[whole..].iter_mut().zip(&k[whole..]).zip(&q[whole..]) {
        *s += error * k;
        tail += *s * q;
    }
    total(sums) + tail
}

/// The lanes, added in halves.
fn total(mut sums: [f32; LANES]) -> f32 {
    let mut n = LANES / 2;
    while n > 0 {
        for i in 0..n {
            sums[i] += sums[i + n];
        }
        n /= 2;
    }
    sums[0]
}

/// `(g, beta)` of each head: `g = a ln(1 + exp(alpha + dt))`, `beta = sigmoid(b)`.
pub(crate) fn delta_gates(alpha: &[f32], b: &[f32], a: &[f32], dt: &[f32], g: &mut [f32], beta: &mut [f32]) {
    let n_heads = a.len();
    for (i, (g, alpha)) in g.iter_mut().zip(alpha).enumerate() {
        let x = alpha + dt[i % n_heads];
        let softplus = if x > 20.0 { x } else { x.exp().ln_1p() };
        *g = a[i % n_heads] * softplus;
    }
    for (beta, b) in beta.iter_mut().zip(b) {
        *beta = 1.0 / (1.0 + (-b).exp());
    }
}

/// `y = scale x / sqrt(sum x^2 + eps)` over groups of `width`.
#[expect(clippy::cast_possible_truncation, reason = "the sum is taken in f64, the result rounded once")]
pub(crate) fn l2_norm(x: &[f32], width: usize, eps: f32, scale: f32, y: &mut [f32]) {
    for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
        let sum: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let factor = f64::from(scale) / (sum + f64::from(eps)).sqrt();
        for (y, x) in y.iter_mut().zip(x) {
            *y = (f64::from(*x) * factor) as f32;
        }
    }
}
