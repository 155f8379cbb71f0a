//! MXFP4: 32 weights as 4-bit floats with one power-of-two scale, after the OCP Microscaling Formats specification 1.0.
//! `w[i] = 2^(e - 127) * value(q[i])`.
//!
//! Byte `i` of the nibbles holds weight `i` in its low half and weight `i + 16` in its high half. The codebook holds
//! the values doubled, so that they are integers, and the scale is halved to match. The specification makes `e = 255`
//! NaN; here it is a power of two like the others, as in the format's reference implementation.

#![forbid(unsafe_code)]

use super::iq4_nl::look_up;

/// Weights in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Byte offset of the exponent `e`.
pub const E: usize = 0;
/// Byte offset of the nibbles.
pub const QS: usize = 1;
/// Twice the value of each E2M1 code.
pub const CODEBOOK: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let nibbles = block[QS..].first_chunk().expect("the nibbles lie within the block");
    look_up(half_scale(block[E]), &CODEBOOK, nibbles, weights);
}

/// `2^(e - 128)`: the scale for the doubled codebook. Subnormal for `e` of 0 and 1.
pub const fn half_scale(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e as u32 - 1) << 23 })
}
