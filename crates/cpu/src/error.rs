//! What can be wrong with what this crate is given from outside.

use zinc_gguf::DType;

/// A reason not to compute.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A matrix whose rows are no whole number of blocks.
    #[error("a row of {n_in} weights is no whole number of {dtype} blocks, which have {}", dtype.block_len())]
    RowLength {
        /// Storage type.
        dtype: DType,
        /// Weights of a row.
        n_in: usize,
    },
    /// A matrix with the wrong number of bytes.
    #[error("a {dtype} matrix of {n_rows} rows of {n_in} weights has {expected} bytes, not {got}")]
    MatrixBytes {
        /// Storage type.
        dtype: DType,
        /// Weights of a row.
        n_in: usize,
        /// Rows.
        n_rows: usize,
        /// Bytes of that shape; `usize::MAX` when that is past counting.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// An instruction set that this processor has not.
    #[error("this processor has no {0}")]
    NoIsa(crate::Isa),
    /// The system refuses threads.
    #[error("cannot start {n_threads} threads")]
    Threads {
        /// Threads asked for.
        n_threads: usize,
        /// The system's word.
        source: std::io::Error,
    },
}
