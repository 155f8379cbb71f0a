//! F32, F16 and BF16: `w[i]` as it stands. Units of 32 keep the loops the same; a shorter tail is
//! the caller's to pad with zeros.

use super::Format;
use crate::isa::{LANES, Simd};

/// Single precision.
pub(crate) struct F32;
/// Half precision.
pub(crate) struct F16;
/// The upper half of single precision.
pub(crate) struct BF16;

impl Format for F32 {
    const WEIGHTS: usize = 32;
    const BYTES: usize = 128;
    const SCALES: usize = 0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, _: *const u8, _: *mut f32) {}

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, _: *const f32) -> [S::V; 2] {
        let p = unit.cast::<f32>();
        // SAFETY: 32 f32 lie in the unit; loads need no alignment.
        unsafe { [s.load(p), s.load(p.add(LANES))] }
    }
}

impl Format for F16 {
    const WEIGHTS: usize = 32;
    const BYTES: usize = 64;
    const SCALES: usize = 0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, _: *const u8, _: *mut f32) {}

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, _: *const f32) -> [S::V; 2] {
        // SAFETY: 32 halves lie in the unit.
        unsafe { [s.halves(unit), s.halves(unit.add(2 * LANES))] }
    }
}

impl Format for BF16 {
    const WEIGHTS: usize = 32;
    const BYTES: usize = 64;
    const SCALES: usize = 0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, _: *const u8, _: *mut f32) {}

    #[inline(always)]
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, _: *const f32) -> [S::V; 2] {
        // SAFETY: 32 numbers of two bytes lie in the unit.
        unsafe { [s.bfloats(unit), s.bfloats(unit.add(2 * LANES))] }
    }
}
