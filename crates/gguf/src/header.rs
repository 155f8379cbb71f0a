//! Parses and checks the header of one file: magic, version, metadata, tensor table.
//!
//! What comes out is sound by itself: unique keys, known types, shapes with a size, offsets that are aligned and apart
//! from each other. Whether the file is long enough for its tensors is [`Header::check_data`], because a header alone
//! is worth reading too. Nothing here knows paths, maps or the other parts of a split model.

#![forbid(unsafe_code)]

use crate::cursor::{Cursor, Field};
use crate::tensor::{N_AXES_MAX, checked_n_bytes};
use crate::{Array, DType, Error, Metadata, Strings, TensorInfo, Value};

/// The file's first bytes.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
/// The key that holds the alignment of tensor data.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
/// The alignment where the key is absent.
pub(crate) const ALIGNMENT_DEFAULT: u32 = 32;
/// The specification asks for a multiple of 8, which also lets kernels read any element type in place.
pub(crate) const ALIGNMENT_MIN: u32 = 8;
/// Larger than any page; keeps padding small.
pub(crate) const ALIGNMENT_MAX: u32 = 1 << 20;
/// By the specification.
pub(crate) const KEY_BYTES_MAX: u64 = (1 << 16) - 1;
/// The specification says 64; names from other tools run a little longer.
pub(crate) const TENSOR_NAME_BYTES_MAX: u64 = 256;
const N_KEYS_MAX: u64 = 1 << 16;
const N_TENSORS_MAX: u64 = 1 << 18;
const ARRAY_DEPTH_MAX: u32 = 4;
/// Arrays inside arrays in one header; each costs more memory than it costs bytes in the file.
const N_INNER_ARRAYS_MAX: u64 = 1 << 16;
/// Length of the name, one character, type, one byte.
const KEY_RECORD_BYTES_MIN: u64 = 8 + 1 + 4 + 1;
/// Length of the name, one character, number of axes, one axis, type, offset.
const TENSOR_RECORD_BYTES_MIN: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A header that has passed every check which needs no more than itself.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    /// In the order of the table.
    pub(crate) tensors: Vec<TensorInfo>,
}

impl Header {
    /// Parses the beginning of `file`. `part` is noted in each tensor.
    pub(crate) fn parse(file: &[u8], part: usize) -> Result<Self, Error> {
        let mut parser = Parser { cursor: Cursor::new(file), n_inner_arrays: 0 };
        let version = parser.version(file)?;
        let n_tensors = parser.cursor.u64(Field::TensorCount)?;
        let n_keys = parser.cursor.u64(Field::KeyCount)?;
        let metadata = parser.metadata(n_keys)?;
        let alignment = alignment(&metadata)?;
        let mut tensors = parser.tensors(n_tensors, part)?;
        place(&mut tensors, parser.cursor.offset().next_multiple_of(alignment.into()), alignment)?;
        Ok(Self { version, metadata, tensors })
    }

    /// Checks that a file of `file_bytes` holds every tensor whole.
    pub(crate) fn check_data(&self, file_bytes: u64) -> Result<(), Error> {
        let ends = || self.tensors.iter().map(|tensor| (tensor.file_offset + tensor.n_bytes, tensor));
        let expected = ends().map(|(end, _)| end).max().unwrap_or(0);
        match ends().filter(|&(end, _)| end > file_bytes).min_by_key(|&(end, _)| end) {
            None => Ok(()),
            Some((_, tensor)) => Err(Error::Truncated { tensor: tensor.name.clone(), expected, got: file_bytes }),
        }
    }
}

/// The alignment of tensor data that the metadata asks for.
pub(crate) fn alignment(metadata: &Metadata) -> Result<u32, Error> {
    let got = metadata.u32(ALIGNMENT_KEY)?.unwrap_or(ALIGNMENT_DEFAULT);
    if !got.is_power_of_two() || !(ALIGNMENT_MIN..=ALIGNMENT_MAX).contains(&got) {
        return Err(Error::Alignment { got, min: ALIGNMENT_MIN, max: ALIGNMENT_MAX });
    }
    Ok(got)
}

/// Turns offsets from the start of the data into offsets in the file, and checks them against each other.
fn place(tensors: &mut [TensorInfo], data_start: u64, alignment: u32) -> Result<(), Error> {
    for tensor in &mut *tensors {
        if !tensor.file_offset.is_multiple_of(alignment.into()) {
            return Err(Error::TensorOffset { tensor: tensor.name.clone(), got: tensor.file_offset, alignment });
        }
        let end = tensor.file_offset.checked_add(data_start).and_then(|start| start.checked_add(tensor.n_bytes));
        match end {
            Some(end) if end <= i64::MAX as u64 => tensor.file_offset += data_start,
            _ => return Err(Error::TotalSize { tensor: tensor.name.clone() }),
        }
    }
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.file_offset);
    for pair in by_offset.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let expected = first.file_offset + first.n_bytes;
        if second.file_offset < expected {
            return Err(Error::TensorOverlap {
                first: first.name.clone(),
                second: second.name.clone(),
                expected,
                got: second.file_offset,
            });
        }
    }
    Ok(())
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    n_inner_arrays: u64,
}

