//! Q5_K: Q4_K with a fifth bit; that of group `j` is bit `j` of the weight's byte in `qh`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q5_k;

use super::Format;
use super::q4_k::{MINS, affine_scales};
use crate::isa::{LANES, Simd};

/// `(d * scale) * q - (dmin * min)`.
pub(crate) struct Q5_K;

impl Format for Q5_K {
    const WEIGHTS: usize = q5_k::BLOCK_LEN;
    const BYTES: usize = q5_k::BLOCK_BYTES;
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        const { assert!(q5_k::D == 0 && q5_k::DMIN == 2 && q5_k::SCALES == 4) };
        // SAFETY: as the caller vouches; the block begins as Q4_K's does.
        unsafe { affine_scales(s, unit, out) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: groups 2i and 2i + 1 share the 32 bytes of nibbles at `32 i`, all share `qh`.
        unsafe {
            let table = s.affine_table5(*scales.add(J), *scales.add(MINS + J));
            let (nibbles, shift) = (unit.add(q5_k::QS + 32 * (J / 2)), if J.is_multiple_of(2) { 0 } else { 4 });
            let qh = unit.add(q5_k::QH);
            [
                s.lookup5(table, s.codes(nibbles, shift), s.mask_of_bytes(qh, J)),
                s.lookup5(table, s.codes(nibbles.add(LANES), shift), s.mask_of_bytes(qh.add(LANES), J)),
            ]
        }
    }
}
