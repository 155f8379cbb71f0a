//! Builds headers byte by byte, with no regard for validity, and checks how the reader refuses them.

#![allow(dead_code, reason = "each test file that includes this module uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

mod allocations;

use std::time::{Duration, Instant};
use zinc_gguf::Gguf;

/// What the file is, how it is made, and the whole message that refuses it.
pub(crate) type Row = (&'static str, fn() -> Raw, &'static str);

/// Value types by their ids in a file.
pub(crate) mod kind {
    pub(crate) const U8: u32 = 0;
    pub(crate) const U32: u32 = 4;
    pub(crate) const BOOL: u32 = 7;
    pub(crate) const STRING: u32 = 8;
    pub(crate) const ARRAY: u32 = 9;
    pub(crate) const F64: u32 = 12;
}

/// Tensor types by their ids in a file.
pub(crate) const F32: u32 = 0;
pub(crate) const Q4_K: u32 = 12;

/// The bytes of a file so far.
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    /// A version 3 file that announces this many tensors and keys.
    pub(crate) fn new(n_tensors: u64, n_keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(3).u64(n_tensors).u64(n_keys)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(self, n: u32) -> Self {
        self.bytes(&n.to_le_bytes())
    }

    pub(crate) fn u64(self, n: u64) -> Self {
        self.bytes(&n.to_le_bytes())
    }

    pub(crate) fn string(self, text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        self.u64(text.len() as u64).bytes(text)
    }

    /// A key and the type of its value, which is to follow.
    pub(crate) fn key(self, key: impl AsRef<[u8]>, kind: u32) -> Self {
        self.string(key).u32(kind)
    }

    /// The beginning of an array's value.
    pub(crate) fn array(self, kind: u32, len: u64) -> Self {
        self.u32(kind).u64(len)
    }

    /// A whole row of the tensor table.
    pub(crate) fn tensor(self, name: impl AsRef<[u8]>, shape: &[u64], type_id: u32, offset: u64) -> Self {
        let n_axes = u32::try_from(shape.len()).unwrap();
        let row = shape.iter().fold(self.string(name).u32(n_axes), |row, &axis| row.u64(axis));
        row.u32(type_id).u64(offset)
    }

    /// Fills up to the default alignment, then adds `n` bytes of tensor data.
    pub(crate) fn data(mut self, n: usize) -> Self {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + n, 0x11);
        self
    }
}

/// Expects each file to be refused with its message.
pub(crate) fn check(rows: &[Row]) {
    for (what, build, expected) in rows {
        assert_eq!(refuse(what, build().0), *expected, "{what}");
    }
}

/// The message with which the file is refused, after checking what the refusal took.
pub(crate) fn refuse(what: &str, file: Vec<u8>) -> String {
    let len = file.len();
    let start = Instant::now();
    let (result, peak) = peak_bytes(|| Gguf::from_bytes(file));
    assert!(start.elapsed() < Duration::from_secs(5), "{what} took {:?}", start.elapsed());
    assert!(peak < (64 << 10) + 4 * len, "{what}: {peak} bytes allocated for a file of {len}");
    match result {
        Ok(_) => panic!("{what} was accepted"),
        Err(error) => error.to_string(),
    }
}

/// What `f` returns, and the most bytes that it held at once.
pub(crate) fn peak_bytes<T>(f: impl FnOnce() -> T) -> (T, usize) {
    allocations::peak_bytes(f)
}
