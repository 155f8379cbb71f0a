//! The types whose weights are a 4-bit index into a table of sixteen: Q4_0, Q4_1, IQ4_NL, IQ4_XS
//! and MXFP4. The table of a block is its codebook times its scale (plus its minimum).

#![allow(non_camel_case_types, reason = "the names are those of the file format")]

use zinc_gguf::quants::{iq4_nl, iq4_xs, mxfp4, q4_0, q4_1};

use super::Format;
use crate::isa::{COUNT, Codebook, Simd};

static AROUND_ZERO: Codebook = Codebook::new([-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7]);
static NON_LINEAR: Codebook = Codebook::new(iq4_nl::CODEBOOK);
static E2M1: Codebook = Codebook::new(mxfp4::CODEBOOK);
const _: () = assert!(q4_0::ZERO_POINT == 8);

/// `d * (q - 8)`.
pub(crate) struct Q4_0;
/// `d * q + m`.
pub(crate) struct Q4_1;
/// `d * CODEBOOK[q]`.
pub(crate) struct IQ4_NL;
/// `d * (scale - 32) * CODEBOOK[q]`, eight groups.
pub(crate) struct IQ4_XS;
/// `2^(e - 128) * CODEBOOK[q]`.
pub(crate) struct MXFP4;

/// Sixteen bytes: weights 0..16 in the low halves, 16..32 in the high ones.
///
/// # Safety
/// `nibbles` points at 16 readable bytes.
#[inline(always)]
unsafe fn look_up<S: Simd>(s: S, table: S::Table, nibbles: *const u8) -> [S::V; 2] {
    // SAFETY: as the caller vouches.
    unsafe { [s.lookup(table, s.codes(nibbles, 0)), s.lookup(table, s.codes(nibbles, 4))] }
}

impl Format for Q4_0 {
    const WEIGHTS: usize = q4_0::BLOCK_LEN;
    const BYTES: usize = q4_0::BLOCK_BYTES;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds one.
        unsafe { out.write(s.leading_half(unit.add(q4_0::D))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: the nibbles lie in the block.
        unsafe { look_up(s, s.scaled_table(&AROUND_ZERO, *scales), unit.add(q4_0::QS)) }
    }
}

impl Format for Q4_1 {
    const WEIGHTS: usize = q4_1::BLOCK_LEN;
    const BYTES: usize = q4_1::BLOCK_BYTES;
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        const { assert!(q4_1::M == q4_1::D + 2) };
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds two.
        unsafe { out.cast::<[f32; 2]>().write(s.two_halves(unit.add(q4_1::D))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: the nibbles lie in the block, and two scales were written.
        unsafe { look_up(s, s.affine_table(&COUNT, *scales, *scales.add(1)), unit.add(q4_1::QS)) }
    }
}

impl Format for IQ4_NL {
    const WEIGHTS: usize = iq4_nl::BLOCK_LEN;
    const BYTES: usize = iq4_nl::BLOCK_BYTES;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: the block is longer than eight bytes after `D`; `out` holds one.
        unsafe { out.write(s.leading_half(unit.add(iq4_nl::D))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: the nibbles lie in the block.
        unsafe { look_up(s, s.scaled_table(&NON_LINEAR, *scales), unit.add(iq4_nl::QS)) }
    }
}

impl Format for IQ4_XS {
    const WEIGHTS: usize = iq4_xs::BLOCK_LEN;
    const BYTES: usize = iq4_xs::BLOCK_BYTES;
    const SCALES: usize = 8;

    #[inline(always)]
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32) {
        // SAFETY: all fields lie in the block; `out` holds eight.
        unsafe {
            let d = s.half(unit.add(iq4_xs::D));
            let high = u16::from_le(unit.add(iq4_xs::SCALES_H).cast::<u16>().read_unaligned());
            let low = u32::from_le(unit.add(iq4_xs::SCALES_L).cast::<u32>().read_unaligned());
            for group in 0..8 {
                let scale = ((low >> (4 * group)) & 0xF) as i32 | (i32::from((high >> (2 * group)) & 3) << 4);
                out.add(group).write(d * (scale - i32::from(iq4_xs::SCALE_ZERO_POINT)) as f32);
            }
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: group `J` has 16 bytes of nibbles in the block, and eight scales were written.
        unsafe { look_up(s, s.scaled_table(&NON_LINEAR, *scales.add(J)), unit.add(iq4_xs::QS + 16 * J)) }
    }
}

impl Format for MXFP4 {
    const WEIGHTS: usize = mxfp4::BLOCK_LEN;
    const BYTES: usize = mxfp4::BLOCK_BYTES;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, unit: *const u8, out: *mut f32) {
        // SAFETY: the exponent lies in the block; `out` holds one.
        unsafe { out.write(mxfp4::half_scale(*unit.add(mxfp4::E))) }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2] {
        // SAFETY: the nibbles lie in the block.
        unsafe { look_up(s, s.scaled_table(&E2M1, *scales), unit.add(mxfp4::QS)) }
    }
}
