//! Q4_0: 32 weights of 4 bits with one scale. `w[i] = d * (q[i] - 8)`.
//!
//! Byte `i` of the nibbles holds weight `i` in its low half and weight `i + 16` in its high half.

#![forbid(unsafe_code)]

use super::float::f16_at;

/// Weights in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Byte offset of the scale `d`, a half.
pub const D: usize = 0;
/// Byte offset of the nibbles.
pub const QS: usize = 2;
/// What the nibbles are offset by.
pub const ZERO_POINT: i8 = 8;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let (low, high) = weights.split_at_mut(BLOCK_LEN / 2);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(&block[QS..]) {
        *low = d * f32::from((byte & 0xf).cast_signed() - ZERO_POINT);
        *high = d * f32::from((byte >> 4).cast_signed() - ZERO_POINT);
    }
}
