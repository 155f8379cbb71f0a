//! Q5_0 and Q5_1: nibbles as in the 4-bit types, the fifth bits of a block in one 32-bit word.

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::{q5_0, q5_1};

use super::Format;
use crate::isa::Simd;

/// `d * (q - 16)`.
pub(crate) struct Q5_0;
/// `d * q + m`.
pub(crate) struct Q5_1;

/// The fifth bits of weights 0..16 and 16..32.
///
/// # Safety
/// `word` points at 4 readable bytes.
#[inline(always)]
unsafe fn fifth_bits<S: Simd>(s: S, word: *const u8) -> [S::Mask; 2] {
    // SAFETY: as the caller vouches.
    let [low, high] = unsafe { word.cast::<[u16; 2]>().read_unaligned() };
    [s.mask_of_bits(u16::from_le(low)), s.mask_of_bits(u16::from_le(high))]
}

impl Format for Q5_0 {
    const WEIGHTS: usize = q5_0::BLOCK_LEN;
    const BYTES: usize = q5_0::BLOCK_BYTES;
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds two.
        unsafe {
            let d = s.leading_half(unit.add(q5_0::D));
            out.write(d);
            out.add(1).write(16.0 * d);
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        const { assert!(q5_0::ZERO_POINT == 16) };
        // SAFETY: word and nibbles lie in the block.
        unsafe {
            let (scales, high, nibbles) =
                ([*scales, *scales.add(1)], fifth_bits(s, unit.add(q5_0::QH)), unit.add(q5_0::QS));
            [s.five_bits(scales, s.codes(nibbles, 0), high[0]), s.five_bits(scales, s.codes(nibbles, 4), high[1])]
        }
    }
}

impl Format for Q5_1 {
    const WEIGHTS: usize = q5_1::BLOCK_LEN;
    const BYTES: usize = q5_1::BLOCK_BYTES;
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        const { assert!(q5_1::M == q5_1::D + 2) };
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds two.
        unsafe { out.cast::<[f32; 2]>().write(s.two_halves(unit.add(q5_1::D))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: word and nibbles lie in the block, and two scales were written.
        unsafe {
            let table = s.affine_table5(*scales, *scales.add(1));
            let (high, nibbles) = (fifth_bits(s, unit.add(q5_1::QH)), unit.add(q5_1::QS));
            [s.lookup5(table, s.codes(nibbles, 0), high[0]), s.lookup5(table, s.codes(nibbles, 4), high[1])]
        }
    }
}