impl Parser<'_> {
    fn version(&mut self, file: &[u8]) -> Result<u32, Error> {
        if file.is_empty() {
            return Err(Error::Empty);
        }
        if !file.starts_with(&MAGIC) {
            return Err(Error::NotGguf { got: file[..file.len().min(MAGIC.len())].to_vec() });
        }
        self.cursor.take(MAGIC.len() as u64, Field::Version)?;
        let got = self.cursor.u32(Field::Version)?;
        match got {
            2 | 3 => Ok(got),
            _ if (1..=3).contains(&got.swap_bytes()) => Err(Error::BigEndian { version: got.swap_bytes() }),
            _ => Err(Error::Version { got }),
        }
    }

    fn metadata(&mut self, n_keys: u64) -> Result<Metadata, Error> {
        limit(n_keys, N_KEYS_MAX, Field::KeyCount)?;
        self.cursor.count(n_keys, KEY_RECORD_BYTES_MIN, Field::KeyCount)?;
        let mut metadata = Metadata::default();
        for place in 0..n_keys {
            let key = self.name(KEY_BYTES_MAX, Field::Key(place))?;
            let type_id = self.cursor.u32(Field::ValueType(&key))?;
            let value = self.value(&key, type_id)?;
            metadata.insert(key, value)?;
        }
        Ok(metadata)
    }

    /// The table, with offsets still counted from the start of the data.
    fn tensors(&mut self, n_tensors: u64, part: usize) -> Result<Vec<TensorInfo>, Error> {
        limit(n_tensors, N_TENSORS_MAX, Field::TensorCount)?;
        self.cursor.count(n_tensors, TENSOR_RECORD_BYTES_MIN, Field::TensorCount)?;
        (0..n_tensors).map(|place| self.tensor(place, part)).collect()
    }

    fn tensor(&mut self, place: u64, part: usize) -> Result<TensorInfo, Error> {
        let name = self.name(TENSOR_NAME_BYTES_MAX, Field::TensorName(place))?;
        let field = Field::Tensor(&name);
        let n_axes = self.cursor.u32(field)?;
        if n_axes == 0 || n_axes as usize > N_AXES_MAX {
            return Err(Error::TensorAxes { tensor: name, got: n_axes.into() });
        }
        let shape = (0..n_axes).map(|_| self.cursor.u64(field)).collect::<Result<Vec<_>, _>>()?;
        let id = self.cursor.u32(field)?;
        let Some(dtype) = DType::from_id(id) else {
            return Err(Error::TensorType { tensor: name, id });
        };
        let file_offset = self.cursor.u64(field)?;
        let n_bytes = checked_n_bytes(&name, &shape, dtype)?;
        Ok(TensorInfo { name, shape, dtype, part, file_offset, n_bytes })
    }

    /// A string that must be a name: text, not empty, not too long.
    fn name(&mut self, bytes_max: u64, field: Field<'_>) -> Result<String, Error> {
        let len = self.cursor.u64(field)?;
        let bytes = self.cursor.take(len, field)?;
        if len > bytes_max {
            return Err(Error::Limit { field: format!("the length of {field}"), got: len, limit: bytes_max });
        }
        match str::from_utf8(bytes) {
            Ok("") => Err(Error::EmptyName { field: field.to_string() }),
            Ok(name) => Ok(name.to_owned()),
            Err(_) => Err(Error::NotUtf8 { field: field.to_string() }),
        }
    }

    fn value(&mut self, key: &str, type_id: u32) -> Result<Value, Error> {
        let field = Field::Value(key);
        Ok(match type_id {
            0 => Value::U8(u8::from_le_bytes(self.cursor.array(field)?)),
            1 => Value::I8(i8::from_le_bytes(self.cursor.array(field)?)),
            2 => Value::U16(u16::from_le_bytes(self.cursor.array(field)?)),
            3 => Value::I16(i16::from_le_bytes(self.cursor.array(field)?)),
            4 => Value::U32(u32::from_le_bytes(self.cursor.array(field)?)),
            5 => Value::I32(i32::from_le_bytes(self.cursor.array(field)?)),
            6 => Value::F32(f32::from_le_bytes(self.cursor.array(field)?)),
            7 => Value::Bool(boolean(key, self.cursor.array::<1>(field)?[0])?),
            8 => self.string(field)?,
            9 => Value::Array(self.array(key, 1)?),
            10 => Value::U64(u64::from_le_bytes(self.cursor.array(field)?)),
            11 => Value::I64(i64::from_le_bytes(self.cursor.array(field)?)),
            12 => Value::F64(f64::from_le_bytes(self.cursor.array(field)?)),
            got => return Err(Error::ValueType { key: key.to_owned(), got }),
        })
    }

    fn string(&mut self, field: Field<'_>) -> Result<Value, Error> {
        let len = self.cursor.u64(field)?;
        let bytes = self.cursor.take(len, field)?;
        Ok(match str::from_utf8(bytes) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => Value::Bytes(bytes.to_vec()),
        })
    }

    /// An array at nesting `depth`, 1 for one that is in no other.
    fn array(&mut self, key: &str, depth: u32) -> Result<Array, Error> {
        let field = Field::Value(key);
        let type_id = self.cursor.u32(field)?;
        let len = self.cursor.u64(field)?;
        Ok(match type_id {
            0 => Array::U8(self.cursor.take(len, field)?.to_vec()),
            1 => Array::I8(self.scalars(len, field, i8::from_le_bytes)?),
            2 => Array::U16(self.scalars(len, field, u16::from_le_bytes)?),
            3 => Array::I16(self.scalars(len, field, i16::from_le_bytes)?),
            4 => Array::U32(self.scalars(len, field, u32::from_le_bytes)?),
            5 => Array::I32(self.scalars(len, field, i32::from_le_bytes)?),
            6 => Array::F32(self.scalars(len, field, f32::from_le_bytes)?),
            7 => {
                let bytes = self.cursor.take(len, field)?;
                Array::Bool(bytes.iter().map(|&byte| boolean(key, byte)).collect::<Result<_, _>>()?)
            }
            8 => Array::String(self.strings(len, field)?),
            9 => Array::Array(self.inner_arrays(key, len, depth)?),
            10 => Array::U64(self.scalars(len, field, u64::from_le_bytes)?),
            11 => Array::I64(self.scalars(len, field, i64::from_le_bytes)?),
            12 => Array::F64(self.scalars(len, field, f64::from_le_bytes)?),
            got => return Err(Error::ValueType { key: key.to_owned(), got }),
        })
    }

    fn scalars<const N: usize, T>(
        &mut self,
        len: u64,
        field: Field<'_>,
        read: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Error> {
        let len = self.cursor.count(len, N as u64, field)?;
        let bytes = self.cursor.take((len * N) as u64, field)?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect())
    }

    fn strings(&mut self, len: u64, field: Field<'_>) -> Result<Strings, Error> {
        // A string costs 8 bytes of length in the file and at most as much here, so the count bounds the memory.
        let len = self.cursor.count(len, 8, field)?;
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(len);
        for _ in 0..len {
            let n_bytes = self.cursor.u64(field)?;
            bytes.extend_from_slice(self.cursor.take(n_bytes, field)?);
            ends.push(u32::try_from(bytes.len()).expect("a header's length fits 32 bits"));
        }
        bytes.shrink_to_fit();
        Ok(Strings::from_parts(bytes, ends))
    }

    fn inner_arrays(&mut self, key: &str, len: u64, depth: u32) -> Result<Vec<Array>, Error> {
        if depth == ARRAY_DEPTH_MAX {
            return Err(Error::ArrayDepth { key: key.to_owned(), limit: ARRAY_DEPTH_MAX });
        }
        // An inner array has at least a type and a length.
        self.cursor.count(len, 4 + 8, Field::Value(key))?;
        self.n_inner_arrays += len;
        if self.n_inner_arrays > N_INNER_ARRAYS_MAX {
            let field = format!("the number of arrays inside arrays up to metadata key {key:?}");
            return Err(Error::Limit { field, got: self.n_inner_arrays, limit: N_INNER_ARRAYS_MAX });
        }
        (0..len).map(|_| self.array(key, depth + 1)).collect()
    }
}

const _: () = assert!(crate::cursor::HEADER_BYTES_MAX <= u32::MAX as usize, "string arrays hold 32-bit ends");

fn boolean(key: &str, byte: u8) -> Result<bool, Error> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        got => Err(Error::BadBool { key: key.to_owned(), got }),
    }
}

fn limit(got: u64, limit: u64, field: Field<'_>) -> Result<(), Error> {
    if got > limit { Err(Error::Limit { field: field.to_string(), got, limit }) } else { Ok(()) }
}
