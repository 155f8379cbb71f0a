//! The portable twin: arrays of sixteen f32 and plain loops. Without a fused multiply-add in the
//! processor it is slow, since it must round once as the others do.

#![allow(
    clippy::cast_possible_truncation,
    reason = "shifts are below 8, and lanes are narrowed as the trait's methods say"
)]

use zinc_gguf::quants::float::{f16_to_f32, f32_to_f16};

use super::simd::{Codebook, LANES, Simd};

/// Proof that the processor can run plain code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar(());

impl Scalar {
    /// # Safety
    /// None is needed; it is `unsafe` so that all instruction sets are assumed alike.
    #[inline(always)]
    pub(crate) const unsafe fn assume() -> Scalar {
        Scalar(())
    }
}

type V = [f32; LANES];

#[inline(always)]
fn lanes(f: impl Fn(usize) -> f32) -> V {
    std::array::from_fn(f)
}

/// # Safety
/// `p` points at `2 * i + 2` readable bytes.
#[inline(always)]
unsafe fn word(p: *const u8, i: usize) -> u16 {
    // SAFETY: as the caller vouches.
    u16::from_le(unsafe { p.cast::<u16>().add(i).read_unaligned() })
}

/// # Safety
/// `p` points at 16 readable bytes.
#[inline(always)]
unsafe fn bytes(p: *const u8) -> [u8; LANES] {
    // SAFETY: as the caller vouches.
    unsafe { p.cast::<[u8; LANES]>().read_unaligned() }
}

impl Simd for Scalar {
    type V = V;
    type Codes = [u8; LANES];
    type Mask = u16;
    type Table = [f32; LANES];
    type Table5 = [f32; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> V {
        // SAFETY: as the caller vouches.
        unsafe { p.cast::<V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: V) {
        // SAFETY: as the caller vouches.
        unsafe { p.cast::<V>().write_unaligned(v) }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        lanes(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        lanes(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        lanes(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        lanes(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        lanes(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        lanes(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        lanes(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn round(self, v: V) -> V {
        lanes(|i| v[i].round_ties_even())
    }
    #[inline(always)]
    fn pow2(self, n: V) -> V {
        lanes(|i| f32::from_bits(((n[i] as i32 + 127) << 23).cast_unsigned()))
    }
    #[inline(always)]
    fn select_lt(self, a: V, b: V, yes: V, no: V) -> V {
        lanes(|i| if a[i] < b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn sum(self, v: V) -> f32 {
        let v: [f32; 8] = std::array::from_fn(|i| v[i] + v[i + 8]);
        let v: [f32; 4] = std::array::from_fn(|i| v[i] + v[i + 4]);
        (v[0] + v[2]) + (v[1] + v[3])
    }
    #[inline(always)]
    fn max_lane(self, v: V) -> f32 {
        v.iter().fold(v[0], |a, &b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn half(self, p: *const u8) -> f32 {
        // SAFETY: as the caller vouches.
        f16_to_f32(unsafe { word(p, 0) })
    }
    #[inline(always)]
    unsafe fn two_halves(self, p: *const u8) -> [f32; 2] {
        // SAFETY: as the caller vouches.
        unsafe { [f16_to_f32(word(p, 0)), f16_to_f32(word(p, 1))] }
    }
    #[inline(always)]
    unsafe fn halves(self, p: *const u8) -> V {
        // SAFETY: as the caller vouches.
        lanes(|i| f16_to_f32(unsafe { word(p, i) }))
    }
    #[inline(always)]
    unsafe fn bfloats(self, p: *const u8) -> V {
        // SAFETY: as the caller vouches.
        lanes(|i| f32::from_bits(u32::from(unsafe { word(p, i) }) << 16))
    }
    #[inline(always)]
    unsafe fn store_halves(self, p: *mut u8, v: V) {
        let halves = v.map(|x| f32_to_f16(x).to_le());
        // SAFETY: as the caller vouches.
        unsafe { p.cast::<[u16; LANES]>().write_unaligned(halves) }
    }
    #[inline(always)]
    unsafe fn signed_bytes(self, p: *const u8) -> V {
        // SAFETY: as the caller vouches.
        unsafe { bytes(p) }.map(|b| f32::from(b.cast_signed()))
    }
    #[inline(always)]
    fn scaled_table(self, codebook: &'static Codebook, d: f32) -> V {
        codebook.floats.map(|x| x * d)
    }
    #[inline(always)]
    fn affine_table(self, codebook: &'static Codebook, d: f32, m: f32) -> V {
        codebook.floats.map(|x| x.mul_add(d, m))
    }
    #[inline(always)]
    fn affine_table5(self, d: f32, m: f32) -> [f32; 2] {
        [d, m]
    }
    #[inline(always)]
    unsafe fn codes(self, p: *const u8, shift: usize) -> [u8; LANES] {
        // SAFETY: as the caller vouches.
        unsafe { bytes(p) }.map(|b| (b >> shift) & 0xF)
    }
    #[inline(always)]
    fn lookup(self, table: V, codes: [u8; LANES]) -> V {
        lanes(|i| table[usize::from(codes[i])])
    }
    #[inline(always)]
    fn lookup5(self, [d, m]: [f32; 2], codes: [u8; LANES], high: u16) -> V {
        lanes(|i| f32::from(codes[i] | (((high >> i) & 1) << 4) as u8).mul_add(d, m))
    }
    #[inline(always)]
    fn mask_of_bits(self, bits: u16) -> u16 {
        bits
    }
    #[inline(always)]
    unsafe fn mask_of_bytes(self, p: *const u8, bit: usize) -> u16 {
        // SAFETY: as the caller vouches.
        unsafe { bytes(p) }.iter().enumerate().fold(0, |mask, (i, b)| mask | (u16::from((b >> bit) & 1) << i))
    }
    #[inline(always)]
    fn add_where(self, mask: u16, v: V, x: V) -> V {
        lanes(|i| if (mask >> i) & 1 == 1 { v[i] + x[i] } else { v[i] })
    }
    #[inline(always)]
    unsafe fn six_bits(self, ql: *const u8, low: usize, qh: *const u8, high: usize) -> V {
        // SAFETY: as the caller vouches.
        let (ql, qh) = unsafe { (bytes(ql), bytes(qh)) };
        lanes(|i| f32::from(((ql[i] >> low) & 0xF) | (((qh[i] >> high) & 3) << 4)))
    }
}
