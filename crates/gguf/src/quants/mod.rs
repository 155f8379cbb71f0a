//! Block formats: how each element type stores weights, and the conversions from and to `f32`.
//!
//! One module per type gives the formula, the byte layout as constants, and small functions that unpack its scales; the
//! backends' kernels share them. The conversions here are scalar and exact: every backend is tested against them, and
//! none runs them in its inner loop. Rows are whole blocks, so a tensor converts as one run of blocks.

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "bit fields are masked and codes are clamped before they are narrowed, and none comes from a file's header"
)]

pub mod float;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
mod search;

use crate::{DType, Error};

/// Converts whole blocks to `f32`. `src` must be exactly the bytes of `dst.len()` weights.
///
/// Any bytes are valid blocks; scales that are infinite or NaN give such weights.
pub fn dequantize(dtype: DType, src: &[u8], dst: &mut [f32]) -> Result<(), Error> {
    if dtype.row_bytes(dst.len()) != Some(src.len()) {
        return Err(Error::QuantLength { dtype, n_weights: dst.len(), got: src.len() });
    }
    match dtype {
        DType::F32 => widen(src, dst, f32::from_le_bytes),
        DType::F16 => widen(src, dst, |half| float::f16_to_f32(u16::from_le_bytes(half))),
        DType::BF16 => widen(src, dst, |brain| float::bf16_to_f32(u16::from_le_bytes(brain))),
        DType::Q4_0 => blocks_to_f32(src, dst, q4_0::dequantize_block),
        DType::Q4_1 => blocks_to_f32(src, dst, q4_1::dequantize_block),
        DType::Q5_0 => blocks_to_f32(src, dst, q5_0::dequantize_block),
        DType::Q5_1 => blocks_to_f32(src, dst, q5_1::dequantize_block),
        DType::Q8_0 => blocks_to_f32(src, dst, q8_0::dequantize_block),
        DType::Q2_K => blocks_to_f32(src, dst, q2_k::dequantize_block),
        DType::Q3_K => blocks_to_f32(src, dst, q3_k::dequantize_block),
        DType::Q4_K => blocks_to_f32(src, dst, q4_k::dequantize_block),
        DType::Q5_K => blocks_to_f32(src, dst, q5_k::dequantize_block),
        DType::Q6_K => blocks_to_f32(src, dst, q6_k::dequantize_block),
        DType::IQ4_NL => blocks_to_f32(src, dst, iq4_nl::dequantize_block),
        DType::IQ4_XS => blocks_to_f32(src, dst, iq4_xs::dequantize_block),
        DType::MXFP4 => blocks_to_f32(src, dst, mxfp4::dequantize_block),
    }
    Ok(())
}

/// Converts `f32` to whole blocks of F32, F16, BF16, Q8_0, Q4_K or Q6_K; other types are [`Error::NoQuantizer`].
///
/// Weights that are not finite or beyond the type's range are [`Error::Unrepresentable`], except that the three float
/// types keep infinities and NaN.
pub fn quantize(dtype: DType, src: &[f32]) -> Result<Vec<u8>, Error> {
    if dtype.row_bytes(src.len()).is_none() {
        return Err(Error::PartialBlock { dtype, got: src.len() });
    }
    Ok(match dtype {
        DType::F32 => src.iter().flat_map(|weight| weight.to_le_bytes()).collect(),
        DType::F16 => {
            check_range(dtype, src, |weight| !weight.is_finite() || float::f32_to_f16(weight.abs()) < 0x7c00)?;
            src.iter().flat_map(|&weight| float::f32_to_f16(weight).to_le_bytes()).collect()
        }
        DType::BF16 => {
            check_range(dtype, src, |weight| !weight.is_finite() || float::f32_to_bf16(weight.abs()) < 0x7f80)?;
            src.iter().flat_map(|&weight| float::f32_to_bf16(weight).to_le_bytes()).collect()
        }
        DType::Q8_0 => {
            check_range(dtype, src, |weight| weight.abs() <= 127.0 * 65504.0)?;
            f32_to_blocks(src, q8_0::quantize_block)
        }
        DType::Q4_K => {
            check_range(dtype, src, |weight| weight.abs() <= q4_k::WEIGHT_MAX)?;
            f32_to_blocks(src, q4_k::quantize_block)
        }
        DType::Q6_K => {
            check_range(dtype, src, |weight| weight.abs() <= q6_k::WEIGHT_MAX)?;
            f32_to_blocks(src, q6_k::quantize_block)
        }
        _ => return Err(Error::NoQuantizer { dtype }),
    })
}

fn widen<const BYTES: usize>(src: &[u8], dst: &mut [f32], convert: impl Fn([u8; BYTES]) -> f32) {
    for (weight, &bytes) in dst.iter_mut().zip(src.as_chunks().0) {
        *weight = convert(bytes);
    }
}

fn blocks_to_f32<const BYTES: usize, const LEN: usize>(
    src: &[u8],
    dst: &mut [f32],
    convert: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    for (block, weights) in src.as_chunks().0.iter().zip(dst.as_chunks_mut().0) {
        convert(block, weights);
    }
}

fn f32_to_blocks<const BYTES: usize, const LEN: usize>(
    src: &[f32],
    convert: impl Fn(&[f32; LEN]) -> [u8; BYTES],
) -> Vec<u8> {
    src.as_chunks().0.iter().flat_map(convert).collect()
}

fn check_range(dtype: DType, src: &[f32], is_in_range: impl Fn(f32) -> bool) -> Result<(), Error> {
    match src.iter().position(|&weight| !is_in_range(weight)) {
        None => Ok(()),
        Some(index) => Err(Error::Unrepresentable { dtype, index, got: src[index] }),
    }
}
