//! NEON (every aarch64 processor): four registers are the sixteen lanes, codes are bytes that
//! `tbl` looks up in the integer codebook before they become f32.

#![allow(
    clippy::cast_possible_truncation,
    reason = "shifts are below 8, and lanes are narrowed as the trait's methods say"
)]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, uint8x16_t, uint16x8_t, uint32x4_t, vaddq_f32, vaddq_s32, vaddq_u32, vandq_u8, vandq_u32,
    vbslq_f32, vbslq_u32, vceqq_u8, vcgeq_u32, vcgtq_u32, vcltq_f32, vcombine_u8, vcombine_u16, vcvtnq_s32_f32,
    vcvtq_f32_s32, vdivq_f32, vdup_n_u8, vdupq_n_f32, vdupq_n_s8, vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, vfmaq_f32,
    vget_high_s8, vget_high_s16, vget_high_u16, vget_low_s8, vget_low_s16, vget_low_u16, vld1q_f32, vld1q_s8, vld1q_u8,
    vld1q_u16, vmaxnmq_f32, vmaxnmvq_f32, vminnmq_f32, vmovl_s8, vmovl_s16, vmovl_u16, vmovn_u32, vmulq_f32, vorrq_u8,
    vorrq_u32, vqtbl1q_s8, vreinterpretq_f32_s32, vreinterpretq_f32_u32, vreinterpretq_s8_u8, vreinterpretq_s32_u32,
    vreinterpretq_u32_f32, vreinterpretq_u32_s32, vrndnq_f32, vshlq_n_s32, vshlq_n_u8, vshlq_n_u32, vshlq_u8,
    vshrq_n_u32, vst1q_f32, vst1q_u16, vsubq_f32, vsubq_u32,
};

use zinc_gguf::quants::float::f16_to_f32;

use super::simd::{Codebook, LANES, Simd, intrinsics, memory_intrinsics};

/// Proof that the processor has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    /// The proof, if the processor gives it.
    pub(crate) fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }

    /// # Safety
    /// [`Neon::detect`] has given the proof before.
    #[inline(always)]
    pub(crate) const unsafe fn assume() -> Neon {
        Neon(())
    }
}

/// Sixteen lanes in four registers.
type V = [float32x4_t; 4];

/// Codes as integers, and what maps them to weights.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    codebook: int8x16_t,
    d: float32x4_t,
    m: Option<float32x4_t>,
}

/// Lane by lane over the four registers.
#[inline(always)]
fn each(f: impl Fn(usize) -> float32x4_t) -> V {
    [f(0), f(1), f(2), f(3)]
}

impl Simd for Neon {
    type V = V;
    type Codes = uint8x16_t;
    /// Bytes of 0 or 255.
    type Mask = uint8x16_t;
    type Table = Affine;
    type Table5 = [float32x4_t; 2];

