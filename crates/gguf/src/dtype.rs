//! The element types of tensors: names, ids in the file, and how many bytes hold how many weights.
//!
//! What the bytes of a block mean is in [`crate::quants`]; here they only have a size.

#![forbid(unsafe_code)]

use crate::quants::{iq4_nl, iq4_xs, mxfp4, q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0};
use std::fmt;

/// A tensor's element type. Quantised types store weights in blocks of [`DType::block_len`].
#[allow(non_camel_case_types, reason = "the names are those of the file format, known to every user")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an IEEE single.
    BF16,
    /// 4 bits, scale per 32.
    Q4_0,
    /// 4 bits, scale and minimum per 32.
    Q4_1,
    /// 5 bits, scale per 32.
    Q5_0,
    /// 5 bits, scale and minimum per 32.
    Q5_1,
    /// 8 bits, scale per 32.
    Q8_0,
    /// 2 bits, 4-bit scale and minimum per 16, in blocks of 256.
    Q2_K,
    /// 3 bits, 6-bit scale per 16, in blocks of 256.
    Q3_K,
    /// 4 bits, 6-bit scale and minimum per 32, in blocks of 256.
    Q4_K,
    /// 5 bits, 6-bit scale and minimum per 32, in blocks of 256.
    Q5_K,
    /// 6 bits, 8-bit scale per 16, in blocks of 256.
    Q6_K,
    /// 4-bit index into a fixed codebook, scale per 32.
    IQ4_NL,
    /// The codebook of `IQ4_NL`, 6-bit scale per 32, in blocks of 256.
    IQ4_XS,
    /// OCP microscaling: 4-bit floats (E2M1) with a power-of-two scale (E8M0) per 32.
    MXFP4,
}

impl DType {
    /// Every supported type.
    pub const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::MXFP4,
    ];

    /// Weights in a block; 1 for the float types.
    pub const fn block_len(self) -> usize {
        self.layout().0
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.layout().1
    }

    /// Bytes of a row of `n` weights; `None` when `n` is no multiple of [`DType::block_len`] or the bytes exceed
    /// `usize`.
    pub const fn row_bytes(self, n: usize) -> Option<usize> {
        if n.is_multiple_of(self.block_len()) { (n / self.block_len()).checked_mul(self.block_bytes()) } else { None }
    }

    /// The id that stands for the type in a file.
    pub const fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q2_K => 10,
            Self::Q3_K => 11,
            Self::Q4_K => 12,
            Self::Q5_K => 13,
            Self::Q6_K => 14,
            Self::IQ4_NL => 20,
            Self::IQ4_XS => 23,
            Self::BF16 => 30,
            Self::MXFP4 => 39,
        }
    }

    /// The type that `id` stands for, when we support it.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.id() == id)
    }

    /// The type's name as users know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2_K => "Q2_K",
            Self::Q3_K => "Q3_K",
            Self::Q4_K => "Q4_K",
            Self::Q5_K => "Q5_K",
            Self::Q6_K => "Q6_K",
            Self::IQ4_NL => "IQ4_NL",
            Self::IQ4_XS => "IQ4_XS",
            Self::MXFP4 => "MXFP4",
        }
    }

    /// (weights, bytes) of a block.
    const fn layout(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::BF16 => (1, 2),
            Self::Q4_0 => (q4_0::BLOCK_LEN, q4_0::BLOCK_BYTES),
            Self::Q4_1 => (q4_1::BLOCK_LEN, q4_1::BLOCK_BYTES),
            Self::Q5_0 => (q5_0::BLOCK_LEN, q5_0::BLOCK_BYTES),
            Self::Q5_1 => (q5_1::BLOCK_LEN, q5_1::BLOCK_BYTES),
            Self::Q8_0 => (q8_0::BLOCK_LEN, q8_0::BLOCK_BYTES),
            Self::Q2_K => (q2_k::BLOCK_LEN, q2_k::BLOCK_BYTES),
            Self::Q3_K => (q3_k::BLOCK_LEN, q3_k::BLOCK_BYTES),
            Self::Q4_K => (q4_k::BLOCK_LEN, q4_k::BLOCK_BYTES),
            Self::Q5_K => (q5_k::BLOCK_LEN, q5_k::BLOCK_BYTES),
            Self::Q6_K => (q6_k::BLOCK_LEN, q6_k::BLOCK_BYTES),
            Self::IQ4_NL => (iq4_nl::BLOCK_LEN, iq4_nl::BLOCK_BYTES),
            Self::IQ4_XS => (iq4_xs::BLOCK_LEN, iq4_xs::BLOCK_BYTES),
            Self::MXFP4 => (mxfp4::BLOCK_LEN, mxfp4::BLOCK_BYTES),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a type id that we do not support is called elsewhere, for error messages.
pub(crate) fn foreign_type_name(id: u32) -> &'static str {
    match id {
        4 => "Q4_2, withdrawn",
        5 => "Q4_3, withdrawn",
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        21 => "IQ3_S",
        22 => "IQ2_S",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        40 => "NVFP4",
        41 => "Q1_0",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::{DType, foreign_type_name};

    #[test]
    fn ids_are_unique_and_lead_back() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_id(dtype.id()), Some(dtype));
            assert_eq!(foreign_type_name(dtype.id()), "unknown");
        }
        assert_eq!(DType::from_id(u32::MAX), None);
    }

    #[test]
    fn rows_are_whole_blocks() {
        assert_eq!(DType::Q4_K.row_bytes(512), Some(288));
        assert_eq!(DType::Q4_K.row_bytes(511), None);
        assert_eq!(DType::F32.row_bytes(3), Some(12));
        assert_eq!(DType::F32.row_bytes(usize::MAX), None);
    }
}
