//! `sum_k W[o][k] x[c][k]` for up to [`TOKENS_MAX`] inputs: weights go from their blocks to
//! registers and into the sums, and are read once.
//!
//! The order of one sum is the crate's: sixteen lanes, `k` rising by sixteen, one accumulator; at
//! every [`CHUNK`] the lanes are added up by [`Simd::sum`] and the chunk's sum joins the total.
//! [`super::tile`] has the same order, so the numbers do not depend on how many inputs there are.

use std::mem::MaybeUninit;

use crate::formats::{Format, SCALES_MAX, UNIT_WEIGHTS_MAX, each_pair};
use crate::isa::{LANES, Simd};

/// Most inputs of a [`FewJob`].
pub(crate) const TOKENS_MAX: usize = 4;

/// Weights whose products are summed in lanes before the lanes are added up. A panel of four rows
/// and six inputs of this length fit the first-level cache.
pub(crate) const CHUNK: usize = 1024;
const _: () = assert!(CHUNK.is_multiple_of(UNIT_WEIGHTS_MAX));

/// Weights in a step of the kernels; shorter tails (of float types) are padded with zeros.
pub(crate) const STEP: usize = 2 * LANES;

/// Rows that are summed side by side, so that one's latency hides in the other's work.
const ROWS: usize = 2;

/// Bytes that weights are asked for ahead of their use. Unpacking fills the processor's window with
/// a few hundred bytes of weights, too few loads under way to keep the memory busy.
const PREFETCH: usize = 4096;

/// f32 of scales for a chunk of one row.
const CHUNK_SCALES: usize = {
    let (small, large) = (CHUNK / STEP * SCALES_MAX[0], CHUNK / UNIT_WEIGHTS_MAX * SCALES_MAX[1]);
    if small > large { small } else { large }
};

/// `n_rows` weight rows times up to [`TOKENS_MAX`] inputs.
pub(crate) struct FewJob {
    /// First row; `n_rows * row_bytes` readable bytes.
    pub(crate) w: *const u8,
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Rows.
    pub(crate) n_rows: usize,
    /// Weights of a row.
    pub(crate) n_in: usize,
    /// Inputs, each `n_in` rounded up to [`STEP`] readable f32, the surplus zero. Places beyond
    /// the number of inputs repeat one.
    pub(crate) x: [*const f32; TOKENS_MAX],
    /// Sum of input `c` and row `o` goes to `out + c * out_stride + o`.
    pub(crate) out: *mut f32,
    /// Distance between inputs in `out`.
    pub(crate) out_stride: usize,
}

/// The kernel for `C` inputs.
///
/// # Safety
/// The job's pointers are as it says, for `C` inputs and outputs.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, F: Format, const C: usize>(s: S, job: &FewJob) {
    for row in (0..job.n_rows).step_by(ROWS) {
        // SAFETY: the first row is within the job.
        unsafe { rows::<S, F, ROWS, C>(s, job, row) };
    }
}

/// Rows `row..row + R`, or as many of them as there are.
///
/// # Safety
/// As [`run`]; `row < n_rows`.
#[inline(always)]
unsafe fn rows<S: Simd, F: Format, const R: usize, const C: usize>(s: S, job: &FewJob, row: usize) {
    // A row beyond the last repeats it; its sums are dropped.
    let n_rows = R.min(job.n_rows - row);
    let mut scales = [[MaybeUninit::<f32>::uninit(); CHUNK_SCALES]; R];
    let mut totals = [[0.0f32; C]; R];
    let mut k = 0;
    while k < job.n_in {
        let n_k = CHUNK.min(job.n_in - k);
        let (n_units, tail) = (n_k / F::WEIGHTS, n_k % F::WEIGHTS);
        let mut sums = [[s.splat(0.0); C]; R];
        // SAFETY: the units lie within the rows and the inputs reach `k + n_k`, padded to a step.
        unsafe {
            let w: [*const u8; R] = std::array::from_fn(|r| {
                job.w.add((row + r.min(n_rows - 1)) * job.row_bytes + k / F::WEIGHTS * F::BYTES)
            });
            let x: [*const f32; C] = std::array::from_fn(|c| job.x[c].add(k));
            for r in 0..R {
                for u in 0..n_units {
                    F::scales(s, w[r].add(u * F::BYTES), scales[r].as_mut_ptr().cast::<f32>().add(u * F::SCALES));
                }
            }
            units::<S, F, R, C>(s, w, x, &scales, n_units, &mut sums);
            if F::SCALES == 0 && tail > 0 {
                let w: [[u8; 128]; R] = std::array::from_fn(|r| padded_tail::<F>(w[r].add(n_units * F::BYTES), tail));
                let x = x.map(|x| x.add(n_units * F::WEIGHTS));
                units::<S, F, R, C>(s, std::array::from_fn(|r| w[r].as_ptr()), x, &scales, 1, &mut sums);
            }
        }
        for r in 0..R {
            for c in 0..C {
                let sum = s.sum(sums[r][c]);
                totals[r][c] = if k == 0 { sum } else { totals[r][c] + sum };
            }
        }
        k += n_k;
    }
    for (r, totals) in totals.iter().enumerate().take(n_rows) {
        for (c, total) in totals.iter().enumerate() {
            // SAFETY: the job has an output for each.
            unsafe { job.out.add(c * job.out_stride + row + r).write(*total) };
        }
    }
}

/// Adds `n_units` units of `R` rows times `C` inputs to `sums`.
///
/// # Safety
/// `w` points at the units, `scales` holds their scales, `x` points at as many f32 as weights.
#[inline(always)]
unsafe fn units<S: Simd, F: Format, const R: usize, const C: usize>(
    s: S,
    w: [*const u8; R],
    x: [*const f32; C],
    scales: &[[MaybeUninit<f32>; CHUNK_SCALES]; R],
    n_units: usize,
    sums: &mut [[S::V; C]; R],
) {
    let mut acc = *sums;
    for u in 0..n_units {
        each_pair!(F, J => {
            let k = u * F::WEIGHTS + J * STEP;
            for r in 0..R {
                // SAFETY: unit `u` of each row and its scales are there, and so are 32 inputs at `k`.
                unsafe {
                    let unit = w[r].add(u * F::BYTES);
                    s.prefetch(unit.wrapping_add(PREFETCH + J * (F::BYTES * STEP / F::WEIGHTS)));
                    let [low, high] = F::pair::<S, J>(s, unit, scales[r].as_ptr().cast::<f32>().add(u * F::SCALES));
                    for c in 0..C {
                        acc[r][c] = s.fma(low, s.load(x[c].add(k)), acc[r][c]);
                        acc[r][c] = s.fma(high, s.load(x[c].add(k + LANES)), acc[r][c]);
                    }
                }
            }
        });
    }
    *sums = acc;
}

/// A unit of a float type whose last weights are zeros.
///
/// # Safety
/// `unit` points at `n_weights < F::WEIGHTS` readable weights of a float type.
#[inline(always)]
pub(super) unsafe fn padded_tail<F: Format>(unit: *const u8, n_weights: usize) -> [u8; 128] {
    let mut padded = [0; 128];
    let n_bytes = n_weights * (F::BYTES / F::WEIGHTS);
    // SAFETY: float types have whole bytes per weight, 128 at most in a unit.
    unsafe { unit.copy_to_nonoverlapping(padded.as_mut_ptr(), n_bytes) };
    padded
}
