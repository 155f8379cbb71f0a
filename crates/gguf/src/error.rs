//! What can be wrong with a file, a look-up, or a request to this crate.
//!
//! Names that come from a file are printed escaped, so that a hostile file cannot write control sequences to a
//! terminal.

#![forbid(unsafe_code)]

use crate::DType;
use crate::dtype::foreign_type_name;
use std::io;
use std::path::PathBuf;

/// An error of this crate. Errors about a file opened by path come wrapped in [`Error::File`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The error and the file that it is about.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The operating system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried, as in "open the file".
        action: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// The path leads to something that has no fixed content.
    #[error("expected a regular file, got a {got}")]
    NotAFile {
        /// What is there: a directory, a pipe, a device.
        got: &'static str,
    },
    /// No bytes at all.
    #[error("the file is empty, expected a GGUF file")]
    Empty,
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with \"{}\", expected \"GGUF\"", got.escape_ascii())]
    NotGguf {
        /// The bytes found, fewer than four in a tiny file.
        got: Vec<u8>,
    },
    /// A file for big-endian machines.
    #[error("the file is big-endian (version {version}), expected little-endian")]
    BigEndian {
        /// The version, as its bytes read in that order.
        version: u32,
    },
    /// A version that we do not read or write.
    #[error("GGUF version {got} is not supported, expected 2 or 3")]
    Version {
        /// The version found.
        got: u32,
    },
    /// The header wants more bytes than the file has.
    #[error("{field} needs {expected} bytes at offset {offset}, but {got} are left in the file")]
    HeaderEnds {
        /// The field that does not fit.
        field: String,
        /// Where it begins, in bytes from the start of the file.
        offset: u64,
        /// Bytes that it needs at least (`u64::MAX` when its size cannot be represented).
        expected: u64,
        /// Bytes that the file still has.
        got: u64,
    },
    /// A count or length over this crate's fixed limit.
    #[error("{field} is {got}, the limit is {limit}")]
    Limit {
        /// What is counted.
        field: String,
        /// The value found.
        got: u64,
        /// The largest value accepted.
        limit: u64,
    },
    /// A string that must be text holds other bytes.
    #[error("{field} is not valid UTF-8")]
    NotUtf8 {
        /// The string's place.
        field: String,
    },
    /// A key or tensor name with no characters.
    #[error("{field} is empty, expected a name")]
    EmptyName {
        /// The name's place.
        field: String,
    },
    /// A metadata key occurs twice.
    #[error("metadata key {key:?} occurs twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A metadata value of a type that the format does not have.
    #[error("metadata key {key:?} has value type {got}, expected 0 to 12")]
    ValueType {
        /// The key.
        key: String,
        /// The type id found.
        got: u32,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("metadata key {key:?} holds a boolean {got}, expected 0 or 1")]
    BadBool {
        /// The key.
        key: String,
        /// The byte found.
        got: u8,
    },
    /// Arrays in arrays beyond the limit.
    #[error("metadata key {key:?} nests arrays deeper than {limit}")]
    ArrayDepth {
        /// The key.
        key: String,
        /// The deepest nesting accepted.
        limit: u32,
    },
    /// `general.alignment` is unusable.
    #[error("general.alignment is {got}, expected a power of two from {min} to {max}")]
    Alignment {
        /// The value found.
        got: u32,
        /// The smallest accepted.
        min: u32,
        /// The largest accepted.
        max: u32,
    },
    /// A tensor name occurs twice, in one file or in two parts of a split one.
    #[error("tensor {tensor:?} occurs twice")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
    },
    /// A tensor with no axes or too many.
    #[error("tensor {tensor:?} has {got} axes, expected 1 to 4")]
    TensorAxes {
        /// The tensor.
        tensor: String,
        /// The number of axes found.
        got: u64,
    },
    /// A tensor with an axis of length zero.
    #[error("tensor {tensor:?} has shape {got:?}, expected no axis of length 0")]
    ZeroAxis {
        /// The tensor.
        tensor: String,
        /// Its shape, fastest axis first.
        got: Vec<u64>,
    },
    /// A tensor of a type that we do not support.
    #[error("tensor {tensor:?} has type id {id} ({}), which is not supported", foreign_type_name(*id))]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The type id found.
        id: u32,
    },
    /// A row that does not divide into the type's blocks.
    #[error("tensor {tensor:?} has rows of {got}, expected a multiple of {} for {dtype}", dtype.block_len())]
    TensorRow {
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: DType,
        /// The length of its fastest axis.
        got: u64,
    },
    /// A tensor whose element or byte count does not fit 63 bits.
    #[error("tensor {tensor:?} with shape {shape:?} is too large to have a size")]
    TensorSize {
        /// The tensor.
        tensor: String,
        /// Its shape, fastest axis first.
        shape: Vec<u64>,
    },
    /// The sizes of all tensors up to this one add up to more than 63 bits hold.
    #[error("tensor {tensor:?} ends beyond any possible file: the tensors add up to too many bytes")]
    TotalSize {
        /// The tensor at which the sum overflows.
        tensor: String,
    },
    /// A tensor that does not begin on the file's alignment.
    #[error("tensor {tensor:?} is at data offset {got}, expected a multiple of {alignment}")]
    TensorOffset {
        /// The tensor.
        tensor: String,
        /// The offset found, in bytes from the start of the data.
        got: u64,
        /// The file's alignment.
        alignment: u32,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap: the second begins at byte {got}, expected {expected} or later")]
    TensorOverlap {
        /// The tensor with the lower offset.
        first: String,
        /// The tensor that begins inside it.
        second: String,
        /// Where the first one ends, in bytes from the start of the file.
        expected: u64,
        /// Where the second one begins.
        got: u64,
    },
    /// The file ends before its tensors do: a download that was cut, or a file of headers alone.
    #[error(
        "the file is cut short: it has {got} bytes, expected at least {expected} (tensor {tensor:?} is incomplete)"
    )]
    Truncated {
        /// The first tensor that is not whole, or the one that was asked for.
        tensor: String,
        /// The file length that would hold it (all of them, when opening).
        expected: u64,
        /// The file's length.
        got: u64,
    },
    /// The file has become shorter than it was when it was opened.
    #[error("the file has changed since it was opened: it has {got} bytes, expected {expected}")]
    Shrunk {
        /// Its length when it was opened.
        expected: u64,
        /// Its length now.
        got: u64,
    },
    /// A [`crate::TensorInfo`] given to a [`crate::Gguf`] that it does not come from.
    #[error("tensor {tensor:?} does not belong to this file")]
    ForeignTensor {
        /// The tensor.
        tensor: String,
    },
    /// One part of a split model whose name does not lead to the others.
    #[error(
        "this is part {part} of a model split in {of}, expected a file name that ends in -{part:05}-of-{of:05}.gguf"
    )]
    SplitName {
        /// This part, counted from 1.
        part: u64,
        /// The number of parts.
        of: u64,
    },
    /// A part of a split model is not beside the others.
    #[error("part {part} of {of} is missing: {}", missing.display())]
    SplitMissing {
        /// The file that was looked for.
        missing: PathBuf,
        /// Its part, counted from 1.
        part: u64,
        /// The number of parts.
        of: u64,
    },
    /// A part of a split model contradicts its name or the other parts.
    #[error("{key} is {got}, expected {expected}")]
    SplitField {
        /// The metadata key.
        key: &'static str,
        /// The value that the name or the other parts ask for.
        expected: u64,
        /// The value found, or "absent".
        got: String,
    },
    /// A key that must be there is not.
    #[error("metadata key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key holds a value of another type than asked for.
    #[error("metadata key {key:?} is of type {got}, expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The type asked for.
        expected: &'static str,
        /// The type found.
        got: String,
    },
    /// A key holds a number that the type asked for cannot hold.
    #[error("metadata key {key:?} is {got}, which does not fit {expected}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The type asked for.
        expected: &'static str,
        /// The number found.
        got: String,
    },
    /// Source and destination of a conversion do not go together.
    #[error("{got} bytes given for {n_weights} weights of type {dtype}, expected {}",
        dtype.row_bytes(*n_weights).map_or_else(|| format!("whole blocks of {}", dtype.block_len()), |n| n.to_string()))]
    QuantLength {
        /// The block type.
        dtype: DType,
        /// The number of `f32` values.
        n_weights: usize,
        /// The number of bytes.
        got: usize,
    },
    /// Weights that do not fill whole blocks.
    #[error("{got} weights do not divide into blocks of {} ({dtype})", dtype.block_len())]
    PartialBlock {
        /// The block type.
        dtype: DType,
        /// The number of weights.
        got: usize,
    },
    /// A type that this crate reads but does not make.
    #[error("quantising to {dtype} is not supported, only to F32, F16, BF16, Q8_0, Q4_K and Q6_K")]
    NoQuantizer {
        /// The block type.
        dtype: DType,
    },
    /// A weight that is not finite or beyond the type's range.
    #[error("weight {index} is {got}, which {dtype} cannot represent")]
    Unrepresentable {
        /// The block type.
        dtype: DType,
        /// The weight's place in the input.
        index: usize,
        /// The weight.
        got: f32,
    },
    /// The bytes given to the writer do not match the tensor's shape and type.
    #[error("tensor {tensor:?} was given {got} bytes, expected {expected}")]
    TensorData {
        /// The tensor.
        tensor: String,
        /// The bytes that shape and type ask for.
        expected: u64,
        /// The bytes given.
        got: u64,
    },
}

impl Error {
    /// The error without the file that it is about: what tests and callers match on.
    pub fn root(&self) -> &Self {
        match self {
            Self::File { error, .. } => error.root(),
            other => other,
        }
    }
}
