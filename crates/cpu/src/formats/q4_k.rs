//! Q4_K: eight groups of 32 nibbles, `w = (d * scale) * q - (dmin * min)`.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::q4_k;

use super::Format;
use crate::isa::{COUNT, LANES, Simd};

/// `(d * scale) * q - (dmin * min)`.
pub(crate) struct Q4_K;

/// Where [`affine_scales`] puts the negative minimum of group 0; the scales begin at 0.
pub(super) const MINS: usize = LANES + 8;

/// Unpacks the scales and minimums that Q4_K and Q5_K share: `d * scale` of the eight groups at
/// `out`, `-dmin * min` at `out + MINS`.
///
/// # Safety
/// `unit` begins with `d`, `dmin` and the twelve packed bytes; `out` points at 32 writable f32.
#[inline(always)]
pub(super) unsafe fn affine_scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
    const { assert!(q4_k::D == 0 && q4_k::DMIN == 2 && q4_k::SCALES == 4) };
    // SAFETY: as the caller vouches; the packed bytes follow the two halves.
    unsafe {
        let [d, dmin] = s.two_halves(unit);
        let word = |i: usize| u32::from_le(unit.add(q4_k::SCALES + 4 * i).cast::<u32>().read_unaligned());
        let (scales, mins, rest) = (word(0), word(1), word(2));
        let six = 0x3F3F_3F3F;
        let upper = |first: u32| ((first >> 6) & 0x0303_0303) << 4;
        let low = 0x0F0F_0F0F;
        let unpacked =
            [scales & six, (rest & low) | upper(scales), mins & six, ((rest >> 4) & low) | upper(mins)].map(u32::to_le);
        let numbers = s.signed_bytes(unpacked.as_ptr().cast());
        s.store(out, s.mul(numbers, s.splat(d)));
        s.store(out.add(LANES), s.mul(numbers, s.splat(-dmin)));
    }
}

impl Format for Q4_K {
    const WEIGHTS: usize = q4_k::BLOCK_LEN;
    const BYTES: usize = q4_k::BLOCK_BYTES;
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: as the caller vouches.
        unsafe { affine_scales(s, unit, out) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: groups 2i and 2i + 1 share the 32 bytes at `32 i`; both scales were written.
        unsafe {
            let table = s.affine_table(&COUNT, *scales.add(J), *scales.add(MINS + J));
            let (nibbles, shift) = (unit.add(q4_k::QS + 32 * (J / 2)), if J.is_multiple_of(2) { 0 } else { 4 });
            [s.lookup(table, s.codes(nibbles, shift)), s.lookup(table, s.codes(nibbles.add(LANES), shift))]
        }
    }
}
