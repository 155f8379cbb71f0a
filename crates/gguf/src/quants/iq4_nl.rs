//! IQ4_NL: 32 weights as 4-bit indices into a fixed codebook, with one scale. `w[i] = d * CODEBOOK[q[i]]`.
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
/// The sixteen levels, denser near zero.
pub const CODEBOOK: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let nibbles = block[QS..].first_chunk().expect("the nibbles lie within the block");
    look_up(d, &CODEBOOK, nibbles, weights);
}

/// 32 weights of one scale from a codebook of signed bytes.
pub(super) fn look_up(d: f32, codebook: &[i8; 16], nibbles: &[u8; 16], weights: &mut [f32; 32]) {
    let (low, high) = weights.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(nibbles) {
        *low = d * f32::from(codebook[usize::from(byte & 0xf)]);
        *high = d * f32::from(codebook[usize::from(byte >> 4)]);
    }
}
