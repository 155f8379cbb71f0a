//! Ops that touch each element once, table look-up and argmax.
//!
//! Sums and products are plain loops on the caller's thread: they are bound by the first-level
//! cache, and an element is one IEEE operation on any processor.

use crate::activation::Activation;
use crate::context::{Context, RowMut};
use crate::matmul::Matrix;

/// Elements of a work item of the ops that compute an exponential.
const ITEM_LEN: usize = 16 * 1024;

/// `y[i] = a[i] + b[i]`.
///
/// # Panics
/// The lengths differ.
pub fn add(a: &[f32], b: &[f32], y: &mut [f32]) {
    assert!(a.len() == b.len() && y.len() == a.len(), "all values have one shape");
    for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
        *y = a + b;
    }
}

/// `y[i] = a[i] * b[i]`.
///
/// # Panics
/// The lengths differ.
pub fn mul(a: &[f32], b: &[f32], y: &mut [f32]) {
    assert!(a.len() == b.len() && y.len() == a.len(), "all values have one shape");
    for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
        *y = a * b;
    }
}

/// `y[i] = factor * x[i]`.
///
/// # Panics
/// The lengths differ.
pub fn scale(factor: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "x and y have one shape");
    for (y, x) in y.iter_mut().zip(x) {
        *y = factor * x;
    }
}

/// `y[i] = act(gate[i]) * up[i]`.
///
/// # Panics
/// The lengths differ.
pub fn glu(ctx: &mut Context, activation: Activation, gate: &[f32], up: &[f32], y: &mut [f32]) {
    assert!(gate.len() == up.len() && y.len() == gate.len(), "all values have one shape");
    let glu = ctx.kernels().glu;
    let (y, len) = (RowMut(y.as_mut_ptr()), y.len());
    ctx.pool.run(len.div_ceil(ITEM_LEN), |_, item| {
        let (y, part) = (&y, part(item, len));
        // SAFETY: each item has its own part of `y`; the processor has the kernel.
        unsafe {
            let y = std::slice::from_raw_parts_mut(y.0.add(part.start), part.len());
            glu(activation, &gate[part.clone()], &up[part], y);
        }
    });
}

/// `y[i] = cap * tanh(x[i] / cap)`.
///
/// # Panics
/// The lengths differ.
pub fn softcap(ctx: &mut Context, cap: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "x and y have one shape");
    let softcap = ctx.kernels().softcap;
    let (y, len) = (RowMut(y.as_mut_ptr()), y.len());
    ctx.pool.run(len.div_ceil(ITEM_LEN), |_, item| {
        let (y, part) = (&y, part(item, len));
        // SAFETY: each item has its own part of `y`; the processor has the kernel.
        unsafe {
            let y = std::slice::from_raw_parts_mut(y.0.add(part.start), part.len());
            softcap(cap, &x[part], y);
        }
    });
}

/// `y[t] = factor * W[ids[t]]`: rows of a table `[n_vocab][n_in]` as f32, `y` `[n_tokens][n_in]`.
///
/// # Panics
/// The lengths do not agree, or an id is not below `n_vocab`.
pub fn embed(ctx: &mut Context, table: &Matrix<'_>, ids: &[u32], factor: f32, y: &mut [f32]) {
    let n_in = table.n_in();
    assert_eq!(y.len(), ids.len() * n_in, "y is [n_tokens][n_in]");
    let kernels = ctx.kernels();
    let y = RowMut(y.as_mut_ptr());
    ctx.pool.run(ids.len(), |_, t| {
        let y = &y;
        // SAFETY: each item has its own row of `y`.
        let row = unsafe { std::slice::from_raw_parts_mut(y.0.add(t * n_in), n_in) };
        table.expand_row(kernels, ids[t] as usize, |k, weights| scale(factor, weights, &mut row[k..k + weights.len()]));
    });
}

/// `y[t] = the lowest i with x[t][i] = max_i x[t][i]`, `x` `[n_tokens][n_cols]`; NaN never wins, and
/// a row of nothing else gives 0.
///
/// # Panics
/// The lengths do not agree.
pub fn argmax(x: &[f32], y: &mut [u32]) {
    if y.is_empty() {
        return;
    }
    let n_cols = x.len() / y.len();
    assert!(n_cols > 0 && x.len() == y.len() * n_cols, "x is [n_tokens][n_cols]");
    for (row, y) in x.chunks_exact(n_cols).zip(y) {
        *y = argmax_row(row);
    }
}

/// Two passes, both simple enough for the compiler to vectorise: the maximum, then its first place.
fn argmax_row(row: &[f32]) -> u32 {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in row.chunks(LANES) {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    let max = lanes.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    let index = if max == f32::NEG_INFINITY { None } else { row.iter().position(|&x| x == max) };
    u32::try_from(index.unwrap_or(0)).expect("a row has fewer than 2^32 columns")
}

fn part(item: usize, len: usize) -> std::ops::Range<usize> {
    item * ITEM_LEN..((item + 1) * ITEM_LEN).min(len)
}
