//! Q5_K: 256 weights of 5 bits in 8 groups of 32, each group with a 6-bit scale and a 6-bit minimum.
//! `w = (d * scale) * q - (dmin * min)`.
//!
//! Scales, minimums and the low four bits lie as in [`super::q4_k`]. The fifth bit of weight `i` of group `k` is bit
//! `k` of byte `i` of the high bits.

#![forbid(unsafe_code)]

use super::float::f16_at;
use super::q4_k::{SCALES_BYTES, unpack_scales};

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = QS + BLOCK_LEN / 2;
/// Weights that share a scale and a minimum.
pub const GROUP_LEN: usize = 32;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 0;
/// Byte offset of the minimums' scale, a half.
pub const DMIN: usize = 2;
/// Byte offset of the packed scales and minimums, see [`unpack_scales`].
pub const SCALES: usize = 4;
/// Byte offset of the fifth bits.
pub const QH: usize = 16;
/// Byte offset of the nibbles.
pub const QS: usize = 48;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let dmin = f16_at(block, DMIN);
    let packed: &[u8; SCALES_BYTES] = block[SCALES..].first_chunk().expect("the scales lie within the block");
    let (scales, mins) = unpack_scales(packed);
    for (group, weights) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group]);
        let min = dmin * f32::from(mins[group]);
        let low = &block[QS + group / 2 * GROUP_LEN..];
        let shift = group % 2 * 4;
        for ((weight, &low), &high) in weights.iter_mut().zip(low).zip(&block[QH..QS]) {
            let q = low >> shift & 0xf | (high >> group & 1) << 4;
            *weight = scale * f32::from(q) - min;
        }
    }
}
