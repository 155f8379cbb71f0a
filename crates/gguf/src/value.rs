//! Metadata values: the thirteen value types of the format, arrays kept flat.
//!
//! Text is UTF-8 by the specification, but vocabularies in the wild hold tokens that are not. A string that is not
//! UTF-8 is therefore kept byte for byte, as [`Value::Bytes`] or inside [`Strings`], and only a look-up that asks for
//! text fails. Keys and tensor names must be UTF-8.

#![forbid(unsafe_code)]

use std::fmt;

/// One metadata value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    I32(i32),
    /// Unsigned, 64 bits.
    U64(u64),
    /// Signed, 64 bits.
    I64(i64),
    /// Single precision.
    F32(f32),
    /// Double precision.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// A string of valid UTF-8.
    String(String),
    /// A string of the file that is not valid UTF-8.
    Bytes(Vec<u8>),
    /// An array.
    Array(Array),
}

/// An array of values of one type.
#[derive(Clone, PartialEq, Debug)]
pub enum Array {
    /// Unsigned, 8 bits.
    U8(Vec<u8>),
    /// Signed, 8 bits.
    I8(Vec<i8>),
    /// Unsigned, 16 bits.
    U16(Vec<u16>),
    /// Signed, 16 bits.
    I16(Vec<i16>),
    /// Unsigned, 32 bits.
    U32(Vec<u32>),
    /// Signed, 32 bits.
    I32(Vec<i32>),
    /// Unsigned, 64 bits.
    U64(Vec<u64>),
    /// Signed, 64 bits.
    I64(Vec<i64>),
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Strings.
    String(Strings),
    /// Arrays.
    Array(Vec<Array>),
}

/// Many strings in one run of bytes, as vocabularies of a quarter million tokens want it.
#[derive(Clone, PartialEq, Default)]
pub struct Strings {
    text: Text,
    /// `ends[i]` is where string `i` ends in the text; it begins where the one before ends.
    ends: Vec<u32>,
}

/// The run of bytes. `Utf8` promises that every string in it is valid by itself.
#[derive(Clone, PartialEq)]
enum Text {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// The type's name, as in `u32` or `array of string`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::String(_) | Self::Bytes(_) => "string",
            Self::Array(array) => array.type_name(),
        }
    }

    /// The value's type id in a file.
    pub(crate) fn type_id(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) | Self::Bytes(_) => 8,
            Self::Array(_) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    /// The value as an integer of any width, when it is one.
    pub(crate) fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::U64(n) => n.into(),
            Self::I64(n) => n.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::String(v) => v.len(),
            Self::Array(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type's name, as in `array of u32`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "array of u8",
            Self::I8(_) => "array of i8",
            Self::U16(_) => "array of u16",
            Self::I16(_) => "array of i16",
            Self::U32(_) => "array of u32",
            Self::I32(_) => "array of i32",
            Self::U64(_) => "array of u64",
            Self::I64(_) => "array of i64",
            Self::F32(_) => "array of f32",
            Self::F64(_) => "array of f64",
            Self::Bool(_) => "array of bool",
            Self::String(_) => "array of string",
            Self::Array(_) => "array of array",
        }
    }

    /// The type id of the elements in a file.
    pub(crate) fn element_type_id(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) => 8,
            Self::Array(_) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    /// The elements as integers of any width, when they are integers.
    pub(crate) fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        Some(match self {
            Self::U8(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::I8(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::U16(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::I16(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::U32(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::I32(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::U64(v) => Box::new(v.iter().map(|&n| n.into())),
            Self::I64(v) => Box::new(v.iter().map(|&n| n.into())),
            _ => return None,
        })
    }
}

impl Strings {
    /// Cuts `bytes` at `ends`, which must rise and finish at its length.
    pub(crate) fn from_parts(bytes: Vec<u8>, ends: Vec<u32>) -> Self {
        // Valid as a whole is not enough: a character could straddle two strings.
        let text = match String::from_utf8(bytes) {
            Ok(text) if ends.iter().all(|&end| text.is_char_boundary(end as usize)) => Text::Utf8(text),
            Ok(text) => Text::Bytes(text.into_bytes()),
            Err(error) => Text::Bytes(error.into_bytes()),
        };
        Self { text, ends }
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `index`, `None` beyond the last.
    pub fn get_bytes(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = self.range(index)?;
        match &self.text {
            Text::Utf8(text) => text.as_bytes().get(start..end),
            Text::Bytes(bytes) => bytes.get(start..end),
        }
    }

    /// String `index` as text, `None` beyond the last and where it is not UTF-8.
    pub fn get(&self, index: usize) -> Option<&str> {
        let (start, end) = self.range(index)?;
        match &self.text {
            Text::Utf8(text) => text.get(start..end),
            Text::Bytes(bytes) => str::from_utf8(bytes.get(start..end)?).ok(),
        }
    }

    /// The bytes of each string.
    pub fn iter_bytes(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get_bytes(index).expect("ends lie within the text"))
    }

    fn range(&self, index: usize) -> Option<(usize, usize)> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some((start as usize, end as usize))
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::Utf8(String::new())
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter_bytes().map(String::from_utf8_lossy)).finish()
    }
}

/// Panics when the strings together exceed 4 GiB, which no header can hold.
impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut bytes = Vec::new();
        let ends = strings
            .into_iter()
            .map(|string| {
                bytes.extend_from_slice(string.as_ref());
                u32::try_from(bytes.len()).expect("strings of a header stay under 4 GiB")
            })
            .collect();
        Self::from_parts(bytes, ends)
    }
}

