//! Bounded reads from the bytes of a header.
//!
//! Every read names the field that it serves, so that a header which ends too early says where. A count is checked
//! against the bytes that are left before anything is allocated for it.

#![forbid(unsafe_code)]

use crate::Error;
use std::fmt;

/// Bytes of a header at most. The largest vocabularies need some 20 MiB; the limit keeps a crafted (or sparse) file
/// from making us allocate what it claims to hold.
pub(crate) const HEADER_BYTES_MAX: usize = 512 << 20;

/// A place in the header, for error messages.
#[derive(Clone, Copy)]
pub(crate) enum Field<'a> {
    Version,
    TensorCount,
    KeyCount,
    /// The key at this place in the list.
    Key(u64),
    ValueType(&'a str),
    Value(&'a str),
    /// The name of the tensor at this place in the table.
    TensorName(u64),
    /// What the table says of this tensor.
    Tensor(&'a str),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("the version"),
            Self::TensorCount => f.write_str("the number of tensors"),
            Self::KeyCount => f.write_str("the number of metadata keys"),
            Self::Key(place) => write!(f, "the name of metadata key {place}"),
            Self::ValueType(key) => write!(f, "the type of metadata key {key:?}"),
            Self::Value(key) => write!(f, "the value of metadata key {key:?}"),
            Self::TensorName(place) => write!(f, "the name of tensor {place}"),
            Self::Tensor(name) => write!(f, "the table entry of tensor {name:?}"),
        }
    }
}

/// A position in the header.
pub(crate) struct Cursor<'a> {
    /// The file, or the part of it that may be header.
    bytes: &'a [u8],
    offset: usize,
    /// Whether `bytes` is less than the file.
    capped: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Self {
        let bytes = &file[..file.len().min(HEADER_BYTES_MAX)];
        Self { bytes, offset: 0, capped: bytes.len() < file.len() }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: u64, field: Field<'_>) -> Result<&'a [u8], Error> {
        let n = self.check(Some(n), field)?;
        let taken = &self.bytes[self.offset..self.offset + n];
        self.offset += n;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, field: Field<'_>) -> Result<[u8; N], Error> {
        let bytes = self.take(N as u64, field)?;
        Ok(bytes.try_into().expect("take gives as many bytes as asked for"))
    }

    pub(crate) fn u32(&mut self, field: Field<'_>) -> Result<u32, Error> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: Field<'_>) -> Result<u64, Error> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// `count` as a number of records of at least `record_bytes` each, which the rest of the header must be able to
    /// hold.
    pub(crate) fn count(&self, count: u64, record_bytes: u64, field: Field<'_>) -> Result<usize, Error> {
        self.check(count.checked_mul(record_bytes), field)?;
        Ok(usize::try_from(count).expect("the records lie in memory, so their count fits"))
    }

    /// `n` when that many bytes are left; `None` stands for more than 64 bits can say.
    fn check(&self, n: Option<u64>, field: Field<'_>) -> Result<usize, Error> {
        let left = self.bytes.len() - self.offset;
        if let Some(n) = n.and_then(|n| usize::try_from(n).ok())
            && n <= left
        {
            return Ok(n);
        }
        let expected = n.unwrap_or(u64::MAX);
        if self.capped {
            return Err(Error::Limit {
                field: format!("the header's length up to {field}"),
                got: self.offset().saturating_add(expected),
                limit: HEADER_BYTES_MAX as u64,
            });
        }
        Err(Error::HeaderEnds { field: field.to_string(), offset: self.offset(), expected, got: left as u64 })
    }
}
