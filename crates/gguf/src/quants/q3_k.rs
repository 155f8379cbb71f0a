//! Q3_K: 256 weights of 3 bits in 16 groups of 16, each group with a signed 6-bit scale.
//! `w = (d * (scale - 32)) * (q - 4)`, where `q` is two low bits and one high bit.
//!
//! The low bits lie as in [`super::q2_k`]. The high bit of weight `32k + i` is bit `k` of byte `i` of the high bits.

#![forbid(unsafe_code)]

use super::float::f16_at;
use super::q2_k::place;

/// Weights in a block.
pub const BLOCK_LEN: usize = 256;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = D + 2;
/// Weights that share a scale.
pub const GROUP_LEN: usize = 16;
/// Byte offset of the high bits.
pub const HMASK: usize = 0;
/// Byte offset of the low bits.
pub const QS: usize = 32;
/// Byte offset of the packed scales, see [`unpack_scales`].
pub const SCALES: usize = 96;
/// Bytes of the packed scales.
pub const SCALES_BYTES: usize = 12;
/// Byte offset of the scales' scale, a half.
pub const D: usize = 108;
/// What the scales are offset by.
pub const SCALE_ZERO_POINT: i8 = 32;
/// What the three-bit numbers are offset by.
pub const ZERO_POINT: i8 = 4;

/// Converts one block.
pub fn dequantize_block(block: &[u8; BLOCK_BYTES], weights: &mut [f32; BLOCK_LEN]) {
    let d = f16_at(block, D);
    let packed: &[u8; SCALES_BYTES] = block[SCALES..].first_chunk().expect("the scales lie within the block");
    let scales = unpack_scales(packed);
    for (group, weights) in weights.as_chunks_mut::<GROUP_LEN>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group]);
        let (offset, shift) = place(group);
        let low = &block[QS + offset..];
        let high = &block[HMASK + group % 2 * GROUP_LEN..];
        for ((weight, &low), &high) in weights.iter_mut().zip(low).zip(high) {
            let q = low >> shift & 3 | (high >> (group / 2) & 1) << 2;
            *weight = scale * f32::from(q.cast_signed() - ZERO_POINT);
        }
    }
}

/// The groups' scales, from -32 to 31.
///
/// Bytes 0 to 7 hold the low four bits: of scale `j` in the low half, of scale `j + 8` in the high half. Bytes 8 to 11
/// hold the high two bits: of scale `j + 4k` at bit `2k` of byte `8 + j`.
pub fn unpack_scales(packed: &[u8; SCALES_BYTES]) -> [i8; BLOCK_LEN / GROUP_LEN] {
    std::array::from_fn(|group| {
        let low = packed[group % 8] >> (group / 8 * 4) & 0xf;
        let high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
        (low | high << 4).cast_signed() - SCALE_ZERO_POINT
    })
}
