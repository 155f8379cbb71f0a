//! The metadata of a file: keys in file order, found by hash, read by type.
//!
//! Typed look-ups return `Ok(None)` for an absent key and an error for a key of another type, so that a caller's
//! default never hides a malformed file. What keys mean is not known here.

#![forbid(unsafe_code)]

use crate::{Array, Error, Strings, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Key-value pairs with unique keys.
#[derive(Clone, Default, Debug)]
pub struct Metadata {
    pairs: Vec<(String, Value)>,
    /// Place of each key in `pairs`.
    by_key: HashMap<String, usize>,
}

/// For each type two look-ups: one that allows the key to be absent and one that requires it.
macro_rules! typed_lookups {
    ($($type:ty, $optional:ident, $required:ident, $what:literal;)*) => {
        $(
            #[doc = concat!($what, "; `None` when the key is absent.")]
            pub fn $optional(&self, key: &str) -> Result<Option<$type>, Error> {
                self.get(key).map(|value| FromValue::from_value(key, value)).transpose()
            }

            #[doc = concat!($what, "; [`Error::MissingKey`] when the key is absent.")]
            pub fn $required(&self, key: &str) -> Result<$type, Error> {
                self.$optional(key)?.ok_or_else(|| Error::MissingKey { key: key.to_owned() })
            }
        )*
    };
}

impl Metadata {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|&place| &self.pairs[place].1)
    }

    /// All pairs, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    typed_lookups! {
        u32, u32, require_u32, "An integer of any width that fits";
        u64, u64, require_u64, "An integer of any width that fits";
        i32, i32, require_i32, "An integer of any width that fits";
        f32, f32, require_f32, "A float; a double is rounded";
        bool, bool, require_bool, "A boolean";
        &str, str, require_str, "Text; [`Error::NotUtf8`] for a string that is none";
        &[u8], bytes, require_bytes, "The bytes of a string, text or not";
        &Array, array, require_array, "An array of any type";
        Vec<u32>, u32s, require_u32s, "An array of integers of any width that fit";
        Vec<u64>, u64s, require_u64s, "An array of integers of any width that fit";
        Vec<i32>, i32s, require_i32s, "An array of integers of any width that fit";
        Vec<f32>, f32s, require_f32s, "An array of floats; doubles are rounded";
        Vec<bool>, bools, require_bools, "An array of booleans";
        Vec<&str>, strings, require_strings, "An array of text; [`Error::NotUtf8`] when one string is none";
        Vec<&[u8]>, byte_strings, require_byte_strings, "An array of strings by their bytes, text or not";
    }

    /// The length of an array; `None` when the key is absent.
    pub fn array_len(&self, key: &str) -> Result<Option<usize>, Error> {
        Ok(self.array(key)?.map(Array::len))
    }

    /// Adds a pair; the key must be new.
    pub(crate) fn insert(&mut self, key: String, value: Value) -> Result<(), Error> {
        match self.by_key.entry(key.clone()) {
            Entry::Occupied(_) => Err(Error::DuplicateKey { key }),
            Entry::Vacant(entry) => {
                entry.insert(self.pairs.len());
                self.pairs.push((key, value));
                Ok(())
            }
        }
    }
}

/// A Rust type that a value can be read as.
trait FromValue<'a>: Sized {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error>;
}

macro_rules! integers_from_value {
    ($($type:ident)*) => {
        $(
            impl FromValue<'_> for $type {
                fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
                    let n = value.as_integer().ok_or_else(|| wrong_type(key, stringify!($type), value))?;
                    fit(key, stringify!($type), n)
                }
            }

            impl FromValue<'_> for Vec<$type> {
                fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
                    let expected = concat!("array of ", stringify!($type));
                    let Value::Array(array) = value else { return Err(wrong_type(key, expected, value)) };
                    let integers = array.integers().ok_or_else(|| wrong_type(key, expected, value))?;
                    integers.map(|n| fit(key, stringify!($type), n)).collect()
                }
            }
        )*
    };
}

integers_from_value! { u32 u64 i32 }

impl FromValue<'_> for f32 {
    fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
        match *value {
            Value::F32(n) => Ok(n),
            Value::F64(n) => narrow(key, n),
            _ => Err(wrong_type(key, "f32", value)),
        }
    }
}

impl FromValue<'_> for Vec<f32> {
    fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
        match value {
            Value::Array(Array::F32(array)) => Ok(array.clone()),
            Value::Array(Array::F64(array)) => array.iter().map(|&n| narrow(key, n)).collect(),
            _ => Err(wrong_type(key, "array of f32", value)),
        }
    }
}

impl FromValue<'_> for bool {
    fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
        match value {
            Value::Bool(b) => Ok(*b),
            _ => Err(wrong_type(key, "bool", value)),
        }
    }
}

impl FromValue<'_> for Vec<bool> {
    fn from_value(key: &str, value: &Value) -> Result<Self, Error> {
        match value {
            Value::Array(Array::Bool(array)) => Ok(array.clone()),
            _ => Err(wrong_type(key, "array of bool", value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::String(text) => Ok(text),
            Value::Bytes(_) => Err(Error::NotUtf8 { field: format!("metadata key {key:?}") }),
            _ => Err(wrong_type(key, "string", value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::String(text) => Ok(text.as_bytes()),
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(wrong_type(key, "string", value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::Array(array) => Ok(array),
            _ => Err(wrong_type(key, "array", value)),
        }
    }
}

impl<'a> FromValue<'a> for Vec<&'a str> {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error> {
        let strings = strings(key, value)?;
        let text = |index| {
            strings
                .get(index)
                .ok_or_else(|| Error::NotUtf8 { field: format!("element {index} of metadata key {key:?}") })
        };
        (0..strings.len()).map(text).collect()
    }
}

impl<'a> FromValue<'a> for Vec<&'a [u8]> {
    fn from_value(key: &str, value: &'a Value) -> Result<Self, Error> {
        Ok(strings(key, value)?.iter_bytes().collect())
    }
}

fn strings<'a>(key: &str, value: &'a Value) -> Result<&'a Strings, Error> {
    match value {
        Value::Array(Array::String(strings)) => Ok(strings),
        _ => Err(wrong_type(key, "array of string", value)),
    }
}

fn wrong_type(key: &str, expected: &'static str, value: &Value) -> Error {
    Error::WrongType { key: key.to_owned(), expected, got: value.type_name().to_owned() }
}

fn fit<T: TryFrom<i128>>(key: &str, expected: &'static str, n: i128) -> Result<T, Error> {
    T::try_from(n).map_err(|_| Error::OutOfRange { key: key.to_owned(), expected, got: n.to_string() })
}

/// Rounds a double. One that is finite must stay so.
fn narrow(key: &str, n: f64) -> Result<f32, Error> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "rounding to the nearest single is the point, overflow is refused below"
    )]
    let rounded = n as f32;
    if n.is_finite() && !rounded.is_finite() {
        return Err(Error::OutOfRange { key: key.to_owned(), expected: "f32", got: n.to_string() });
    }
    Ok(rounded)
}
