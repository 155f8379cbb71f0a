//! The GGUF model file: header, metadata, tensor table, memory map, split files, writer, and the block formats of its
//! weights.
//!
//! Everything above this crate sees a model file as three things: [`Metadata`] (typed key-value pairs), a table of
//! [`TensorInfo`], and the bytes of each tensor, borrowed from the map without a copy. [`quants`] turns those bytes
//! into `f32` and back, and holds the block layouts that the compute kernels share.
//!
//! A file is hostile until proven otherwise. Every count, length and offset in it is checked before it is used, so a
//! [`Gguf`] that exists is sound: each tensor lies inside its file, aligned, apart from every other.
//!
//! Deliberately absent: the meaning of the keys (`models`, `tokenizer`), big-endian files, GGUF version 1, and types
//! that no supported model uses; each is a typed [`Error`].

#![deny(unsafe_code)]

mod cursor;
mod dtype;
mod error;
mod file;
mod header;
mod map;
mod metadata;
pub mod quants;
mod split;
mod tensor;
mod value;
mod writer;

pub use crate::dtype::DType;
pub use crate::error::Error;
pub use crate::file::Gguf;
pub use crate::map::Bytes;
pub use crate::metadata::Metadata;
pub use crate::tensor::TensorInfo;
pub use crate::value::{Array, Strings, Value};
pub use crate::writer::Writer;
