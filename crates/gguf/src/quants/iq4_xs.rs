//! IQ4_XS: 256 weights as indices into the codebook of [`super::iq4_nl`], in 8 groups of 32, each with a signed 6-bit
//! scale. `w = (d * (scale - 32)) * CODEBOOK[q]`.
//!
//! A group's 16 bytes of nibbles lie as in `IQ4_NL`.

#![forbid(unsafe_code)]

use super::float::{f16_at, u16_at};
use super::iq4_nl::{CODEBOOK, look_up};

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Weights that share a scale.
pub const GROUP_LEN: usize = 32;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 0;
/// Byte offset of the scales' high two bits: those of group `k` at bit `2k` of a 16-bit word.
pub const SCALES_H: usize = 2;
/// Byte offset of the scales' low four bits: group `2k` in the low half of byte `k`, group `2k + 1` in the high half.
pub const SCALES_L: usize = 4;
/// Byte offset of the nibbles.
pub const QS: usize = 8;
/// What the scales are offset by.
pub const SCALE_ZERO_POINT: i8 = 32;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let scales = unpack_scales(block);
    let nibbles = block[QS..].as_chunks::<{ GROUP_LEN / 2 }>().0;
    for ((weights, nibbles), scale) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().zip(nibbles).zip(scales) {
        look_up(d * f32::from(scale), &CODEBOOK, nibbles, weights);
    }
}

/// The groups' scales, from -32 to 31.
pub fn unpack_scales(block: &[u8; BLOCK_BYTES]) -> [i8; BLOCK_LEN / GROUP_LEN] {
    let high = u16_at(block, SCALES_H);
    std::array::from_fn(|group| {
        let low = block[SCALES_L + group / 2] >> (group % 2 * 4) & 0xf;
        let high = (high >> (group * 2) & 3) as u8;
        (low | high << 4).cast_signed() - SCALE_ZERO_POINT
    })
}