/// Makes [`Value`] from the Rust types that callers have at hand.
macro_rules! value_from {
    ($($from:ty, $binding:ident => $value:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($binding: $from) -> Self {
                $value
            }
        })*
    };
}

value_from! {
    u8, n => Self::U8(n);
    i8, n => Self::I8(n);
    u16, n => Self::U16(n);
    i16, n => Self::I16(n);
    u32, n => Self::U32(n);
    i32, n => Self::I32(n);
    u64, n => Self::U64(n);
    i64, n => Self::I64(n);
    f32, n => Self::F32(n);
    f64, n => Self::F64(n);
    bool, b => Self::Bool(b);
    &str, s => Self::String(s.to_owned());
    String, s => Self::String(s);
    Array, array => Self::Array(array);
    Strings, strings => Self::Array(Array::String(strings));
    Vec<u8>, v => Self::Array(Array::U8(v));
    Vec<i8>, v => Self::Array(Array::I8(v));
    Vec<u16>, v => Self::Array(Array::U16(v));
    Vec<i16>, v => Self::Array(Array::I16(v));
    Vec<u32>, v => Self::Array(Array::U32(v));
    Vec<i32>, v => Self::Array(Array::I32(v));
    Vec<u64>, v => Self::Array(Array::U64(v));
    Vec<i64>, v => Self::Array(Array::I64(v));
    Vec<f32>, v => Self::Array(Array::F32(v));
    Vec<f64>, v => Self::Array(Array::F64(v));
    Vec<bool>, v => Self::Array(Array::Bool(v));
    Vec<&str>, v => Self::Array(Array::String(v.into_iter().collect()));
    Vec<String>, v => Self::Array(Array::String(v.into_iter().collect()));
    &[&str], v => Self::Array(Array::String(v.iter().collect()));
}

#[cfg(test)]
mod tests {
    use super::{Strings, Text};

    #[test]
    fn strings_keep_their_bounds() {
        let strings: Strings = ["", "ab", "", "é", "x"].into_iter().collect();
        assert_eq!(strings.len(), 5);
        let all: Vec<_> = (0..5).map(|i| strings.get(i).unwrap()).collect();
        assert_eq!(all, ["", "ab", "", "é", "x"]);
        assert_eq!(strings.get(5), None);
    }

    #[test]
    fn a_character_cut_in_two_is_not_text() {
        let strings: Strings = [&b"a\xc3"[..], b"\xa9b"].into_iter().collect();
        assert!(matches!(strings.text, Text::Bytes(_)), "the run as a whole is valid UTF-8");
        assert_eq!(strings.get(0), None);
        assert_eq!(strings.get_bytes(0), Some(&b"a\xc3"[..]));
        assert_eq!(strings.get_bytes(1), Some(&b"\xa9b"[..]));
    }
}
