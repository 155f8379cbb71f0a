//! Q5_1: 32 weights of 5 bits with one scale and one minimum. `w[i] = d * q[i] + m`.
//!
//! The five bits lie as in [`super::q5_0`].

#![forbid(unsafe_code)]

use super::float::f16_at;
use super::q5_0::unpack;

/// Weights in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Byte offset of the scale `d`, a half.
pub const D: usize = 0;
/// Byte offset of the minimum `m`, a half.
pub const M: usize = 2;
/// Byte offset of the word of fifth bits.
pub const QH: usize = 4;
/// Byte offset of the nibbles.
pub const QS: usize = 8;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let m = f16_at(block, M);
    for (weight, q) in weights.iter_mut().zip(unpack(block, QH, QS)) {
        *weight = d * f32::from(q) + m;
    }
}
