//! Q2_K: 256 weights of 2 bits in 16 groups of 16, each group with a 4-bit scale and a 4-bit minimum.
//! `w = (d * scale) * q - (dmin * min)`.
//!
//! Each half of the block (128 weights) has 32 bytes of quants: bits `2k` and `2k + 1` of byte `i` are weight `32k +
//! i`.

#![forbid(unsafe_code)]

use super::float::f16_at;

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = DMIN + 2;
/// Weights that share a scale and a minimum.
pub const GROUP_LEN: usize = 16;
/// Byte offset of the groups' scales (low nibble) and minimums (high nibble), a byte each.
pub const SCALES: usize = 0;
/// Byte offset of the 2-bit quants.
pub const QS: usize = 16;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 80;
/// Byte offset of the minimums' scale, a half.
pub const DMIN: usize = 82;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let dmin = f16_at(block, DMIN);
    for (group, weights) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().enumerate() {
        let packed = block[SCALES + group];
        let scale = d * f32::from(packed & 0xf);
        let min = dmin * f32::from(packed >> 4);
        let (offset, shift) = place(group);
        for (weight, &byte) in weights.iter_mut().zip(&block[QS + offset..]) {
            *weight = scale * f32::from(byte >> shift & 3) - min;
        }
    }
}

/// Where the two low bits of group `group` (0 to 15) lie: byte offset within the quants, and right shift. Q3_K has the
/// same order.
pub const fn place(group: usize) -> (usize, usize) {
    let half = group / 8;
    (half * 32 + group % 2 * GROUP_LEN, group % 8 / 2 * 2)
}
