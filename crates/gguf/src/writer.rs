//! Writes GGUF files, for tests and tools.
//!
//! A file that it writes passes every check of the reader: the same functions decide. It writes one file, whole; the
//! `split.*` keys are the caller's.

#![forbid(unsafe_code)]

use crate::header::{ALIGNMENT_KEY, KEY_BYTES_MAX, MAGIC, TENSOR_NAME_BYTES_MAX, alignment};
use crate::tensor::checked_n_bytes;
use crate::{Array, Bytes, DType, Error, Metadata, Value};
use std::collections::HashSet;
use std::io::{self, Write};

/// Collects metadata and tensors, then writes them. What is wrong with them is said when writing.
///
/// ```
/// use zinc_gguf::{DType, Gguf, Writer};
/// let mut writer = Writer::new();
/// writer.metadata("general.architecture", "llama").metadata("llama.block_count", 1u32);
/// writer.tensor("output_norm.weight", &[2], DType::F32, vec![0; 8]);
/// let model = Gguf::from_bytes(writer.to_bytes()?)?;
/// assert_eq!(model.metadata().require_u32("llama.block_count")?, 1);
/// # Ok::<(), zinc_gguf::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    version: u32,
    metadata: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    shape: Vec<u64>,
    dtype: DType,
    data: Bytes,
}

impl Writer {
    /// An empty file of version 3 with tensors aligned to 32 bytes.
    #[expect(
        clippy::new_without_default,
        reason = "a version and an alignment are chosen here, which `default` would not say"
    )]
    pub fn new() -> Self {
        Self { version: 3, metadata: Vec::new(), tensors: Vec::new() }
    }

    /// The format version: 2 or 3, which differ in nothing else for little-endian files.
    pub fn version(&mut self, version: u32) -> &mut Self {
        self.version = version;
        self
    }

    /// Aligns tensors to this many bytes; the same as the metadata key `general.alignment`.
    pub fn alignment(&mut self, alignment: u32) -> &mut Self {
        self.metadata(ALIGNMENT_KEY, alignment)
    }

    /// Adds a key; keys are written in the order in which they are added.
    pub fn metadata(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Adds a tensor: axis lengths fastest first, and its bytes.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        shape: &[u64],
        dtype: DType,
        data: impl Into<Bytes>,
    ) -> &mut Self {
        self.tensors.push(Tensor { name: name.into(), shape: shape.to_vec(), dtype, data: data.into() });
        self
    }

    /// The file in memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file. Nothing is written when the content is invalid. `to` is worth buffering.
    pub fn write(&self, to: &mut impl Write) -> Result<(), Error> {
        let (header, alignment) = self.header()?;
        let io = |error| Error::Io { action: "write the file", error };
        to.write_all(&header).map_err(io)?;
        for tensor in &self.tensors {
            to.write_all(&tensor.data).map_err(io)?;
            write_padding(to, tensor.data.len(), alignment).map_err(io)?;
        }
        to.flush().map_err(io)
    }

    /// Everything before the data, padded to where the data begins, and the alignment.
    fn header(&self) -> Result<(Vec<u8>, usize), Error> {
        if !(2..=3).contains(&self.version) {
            return Err(Error::Version { got: self.version });
        }
        let alignment = self.check_metadata()?;
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        put_len(&mut out, self.tensors.len());
        put_len(&mut out, self.metadata.len());
        for (key, value) in &self.metadata {
            put_string(&mut out, key.as_bytes());
            out.extend_from_slice(&value.type_id().to_le_bytes());
            put_value(&mut out, value);
        }
        self.put_table(&mut out, alignment)?;
        let len = out.len().next_multiple_of(alignment);
        out.resize(len, 0);
        Ok((out, alignment))
    }

    fn check_metadata(&self) -> Result<usize, Error> {
        let mut metadata = Metadata::default();
        for (key, value) in &self.metadata {
            check_name("a metadata key", key, KEY_BYTES_MAX)?;
            metadata.insert(key.clone(), value.clone())?;
        }
        Ok(alignment(&metadata)? as usize)
    }

    fn put_table(&self, out: &mut Vec<u8>, alignment: usize) -> Result<(), Error> {
        let mut names = HashSet::new();
        let mut offset = 0usize;
        for tensor in &self.tensors {
            check_name("a tensor's name", &tensor.name, TENSOR_NAME_BYTES_MAX)?;
            if !names.insert(&tensor.name) {
                return Err(Error::DuplicateTensor { tensor: tensor.name.clone() });
            }
            let expected = checked_n_bytes(&tensor.name, &tensor.shape, tensor.dtype)?;
            let got = tensor.data.len() as u64;
            if got != expected {
                return Err(Error::TensorData { tensor: tensor.name.clone(), expected, got });
            }
            put_string(out, tensor.name.as_bytes());
            out.extend_from_slice(&u32::try_from(tensor.shape.len()).expect("at most four axes").to_le_bytes());
            for axis in &tensor.shape {
                out.extend_from_slice(&axis.to_le_bytes());
            }
            out.extend_from_slice(&tensor.dtype.id().to_le_bytes());
            put_len(out, offset);
            // Tensors may share bytes in memory, so their sum is not bounded by it.
            let end = offset.checked_add(tensor.data.len()).and_then(|end| end.checked_next_multiple_of(alignment));
            offset = end.ok_or_else(|| Error::TotalSize { tensor: tensor.name.clone() })?;
        }
        Ok(())
    }
}

fn check_name(field: &str, name: &str, bytes_max: u64) -> Result<(), Error> {
    let got = name.len() as u64;
    if got == 0 {
        return Err(Error::EmptyName { field: field.to_owned() });
    }
    if got > bytes_max {
        return Err(Error::Limit { field: format!("the length of {field}"), got, limit: bytes_max });
    }
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(n) => out.push(*n),
        Value::I8(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::U16(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::I16(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::U32(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::I32(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::U64(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::I64(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::F32(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::F64(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::Bool(b) => out.push((*b).into()),
        Value::String(text) => put_string(out, text.as_bytes()),
        Value::Bytes(bytes) => put_string(out, bytes),
        Value::Array(array) => put_array(out, array),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend_from_slice(&array.element_type_id().to_le_bytes());
    put_len(out, array.len());
    match array {
        Array::U8(v) => out.extend_from_slice(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|n| n.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&b| u8::from(b))),
        Array::String(strings) => strings.iter_bytes().for_each(|string| put_string(out, string)),
        Array::Array(arrays) => arrays.iter().for_each(|array| put_array(out, array)),
    }
}

fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_len(out, string.len());
    out.extend_from_slice(string);
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u64).to_le_bytes());
}

fn write_padding(to: &mut impl Write, len: usize, alignment: usize) -> io::Result<()> {
    const ZEROS: [u8; 256] = [0; 256];
    let mut left = len.next_multiple_of(alignment) - len;
    while left > 0 {
        let n = left.min(ZEROS.len());
        to.write_all(&ZEROS[..n])?;
        left -= n;
    }
    Ok(())
}
