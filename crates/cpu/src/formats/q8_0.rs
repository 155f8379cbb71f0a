//! Q8_0: 32 signed bytes and one scale, `w = d * q`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q8_0;

use super::Format;
use crate::isa::{LANES, Simd};

/// `d * q`.
pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const WEIGHTS: usize = q8_0::BLOCK_LEN;
    const BYTES: usize = q8_0::BLOCK_BYTES;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds one.
        unsafe { out.write(s.leading_half(unit.add(q8_0::D))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: 32 bytes lie in the block.
        unsafe {
            let (d, q) = (s.splat(*scales), unit.add(q8_0::QS));
            [s.mul(s.signed_bytes(q), d), s.mul(s.signed_bytes(q.add(LANES)), d)]
        }
    }
}
