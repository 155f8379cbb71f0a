//! Q3_K: sixteen groups of 16 codes of 3 bits, `w = (d * (scale - 32)) * (q - 4)`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q3_k;

use super::Format;
use crate::isa::{Codebook, LANES, Simd};

/// `(d * (scale - 32)) * (q - 4)`.
pub(crate) struct Q3_K;

/// Low bits whose high bit is clear; the two bits above do not matter.
static HIGH_CLEAR: Codebook = Codebook::new([-4, -3, -2, -1, -4, -3, -2, -1, -4, -3, -2, -1, -4, -3, -2, -1]);
const _: () = assert!(q3_k::ZERO_POINT == 4);

impl Format for Q3_K {
    const WEIGHTS: usize = q3_k::BLOCK_LEN;
    const BYTES: usize = q3_k::BLOCK_BYTES;
    const SCALES: usize = 16;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: all fields lie in the block; `out` holds 16.
        unsafe {
            let word = |i: usize| u32::from_le(unit.add(q3_k::SCALES + 4 * i).cast::<u32>().read_unaligned());
            let (even, odd, high) = (word(0), word(1), word(2));
            let four = |low: u32, run: u32| ((low & 0x0F0F_0F0F) | (((high >> (2 * run)) & 0x0303_0303) << 4)).to_le();
            let unpacked = [four(even, 0), four(odd, 1), four(even >> 4, 2), four(odd >> 4, 3)];
            let scales = s.sub(s.signed_bytes(unpacked.as_ptr().cast()), s.splat(f32::from(q3_k::SCALE_ZERO_POINT)));
            s.store(out, s.mul(scales, s.splat(s.half(unit.add(q3_k::D)))));
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
    // As in Q2_K; the high bit of run `g / 2` is that bit of the weight's byte.
    let part = g % 2 * LANES;
    // SAFETY: codes and high bits lie in the block, and all scales were written.
    unsafe {
        let scale = *scales.add(g);
        let codes = s.codes(unit.add(q3_k::QS + 32 * (g / 8) + part), 2 * (g / 2 % 4));
        let low = s.lookup(s.scaled_table(&HIGH_CLEAR, scale), codes);
        // Exact: both terms are small multiples of the scale.
        s.add_where(s.mask_of_bytes(unit.add(q3_k::HMASK + part), g / 2), low, s.splat(4.0 * scale))
    }
}
