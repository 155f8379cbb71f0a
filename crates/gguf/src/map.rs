//! The bytes of a file in memory: the only unsafe code of this crate.
//!
//! A file is mapped read-only, and everything derived from its header is copied out and checked once, so nothing that
//! happens to the file later can lead a read out of the map. What remains is the operating system's rule that touching
//! a mapped page which the file no longer covers ends the process with SIGBUS. We do not catch that signal: a handler
//! is process-wide state that a library must not take. Instead the length is read again after mapping and before each
//! tensor is handed out, which turns a file that was cut before or during loading into a typed error, and a caller who
//! cannot trust the file to stay whole reads it into memory and uses [`crate::Gguf::from_bytes`]. A model manager must
//! replace files by renaming (the old map stays whole), never by writing into them.

#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; this file is the wall around it")]

use crate::Error;
use memmap2::{Mmap, MmapMut};
use std::fmt;
use std::fs::File;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A whole file, or a copy of one.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Pages of a file, or anonymous ones: aligned to the page size.
    Map(Mmap),
    /// Bytes made by the program, with no alignment promised.
    Heap(Vec<u8>),
}

impl Storage {
    /// Maps all of `file`, which must be a regular file and not empty.
    pub(crate) fn map(file: &File) -> Result<Self, Error> {
        // SAFETY: the map is read-only and only ever seen as `&[u8]`. Another process could still write to the file;
        // every count and offset is copied out of the map and checked before it is used, and the rest is weights, for
        // which any bit pattern is valid. See the note at the top about files that shrink.
        let map = unsafe { Mmap::map(file) };
        map.map(Self::Map).map_err(|error| Error::Io { action: "map the file into memory", error })
    }

    /// Copies `bytes` to fresh pages, so that tensors are as aligned as they are in a mapped file.
    pub(crate) fn copy(bytes: &[u8]) -> Result<Self, Error> {
        let io = |error| Error::Io { action: "allocate memory for the file", error };
        let mut map = MmapMut::map_anon(bytes.len()).map_err(io)?;
        map.copy_from_slice(bytes);
        map.make_read_only().map(Self::Map).map_err(io)
    }
}

impl Deref for Storage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Heap(bytes) => bytes,
        }
    }
}

/// A run of bytes that keeps what it lies in alive. Cloning copies no bytes.
///
/// From [`crate::Gguf::data_shared`] it is a window of the memory map, and its address is as aligned as the tensor's
/// place in the file (to `general.alignment`, at least 8).
#[derive(Clone)]
pub struct Bytes {
    storage: Arc<Storage>,
    range: Range<usize>,
}

impl Bytes {
    /// `range` must lie within the storage.
    pub(crate) fn new(storage: Arc<Storage>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= storage.len(), "callers check the range");
        Self { storage, range }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.range.clone()]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { storage: Arc::new(Storage::Heap(bytes)), range }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len())
    }
}
