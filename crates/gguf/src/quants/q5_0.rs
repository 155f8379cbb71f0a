//! Q5_0: 32 weights of 5 bits with one scale. `w[i] = d * (q[i] - 16)`.
//!
//! Byte `i` of the nibbles holds the low four bits of weight `i` in its low half and of weight `i + 16` in its high
//! half; the fifth bit of weight `i` is bit `i` of a 32-bit word.

#![forbid(unsafe_code)]

use super::float::f16_at;

/// Weights in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Byte offset of the scale `d`, a half.
pub const D: usize = 0;
/// Byte offset of the word of fifth bits.
pub const QH: usize = 2;
/// Byte offset of the nibbles.
pub const QS: usize = 6;
/// What the five-bit numbers are offset by.
pub const ZERO_POINT: i8 = 16;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    for (weight, q) in weights.iter_mut().zip(unpack(block, QH, QS)) {
        *weight = d * f32::from(q.cast_signed() - ZERO_POINT);
    }
}

/// The five-bit numbers of a block whose fifth bits lie at byte `qh` and whose nibbles lie at byte `qs`.
pub(super) fn unpack(block: &[u8], qh: usize, qs: usize) -> [u8; BLOCK_LEN] {
    let fifth = u32::from_le_bytes([block[qh], block[qh + 1], block[qh + 2], block[qh + 3]]);
    let nibbles = &block[qs..qs + BLOCK_LEN / 2];
    std::array::from_fn(|i| {
        let nibble = if i < BLOCK_LEN / 2 { nibbles[i] & 0xf } else { nibbles[i - BLOCK_LEN / 2] >> 4 };
        nibble | ((fifth >> i & 1) as u8) << 4
    })
}
