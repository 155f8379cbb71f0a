//! Q6_K: sixteen groups of 16 codes of 6 bits, `w = (d * scale) * (q - 32)`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q6_k;

use super::Format;
use crate::isa::{LANES, Simd};

/// `(d * scale) * (q - 32)`.
pub(crate) struct Q6_K;

impl Format for Q6_K {
    const WEIGHTS: usize = q6_k::BLOCK_LEN;
    const BYTES: usize = q6_k::BLOCK_BYTES;
    const SCALES: usize = 2 * q6_k::N_GROUPS;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: all fields lie in the block; `out` holds 32.
        unsafe {
            let scales = s.mul(s.signed_bytes(unit.add(q6_k::SCALES)), s.splat(s.half(unit.add(q6_k::D))));
            s.store(out, scales);
            s.store(out.add(LANES), s.mul(scales, s.splat(-f32::from(q6_k::ZERO_POINT))));
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: as the caller vouches.
        unsafe { [group(s, unit, scales, 2 * J), group(s, unit, scales, 2 * J + 1)] }
    }
}

/// Sixteen weights.
///
/// # Safety
/// As [`Format::pair`]; `g` is below 16.
#[inline(always)]
unsafe fn group<S: Simd>(s: S, unit: *const u8, scales: *const f32, g: usize) -> S::V {
    // Half `g / 8` of the block, run `g / 2 % 4` of it, half `g % 2` of the run: see `q6_k`'s text.
    let (half, run, part) = (g / 8, g / 2 % 4, g % 2 * LANES);
    let ql = q6_k::QL + 64 * half + 32 * (run % 2) + part;
    let qh = q6_k::QH + 32 * half + part;
    // SAFETY: both runs of bytes lie in the block; scales and offsets were written.
    unsafe {
        let codes = s.six_bits(unit.add(ql), if run < 2 { 0 } else { 4 }, unit.add(qh), 2 * run);
        // Exact, hence the same as `scale * (q - 32)`.
        s.fma(codes, s.splat(*scales.add(g)), s.splat(*scales.add(LANES + g)))
    }
}
