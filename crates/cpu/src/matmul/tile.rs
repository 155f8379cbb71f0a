//! A panel of weights as f32 times many inputs, in tiles of R rows and C inputs held in registers.
//!
//! Lanes run along `k` for rows and inputs alike, so a step of sixteen reads `R + C` vectors for
//! `R * C` fused multiply-adds and needs no broadcast. The order of a sum is that of
//! [`super::few`]: one chunk of `k` here is one chunk there.

use super::few::{STEP, padded_tail};
use crate::formats::{Format, SCALES_MAX, each_pair};
use crate::isa::{LANES, Simd};

/// Inputs whose chunk stays in the first-level cache while all rows of a panel pass by.
const RESIDENT: usize = 12;

/// Weights of `n_rows` rows to f32.
pub(crate) struct ExpandJob {
    /// First row, at the first weight wanted; that is a whole unit from its row's begin.
    pub(crate) w: *const u8,
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Rows.
    pub(crate) n_rows: usize,
    /// Weights of each row.
    pub(crate) n_k: usize,
    /// Row `r` goes to `out + r * out_stride`, rounded up to [`STEP`] weights with zeros.
    pub(crate) out: *mut f32,
    /// Distance between rows in `out`.
    pub(crate) out_stride: usize,
}

/// Unpacks weights.
///
/// # Safety
/// The job's pointers are as it says.
#[inline(always)]
pub(crate) unsafe fn expand<S: Simd, F: Format>(s: S, job: &ExpandJob) {
    for r in 0..job.n_rows {
        // SAFETY: the row is within the job.
        let (w, out) = unsafe { (job.w.add(r * job.row_bytes), job.out.add(r * job.out_stride)) };
        let (n_units, tail) = (job.n_k / F::WEIGHTS, job.n_k % F::WEIGHTS);
        for u in 0..n_units {
            // SAFETY: the unit is within the row, and `out` has room for it.
            unsafe { expand_unit::<S, F>(s, w.add(u * F::BYTES), out.add(u * F::WEIGHTS)) };
        }
        if F::SCALES == 0 && tail > 0 {
            // SAFETY: only float types have tails, and `out` has room for a whole step.
            unsafe {
                let unit = padded_tail::<F>(w.add(n_units * F::BYTES), tail);
                expand_unit::<S, F>(s, unit.as_ptr(), out.add(n_units * F::WEIGHTS));
            }
        }
    }
}

/// # Safety
/// `unit` points at a unit, `out` at as many writable f32 as it has weights.
#[inline(always)]
unsafe fn expand_unit<S: Simd, F: Format>(s: S, unit: *const u8, out: *mut f32) {
    let mut scales = [0.0f32; SCALES_MAX[1]];
    // SAFETY: as the caller vouches.
    unsafe {
        F::scales(s, unit, scales.as_mut_ptr());
        each_pair!(F, J => {
            let [low, high] = F::pair::<S, J>(s, unit, scales.as_ptr());
            s.store(out.add(J * STEP), low);
            s.store(out.add(J * STEP + LANES), high);
        });
    }
}

/// A panel times inputs: one chunk of `k`.
pub(crate) struct TileJob<'a> {
    /// Rows of `n_k` f32; as many as `n_rows` rounded up to four are readable.
    pub(crate) panel: *const f32,
    /// Distance between rows.
    pub(crate) panel_stride: usize,
    /// Rows whose sums are wanted.
    pub(crate) n_rows: usize,
    /// Inputs, each at `n_k` readable f32.
    pub(crate) x: &'a [*const f32],
    /// Length of the chunk, a multiple of sixteen.
    pub(crate) n_k: usize,
    /// Sum of input `c` and row `r` goes to `out + c * out_stride + r`; `n_rows` rounded up to
    /// four are writable.
    pub(crate) out: *mut f32,
    /// Distance between inputs in `out`.
    pub(crate) out_stride: usize,
    /// Whether `out` holds the sum of earlier chunks, which this one joins.
    pub(crate) joins: bool,
}

/// The kernel with tiles of `R` rows (2 or 4) and `C` inputs (up to 6).
///
/// # Safety
/// The job's pointers are as it says.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, const R: usize, const C: usize>(s: S, job: &TileJob) {
    for (i, x) in job.x.chunks(RESIDENT).enumerate() {
        for row in (0..job.n_rows).step_by(R) {
            for (j, x) in x.chunks(C).enumerate() {
                let at = (i * RESIDENT + j * C) * job.out_stride + row;
                // SAFETY: rows and inputs are within the job, which has whole tiles of rows.
                unsafe {
                    let (panel, out) = (job.panel.add(row * job.panel_stride), job.out.add(at));
                    match x.len() {
                        1 => tile::<S, R, 1>(s, job, panel, x, out),
                        2 => tile::<S, R, 2>(s, job, panel, x, out),
                        3 => tile::<S, R, 3>(s, job, panel, x, out),
                        4 => tile::<S, R, 4>(s, job, panel, x, out),
                        5 => tile::<S, R, 5>(s, job, panel, x, out),
                        _ => tile::<S, R, 6>(s, job, panel, x, out),
                    }
                }
            }
        }
    }
}

/// # Safety
/// As [`run`], for `R` rows at `panel`, `C` inputs of `x` and their sums at `out`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "the index is also the place in memory")]
unsafe fn tile<S: Simd, const R: usize, const C: usize>(
    s: S,
    job: &TileJob,
    panel: *const f32,
    x: &[*const f32],
    out: *mut f32,
) {
    let x: [*const f32; C] = std::array::from_fn(|c| x[c]);
    let mut acc = [[s.splat(0.0); R]; C];
    for k in (0..job.n_k).step_by(LANES) {
        // SAFETY: rows and inputs have `n_k` elements.
        unsafe {
            let mut w = [s.splat(0.0); R];
            for r in 0..R {
                w[r] = s.load(panel.add(r * job.panel_stride + k));
            }
            for c in 0..C {
                let x = s.load(x[c].add(k));
                for r in 0..R {
                    acc[c][r] = s.fma(w[r], x, acc[c][r]);
                }
            }
        }
    }
    for (c, acc) in acc.iter().enumerate() {
        let mut sums = [0.0f32; R];
        if R == 4 {
            sums.copy_from_slice(&s.sum4([acc[0], acc[1], acc[2], acc[3]]));
        } else {
            for (sum, acc) in sums.iter_mut().zip(acc) {
                *sum = s.sum(*acc);
            }
        }
        // SAFETY: the job's `out` has whole tiles.
        unsafe {
            let out = out.add(c * job.out_stride).cast::<[f32; R]>();
            if job.joins {
                let earlier = out.read();
                sums = std::array::from_fn(|r| earlier[r] + sums[r]);
            }
            out.write(sums);
        }
    }
}
