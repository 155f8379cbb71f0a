//! Q2_K: sixteen groups of 16 codes of 2 bits, `w = (d * scale) * q - (dmin * min)`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q2_k;

use super::Format;
use crate::isa::{COUNT, Codebook, LANES, Simd};

/// `(d * scale) * q - (dmin * min)`.
pub(crate) struct Q2_K;

/// The two bits above a code do not matter: the table repeats.
static TWO_BITS: Codebook = Codebook::new([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);

impl Format for Q2_K {
    const WEIGHTS: usize = q2_k::BLOCK_LEN;
    const BYTES: usize = q2_k::BLOCK_BYTES;
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: all fields lie in the block; `out` holds 32.
        unsafe {
            let (d, dmin) = (s.half(unit.add(q2_k::D)), s.half(unit.add(q2_k::DMIN)));
            let packed = unit.add(q2_k::SCALES);
            s.store(out, s.lookup(s.scaled_table(&COUNT, d), s.codes(packed, 0)));
            s.store(out.add(LANES), s.lookup(s.scaled_table(&COUNT, -dmin), s.codes(packed, 4)));
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
    // Half `g / 8` of the block, run `g / 2 % 4` of it, half `g % 2` of the run.
    let codes = q2_k::QS + 32 * (g / 8) + g % 2 * LANES;
    // SAFETY: the codes lie in the block, and all scales were written.
    unsafe {
        let table = s.affine_table(&TWO_BITS, *scales.add(g), *scales.add(LANES + g));
        s.lookup(table, s.codes(unit.add(codes), 2 * (g / 2 % 4)))
    }
}
