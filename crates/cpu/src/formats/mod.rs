//! How the weights of each type become f32 in registers.
//!
//! One definition per type over [`Simd`]; the layouts are those of [`zinc_gguf::quants`]. Every
//! weight is rounded once, so it equals the dequantised value of that crate on every instruction
//! set, whether it is multiplied at once or written to a panel first.

mod five_bits;
mod floats;
mod four_bits;
mod q2_k;
mod q3_k;
mod q4_k;
mod q5_k;
mod q6_k;
mod q8_0;

pub(crate) use five_bits::{Q5_0, Q5_1};
pub(crate) use floats::{BF16, F16, F32};
pub(crate) use four_bits::{IQ4_NL, IQ4_XS, MXFP4, Q4_0, Q4_1};
pub(crate) use q2_k::Q2_K;
pub(crate) use q3_k::Q3_K;
pub(crate) use q4_k::Q4_K;
pub(crate) use q5_k::Q5_K;
pub(crate) use q6_k::Q6_K;
pub(crate) use q8_0::Q8_0;

use crate::isa::Simd;

/// Most weights of a [`Format`] unit.
pub(crate) const UNIT_WEIGHTS_MAX: usize = 256;
/// Most scales of a [`Format`] unit of 32 weights, and of one of 256.
pub(crate) const SCALES_MAX: [usize; 2] = [2, 32];

/// A storage type of weights.
///
/// A row is a run of units. Its scales are unpacked first, for many units at once, into plain f32:
/// they then enter the weights' arithmetic as broadcasts from memory, which cost nothing on the
/// vector ports.
pub(crate) trait Format {
    /// Weights in a unit: 32 or 256.
    const WEIGHTS: usize;
    /// Bytes of a unit.
    const BYTES: usize;
    /// f32 that [`Format::scales`] writes for a unit.
    const SCALES: usize;

    /// Unpacks the scales of a unit.
    ///
    /// # Safety
    /// `unit` points at `BYTES` readable bytes, `out` at [`SCALES_MAX`] writable f32.
    unsafe fn scales<S: Simd>(s: S, unit: *const u8, out: *mut f32);

    /// Weights `32 J` to `32 J + 31` of a unit. `J` is a constant so that what depends on the place
    /// in the unit is decided when the loop over it is unrolled ([`each_pair`]).
    ///
    /// # Safety
    /// `unit` points at `BYTES` readable bytes, `scales` at what [`Format::scales`] wrote for it;
    /// `J < WEIGHTS / 32`.
    unsafe fn pair<S: Simd, const J: usize>(s: S, unit: *const u8, scales: *const f32) -> [S::V; 2];
}

/// Runs `$body` with the constant `$j` for each pair of a unit of `$format`, unrolled.
macro_rules! each_pair {
    ($format:ident, $j:ident => $body:block) => {
        each_pair!(@ $format, $j => $body, 0, 1, 2, 3, 4, 5, 6, 7);
    };
    (@ $format:ident, $j:ident => $body:block, $($at:literal),*) => {
        $(
            if $at < $format::WEIGHTS / 32 {
                const $j: usize = $at;
                $body
            }
        )*
    };
}
pub(crate) use each_pair;

/// Evaluates an expression with the [`Format`] of a storage type as `$format`.
macro_rules! with_format {
    ($dtype:expr, $format:ident => $body:expr) => {
        match $dtype {
            zinc_gguf::DType::F32 => {
                type $format = $crate::formats::F32;
                $body
            }
            zinc_gguf::DType::F16 => {
                type $format = $crate::formats::F16;
                $body
            }
            zinc_gguf::DType::BF16 => {
                type $format = $crate::formats::BF16;
                $body
            }
            zinc_gguf::DType::Q4_0 => {
                type $format = $crate::formats::Q4_0;
                $body
            }
            zinc_gguf::DType::Q4_1 => {
                type $format = $crate::formats::Q4_1;
                $body
            }
            zinc_gguf::DType::Q5_0 => {
                type $format = $crate::formats::Q5_0;
                $body
            }
            zinc_gguf::DType::Q5_1 => {
                type $format = $crate::formats::Q5_1;
                $body
            }
            zinc_gguf::DType::Q8_0 => {
                type $format = $crate::formats::Q8_0;
                $body
            }
            zinc_gguf::DType::Q2_K => {
                type $format = $crate::formats::Q2_K;
                $body
            }
            zinc_gguf::DType::Q3_K => {
                type $format = $crate::formats::Q3_K;
                $body
            }
            zinc_gguf::DType::Q4_K => {
                type $format = $crate::formats::Q4_K;
                $body
            }
            zinc_gguf::DType::Q5_K => {
                type $format = $crate::formats::Q5_K;
                $body
            }
            zinc_gguf::DType::Q6_K => {
                type $format = $crate::formats::Q6_K;
                $body
            }
            zinc_gguf::DType::IQ4_NL => {
                type $format = $crate::formats::IQ4_NL;
                $body
            }
            zinc_gguf::DType::IQ4_XS => {
                type $format = $crate::formats::IQ4_XS;
                $body
            }
            zinc_gguf::DType::MXFP4 => {
                type $format = $crate::formats::MXFP4;
                $body
            }
        }
    };
}
pub(crate) use with_format;