    intrinsics! {
        fn splat(self, x: f32) -> V { [vdupq_n_f32(x); 4] }
        fn add(self, a: V, b: V) -> V { each(|i| vaddq_f32(a[i], b[i])) }
        fn sub(self, a: V, b: V) -> V { each(|i| vsubq_f32(a[i], b[i])) }
        fn mul(self, a: V, b: V) -> V { each(|i| vmulq_f32(a[i], b[i])) }
        fn div(self, a: V, b: V) -> V { each(|i| vdivq_f32(a[i], b[i])) }
        fn min(self, a: V, b: V) -> V { each(|i| vminnmq_f32(a[i], b[i])) }
        fn max(self, a: V, b: V) -> V { each(|i| vmaxnmq_f32(a[i], b[i])) }
        fn fma(self, a: V, b: V, c: V) -> V { each(|i| vfmaq_f32(c[i], a[i], b[i])) }
        fn round(self, v: V) -> V { each(|i| vrndnq_f32(v[i])) }
        fn pow2(self, n: V) -> V {
            each(|i| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n[i]), vdupq_n_s32(127)))))
        }
        fn select_lt(self, a: V, b: V, yes: V, no: V) -> V { each(|i| vbslq_f32(vcltq_f32(a[i], b[i]), yes[i], no[i])) }
        fn sum(self, v: V) -> f32 {
            // Registers 0 and 2, 1 and 3 hold lanes that are 8 apart.
            let v = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
            let mut lanes = [0.0f32; 4];
            vst1q_f32(lanes.as_mut_ptr(), v);
            (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
        }
        fn max_lane(self, v: V) -> f32 { vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(v[0], v[1]), vmaxnmq_f32(v[2], v[3]))) }
        fn scaled_table(self, codebook: &'static Codebook, d: f32) -> Affine {
            Affine { codebook: vld1q_s8(codebook.bytes.as_ptr()), d: vdupq_n_f32(d), m: None }
        }
        fn affine_table(self, codebook: &'static Codebook, d: f32, m: f32) -> Affine {
            Affine { codebook: vld1q_s8(codebook.bytes.as_ptr()), d: vdupq_n_f32(d), m: Some(vdupq_n_f32(m)) }
        }
        fn affine_table5(self, d: f32, m: f32) -> [float32x4_t; 2] { [vdupq_n_f32(d), vdupq_n_f32(m)] }
        fn lookup(self, table: Affine, codes: uint8x16_t) -> V {
            let values = signed(vqtbl1q_s8(table.codebook, codes));
            match table.m {
                Some(m) => each(|i| vfmaq_f32(m, values[i], table.d)),
                None => each(|i| vmulq_f32(values[i], table.d)),
            }
        }
        fn lookup5(self, table: [float32x4_t; 2], codes: uint8x16_t, high: uint8x16_t) -> V {
            let values = signed(vreinterpretq_s8_u8(vorrq_u8(codes, vandq_u8(high, vdupq_n_u8(16)))));
            each(|i| vfmaq_f32(table[1], values[i], table[0]))
        }
        fn mask_of_bits(self, bits: u16) -> uint8x16_t {
            const ONE: [u8; LANES] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
            let [low, high] = bits.to_le_bytes();
            let one = vld1q_u8(ONE.as_ptr());
            vceqq_u8(vandq_u8(vcombine_u8(vdup_n_u8(low), vdup_n_u8(high)), one), one)
        }
        fn add_where(self, mask: uint8x16_t, v: V, x: V) -> V {
            let masks = signed_integers(vreinterpretq_s8_u8(mask));
            each(|i| vbslq_f32(masks[i], vaddq_f32(v[i], x[i]), v[i]))
        }
    }

    memory_intrinsics! {
        fn load(self, p: *const f32) -> V { each(|i| vld1q_f32(p.add(4 * i))) }
        fn store(self, p: *mut f32, v: V) {
            for (i, v) in v.into_iter().enumerate() {
                vst1q_f32(p.add(4 * i), v);
            }
        }
        fn half(self, p: *const u8) -> f32 { f16_to_f32(p.cast::<u16>().read_unaligned()) }
        fn two_halves(self, p: *const u8) -> [f32; 2] {
            [f16_to_f32(p.cast::<u16>().read_unaligned()), f16_to_f32(p.cast::<u16>().add(1).read_unaligned())]
        }
        fn halves(self, p: *const u8) -> V {
            let words = words(p);
            each(|i| widen_halves(words[i]))
        }
        fn bfloats(self, p: *const u8) -> V {
            let words = words(p);
            each(|i| vreinterpretq_f32_u32(vshlq_n_u32::<16>(words[i])))
        }
        fn store_halves(self, p: *mut u8, v: V) {
            let narrow = |v: float32x4_t| vmovn_u32(narrow_to_halves(v));
            vst1q_u16(p.cast(), vcombine_u16(narrow(v[0]), narrow(v[1])));
            vst1q_u16(p.add(16).cast(), vcombine_u16(narrow(v[2]), narrow(v[3])));
        }
        fn signed_bytes(self, p: *const u8) -> V { signed(vld1q_s8(p.cast())) }
        fn codes(self, p: *const u8, shift: usize) -> uint8x16_t {
            vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8(-(shift as i8))), vdupq_n_u8(0xF))
        }
        fn mask_of_bytes(self, p: *const u8, bit: usize) -> uint8x16_t {
            let bit = vdupq_n_u8(1 << bit);
            vceqq_u8(vandq_u8(vld1q_u8(p), bit), bit)
        }
        fn six_bits(self, ql: *const u8, low: usize, qh: *const u8, high: usize) -> V {
            let low = vandq_u8(vshlq_u8(vld1q_u8(ql), vdupq_n_s8(-(low as i8))), vdupq_n_u8(0xF));
            let two = vandq_u8(vshlq_u8(vld1q_u8(qh), vdupq_n_s8(-(high as i8))), vdupq_n_u8(3));
            signed(vreinterpretq_s8_u8(vorrq_u8(low, vshlq_n_u8::<4>(two))))
        }
    }
}

