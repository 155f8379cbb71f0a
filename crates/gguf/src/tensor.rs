//! One row of the tensor table, and the arithmetic that every row must survive.
//!
//! Offsets against the file and against each other are checked in [`crate::header`].

#![forbid(unsafe_code)]

use crate::{DType, Error};

/// Axes of a tensor at most, by the format.
pub(crate) const N_AXES_MAX: usize = 4;

/// A tensor's place in the file and what it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorInfo {
    /// The name, unique in the model.
    pub name: String,
    /// Lengths of the axes, fastest first: 1 to 4 of them, none zero. The fastest one is a multiple of the type's
    /// block.
    pub shape: Vec<u64>,
    /// The element type.
    pub dtype: DType,
    /// Which file of a split model holds it, from 0.
    pub(crate) part: usize,
    /// Where its bytes begin, from the start of that file.
    pub(crate) file_offset: u64,
    pub(crate) n_bytes: u64,
}

impl TensorInfo {
    /// The number of weights.
    pub fn n_elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The number of bytes in the file.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Where the bytes begin, counted from the start of the file that holds them.
    pub fn file_offset(&self) -> u64 {
        self.file_offset
    }

    /// Which file of a split model holds the tensor, from 0; 0 for a model in one file.
    pub fn part(&self) -> usize {
        self.part
    }
}

/// The bytes of a tensor, or why it cannot exist. Sizes stay under 2^63 so that sums of two cannot wrap.
pub(crate) fn checked_n_bytes(tensor: &str, shape: &[u64], dtype: DType) -> Result<u64, Error> {
    if shape.is_empty() || shape.len() > N_AXES_MAX {
        return Err(Error::TensorAxes { tensor: tensor.to_owned(), got: shape.len() as u64 });
    }
    if shape.contains(&0) {
        return Err(Error::ZeroAxis { tensor: tensor.to_owned(), got: shape.to_vec() });
    }
    let block_len = dtype.block_len() as u64;
    if !shape[0].is_multiple_of(block_len) {
        return Err(Error::TensorRow { tensor: tensor.to_owned(), dtype, got: shape[0] });
    }
    let n_elements = shape.iter().try_fold(1u64, |n, &axis| n.checked_mul(axis));
    let n_bytes = n_elements.and_then(|n| (n / block_len).checked_mul(dtype.block_bytes() as u64));
    match (n_elements, n_bytes) {
        (Some(n_elements), Some(n_bytes)) if n_elements.max(n_bytes) <= i64::MAX as u64 => Ok(n_bytes),
        _ => Err(Error::TensorSize { tensor: tensor.to_owned(), shape: shape.to_vec() }),
    }
}
