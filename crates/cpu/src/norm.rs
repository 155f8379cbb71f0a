//! `y[i] = x[i] / sqrt(mean_i(x[i]^2) + eps) * w[i]` over groups of columns.
//!
//! The squares are summed in four accumulators of sixteen lanes (so each f32 sum has `width / 64`
//! terms), the lanes in f64; the inverse root is computed in f64 and rounded once. Relative error
//! of a result: a few 1e-7 at any width in use.

use crate::context::{Context, RowMut};
use crate::isa::{LANES, Simd};
use crate::math::{load_part, store_part};

/// Rows of a work item: a row is too little to be worth a thread's attention.
const ITEM_ROWS: usize = 8;

/// Root mean square norm: `x` and `y` `[n_tokens][n_groups][width]`, `w` `[width]`, one group per
/// token (a plain norm) or per head (norms of queries and keys).
///
/// # Panics
/// The lengths do not agree.
pub fn rms_norm(ctx: &mut Context, x: &[f32], w: Option<&[f32]>, width: usize, eps: f32, y: &mut [f32]) {
    assert!(width > 0 && x.len().is_multiple_of(width), "the group divides the row");
    assert_eq!(x.len(), y.len(), "x and y have one shape");
    assert!(w.is_none_or(|w| w.len() == width), "the weight is [width]");
    let rms_norm = ctx.kernels().rms_norm;
    let n_groups = x.len() / width;
    let y = RowMut(y.as_mut_ptr());
    ctx.pool.run(items(n_groups, width), |_, item| {
        let y = &y;
        let rows = item_rows(n_groups, width, item);
        for row in rows {
            // SAFETY: each item has its own rows of `y`; the processor has the kernel.
            unsafe {
                let y = std::slice::from_raw_parts_mut(y.0.add(row * width), width);
                rms_norm(eps, &x[row * width..][..width], w, y);
            }
        }
    });
}

/// `sum = a + b; y = rms_norm(sum) * w`, all `[n_tokens][width]`.
///
/// # Panics
/// The lengths do not agree.
pub fn add_rms_norm(ctx: &mut Context, a: &[f32], b: &[f32], w: &[f32], eps: f32, sum: &mut [f32], y: &mut [f32]) {
    let width = w.len();
    assert!(width > 0 && a.len().is_multiple_of(width), "the weight is [width]");
    assert!(b.len() == a.len() && sum.len() == a.len() && y.len() == a.len(), "all values have one shape");
    let rms_norm = ctx.kernels().rms_norm;
    let n_rows = a.len() / width;
    let (sum, y) = (RowMut(sum.as_mut_ptr()), RowMut(y.as_mut_ptr()));
    ctx.pool.run(items(n_rows, width), |_, item| {
        let (sum, y) = (&sum, &y);
        for row in item_rows(n_rows, width, item) {
            let at = row * width;
            // SAFETY: each item has its own rows of `sum` and `y`; the processor has the kernel.
            unsafe {
                let sum = std::slice::from_raw_parts_mut(sum.0.add(at), width);
                let y = std::slice::from_raw_parts_mut(y.0.add(at), width);
                sum.iter_mut().zip(a[at..].iter().zip(&b[at..])).for_each(|(s, (a, b))| *s = a + b);
                rms_norm(eps, sum, Some(w), y);
            }
        }
    });
}

/// Work items of `n_rows` rows: one, run by the caller, unless the rows are many.
fn items(n_rows: usize, width: usize) -> usize {
    n_rows.div_ceil(rows_per_item(width))
}

fn rows_per_item(width: usize) -> usize {
    ITEM_ROWS * (4096 / width).max(1)
}

fn item_rows(n_rows: usize, width: usize, item: usize) -> std::ops::Range<usize> {
    let first = item * rows_per_item(width);
    first..(first + rows_per_item(width)).min(n_rows)
}

/// One group.
#[inline(always)]
pub(crate) fn rms_norm_row<S: Simd>(s: S, eps: f32, x: &[f32], w: Option<&[f32]>, y: &mut [f32]) {
    let inverse = s.splat(inverse_rms(s, eps, x));
    for (i, (x, y)) in x.chunks(LANES).zip(y.chunks_mut(LANES)).enumerate() {
        let scaled = s.mul(load_part(s, x), inverse);
        let v = match w {
            Some(w) => s.mul(scaled, load_part(s, &w[i * LANES..][..x.len()])),
            None => scaled,
        };
        store_part(s, v, y);
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounded to f32 once, on purpose")]
fn inverse_rms<S: Simd>(s: S, eps: f32, x: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for x in x.chunks(4 * LANES) {
        for (sum, x) in sums.iter_mut().zip(x.chunks(LANES)) {
            let v = load_part(s, x);
            *sum = s.fma(v, v, *sum);
        }
    }
    let mut lanes = [0.0f32; 4 * LANES];
    for (lanes, sum) in lanes.chunks_exact_mut(LANES).zip(sums) {
        store_part(s, sum, lanes);
    }
    let square: f64 = lanes.iter().map(|&v| f64::from(v)).sum();
    (1.0 / (square / x.len() as f64 + f64::from(eps)).sqrt()) as f32
}