/// Sixteen 16-bit words, each in 32 bits.
///
/// # Safety
/// `p` points at 32 readable bytes, on a processor with NEON.
#[inline(always)]
unsafe fn words(p: *const u8) -> [uint32x4_t; 4] {
    // SAFETY: as the caller vouches.
    unsafe {
        let (low, high): (uint16x8_t, uint16x8_t) = (vld1q_u16(p.cast()), vld1q_u16(p.add(16).cast()));
        [
            vmovl_u16(vget_low_u16(low)),
            vmovl_u16(vget_high_u16(low)),
            vmovl_u16(vget_low_u16(high)),
            vmovl_u16(vget_high_u16(high)),
        ]
    }
}

/// The method of [`f16_to_f32`], on four lanes.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn widen_halves(bits: uint32x4_t) -> float32x4_t {
    // SAFETY: as the caller vouches.
    unsafe {
        let sign = vshlq_n_u32::<16>(vandq_u32(bits, vdupq_n_u32(0x8000)));
        let rest = vandq_u32(bits, vdupq_n_u32(0x7FFF));
        let placed = vshlq_n_u32::<13>(rest);
        let finite = vreinterpretq_u32_f32(vmulq_f32(
            vreinterpretq_f32_u32(placed),
            vreinterpretq_f32_u32(vdupq_n_u32(239 << 23)),
        ));
        let special = vorrq_u32(placed, vdupq_n_u32(0x7F80_0000));
        let magnitude = vbslq_u32(vcgeq_u32(rest, vdupq_n_u32(0x7C00)), special, finite);
        vreinterpretq_f32_u32(vorrq_u32(magnitude, sign))
    }
}

/// The method of [`zinc_gguf::quants::float::f32_to_f16`], on four lanes; each result is in 32 bits.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn narrow_to_halves(v: float32x4_t) -> uint32x4_t {
    // SAFETY: as the caller vouches.
    unsafe {
        let bits = vreinterpretq_u32_f32(v);
        let sign = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(0x8000));
        let magnitude = vandq_u32(bits, vdupq_n_u32(0x7FFF_FFFF));
        let odd = vandq_u32(vshrq_n_u32::<13>(magnitude), vdupq_n_u32(1));
        let rebased = vaddq_u32(vsubq_u32(magnitude, vdupq_n_u32(0x3800_0000)), vaddq_u32(odd, vdupq_n_u32(0xFFF)));
        let normal = vshrq_n_u32::<13>(rebased);
        let aligned = vaddq_f32(vreinterpretq_f32_u32(magnitude), vdupq_n_f32(0.5));
        let subnormal = vsubq_u32(vreinterpretq_u32_f32(aligned), vdupq_n_u32(0x3F00_0000));
        let small = vbslq_u32(vcgeq_u32(magnitude, vdupq_n_u32(0x3880_0000)), normal, subnormal);
        let large = vbslq_u32(vcgeq_u32(magnitude, vdupq_n_u32(0x4780_0000)), vdupq_n_u32(0x7C00), small);
        vorrq_u32(vbslq_u32(vcgtq_u32(magnitude, vdupq_n_u32(0x7F80_0000)), vdupq_n_u32(0x7E00), large), sign)
    }
}

/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn signed_integers(bytes: int8x16_t) -> [uint32x4_t; 4] {
    // SAFETY: as the caller vouches.
    unsafe {
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes)));
        let parts = [vget_low_s16(low), vget_high_s16(low), vget_low_s16(high), vget_high_s16(high)];
        parts.map(|part| vreinterpretq_u32_s32(vmovl_s16(part)))
    }
}

/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn signed(bytes: int8x16_t) -> V {
    // SAFETY: as the caller vouches.
    unsafe {
        let integers = signed_integers(bytes);
        each(|i| vcvtq_f32_s32(vreinterpretq_s32_u32(integers[i])))
    }
}
