//! Q8_0: 32 weights of 8 bits with one scale. `w[i] = d * q[i]`.

#![forbid(unsafe_code)]

use super::float::{f16_at, f32_to_f16};

/// Weights in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN;
/// Byte offset of the scale `d`, a half.
pub const D: usize = 0;
/// Byte offset of the 32 signed bytes.
pub const QS: usize = 2;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    for (weight, &q) in weights.iter_mut().zip(&block[QS..]) {
        *weight = f32::from(q.cast_signed()) * d;
    }
}

/// Makes one block: the largest magnitude becomes 127, the rest is rounded to nearest with ties away from zero.
///
/// Weights must be finite and at most 127 * 65504 in magnitude.
pub fn quantize_block(weights: &[f32; BLOCK_LEN]) -> [u8; BLOCK_BYTES] {
    let largest = weights.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs()));
    let d = largest / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut block = [0; BLOCK_BYTES];
    block[D..QS].copy_from_slice(&f32_to_f16(d).to_le_bytes());
    for (q, weight) in block[QS..].iter_mut().zip(weights) {
        *q = ((weight * inverse).round() as i8).cast_unsigned();
    }
    block
}
