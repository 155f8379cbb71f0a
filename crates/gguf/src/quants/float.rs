//! Half precision and bfloat16, and the three element types that are plain floats.
//!
//! Block scales are half precision, so the two conversions here are in every inner loop: they have no table and no
//! branch that depends on the value's kind when widening.

#![forbid(unsafe_code)]

/// Widens a half. Exact; signs, infinities, subnormals and the payload of NaNs are kept.
pub const fn f16_to_f32(half: u16) -> f32 {
    // The difference between the exponent biases, as a factor: it also normalises subnormals.
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    const FIRST_BEYOND: f32 = 65536.0;
    let sign = ((half & 0x8000) as u32) << 16;
    let magnitude = f32::from_bits(((half & 0x7fff) as u32) << 13) * REBIAS;
    let exponent = if magnitude >= FIRST_BEYOND { 0xff << 23 } else { 0 };
    f32::from_bits(magnitude.to_bits() | exponent | sign)
}

/// Narrows to a half, to nearest with ties to even. What lies beyond the range becomes infinite, NaN stays NaN.
pub const fn f32_to_f16(single: f32) -> u16 {
    const INFINITY: u32 = 0x7f80_0000;
    /// Halfway between the largest half and the next power of two: from here on rounding gives infinity.
    const OVERFLOW: u32 = 0x477f_f000;
    const SMALLEST_NORMAL: u32 = 0x3880_0000;
    let bits = single.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > INFINITY {
        0x7e00
    } else if magnitude >= OVERFLOW {
        0x7c00
    } else if magnitude < SMALLEST_NORMAL {
        // The last bit of a number near 0.5 is worth 2^-24, a subnormal half's unit, so the addition rounds for us.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let is_odd = magnitude >> 13 & 1;
        (magnitude - (112 << 23) + 0xfff + is_odd) >> 13
    };
    (sign | half) as u16
}

/// Widens a bfloat16. Exact.
pub const fn bf16_to_f32(brain: u16) -> f32 {
    f32::from_bits((brain as u32) << 16)
}

/// Narrows to bfloat16, to nearest with ties to even. NaN stays NaN, made quiet.
pub const fn f32_to_bf16(single: f32) -> u16 {
    let bits = single.to_bits();
    if single.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let is_odd = bits >> 16 & 1;
    ((bits + 0x7fff + is_odd) >> 16) as u16
}

/// The little-endian `u16` at byte `offset` of a block.
pub(super) fn u16_at(block: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([block[offset], block[offset + 1]])
}

/// The half at byte `offset` of a block, widened.
pub(super) fn f16_at(block: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16_at(block, offset))
}
