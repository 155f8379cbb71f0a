//! A model file opened: its parts mapped, checked, and joined into one table of tensors.

#![forbid(unsafe_code)]

use crate::header::Header;
use crate::map::{Bytes, Storage};
use crate::{Error, Metadata, TensorInfo, split};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A GGUF model: one file, or all parts of a split one.
///
/// Tensor data is borrowed from read-only memory maps; opening reads only the headers. The file must not be written to
/// while it is open: if another program cuts it short, [`Gguf::data`] says so when it is called afterwards, but a read
/// through bytes that were already handed out ends the process, as the operating system does for every mapped file.
/// Replacing a file by renaming another over it is harmless.
#[derive(Debug)]
pub struct Gguf {
    /// At least one.
    parts: Vec<Part>,
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    /// Place of each name in `tensors`.
    by_name: HashMap<String, usize>,
}

/// One file.
#[derive(Debug)]
struct Part {
    storage: Arc<Storage>,
    /// Where the bytes come from; `None` for a model given as bytes.
    source: Option<Source>,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    file: File,
}

/// Whether every tensor must be in the file.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Whole,
    HeaderOnly,
}

impl Gguf {
    /// Opens a model whose tensors are all present. Given any part of a split model (`NAME-00001-of-0000N.gguf`), opens
    /// all parts, which must lie in the same folder.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_extent(path, Extent::Whole)
    }

    /// Opens a model of which perhaps only the header is there, such as the beginning of a download. [`Gguf::data`] of
    /// a tensor that is not there is [`Error::Truncated`]. Of a split model, the header of each part must be there.
    pub fn open_header(path: &Path) -> Result<Self, Error> {
        Self::open_extent(path, Extent::HeaderOnly)
    }

    /// Reads a model in one file from memory. The bytes are copied once, so that tensors are aligned as in a file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        let header = Header::parse(&bytes, 0)?;
        split::check_whole(&header.metadata)?;
        header.check_data(bytes.len() as u64)?;
        let part = Part { storage: Arc::new(Storage::copy(&bytes)?), source: None };
        Self::join(vec![(part, header)])
    }

    /// Keys and values; those of the first part for a split model.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in file order, part after part.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&place| &self.tensors[place])
    }

    /// The bytes of a tensor of this model: rows one after another, each made of whole blocks.
    ///
    /// Asks the system for the file's length, so load-time code should call it, and inner loops should keep the result.
    pub fn data(&self, tensor: &TensorInfo) -> Result<&[u8], Error> {
        let (part, range) = self.locate(tensor)?;
        Ok(&part.storage[range])
    }

    /// As [`Gguf::data`], but the bytes keep the memory map alive and outlive this value.
    pub fn data_shared(&self, tensor: &TensorInfo) -> Result<Bytes, Error> {
        let (part, range) = self.locate(tensor)?;
        Ok(Bytes::new(Arc::clone(&part.storage), range))
    }

    /// The file, the first part for a split model; `None` for a model given as bytes.
    pub fn path(&self) -> Option<&Path> {
        self.parts[0].source.as_ref().map(|source| source.path.as_path())
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.storage.len() as u64).sum()
    }

    /// The format version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    fn open_extent(path: &Path, extent: Extent) -> Result<Self, Error> {
        let opened = open_part(path, 0, extent)?;
        let paths = split::part_paths(path, &opened.1.metadata).map_err(|error| in_file(path, error))?;
        let Some(paths) = paths else {
            return Self::join(vec![opened]);
        };
        let n_parts = paths.len();
        let mut parts = Vec::with_capacity(n_parts);
        for (part_idx, part_path) in paths.iter().enumerate() {
            let (part, header) = match open_part(part_path, part_idx, extent) {
                Err(error) if is_absent(&error) => {
                    let (part, of) = (part_idx as u64 + 1, n_parts as u64);
                    return Err(in_file(path, Error::SplitMissing { missing: part_path.clone(), part, of }));
                }
                opened => opened?,
            };
            split::check_part(&header.metadata, part_idx, n_parts).map_err(|error| in_file(part_path, error))?;
            parts.push((part, header));
        }
        let n_tensors = parts.iter().map(|(_, header)| header.tensors.len()).sum();
        for (part_idx, ((_, header), part_path)) in parts.iter().zip(&paths).enumerate() {
            split::check_n_tensors(&header.metadata, part_idx, n_tensors).map_err(|error| in_file(part_path, error))?;
        }
        Self::join(parts)
    }

    /// Joins the parts of one model; there is at least one.
    fn join(parts: Vec<(Part, Header)>) -> Result<Self, Error> {
        let version = parts[0].1.version;
        let mut metadata = None;
        let mut tensors = Vec::new();
        let mut by_name = HashMap::new();
        let mut n_bytes = 0u64;
        let mut opened = Vec::with_capacity(parts.len());
        for (part, header) in parts {
            for tensor in header.tensors {
                let sum = n_bytes.checked_add(tensor.n_bytes).filter(|&sum| sum <= i64::MAX as u64);
                n_bytes = sum.ok_or_else(|| part.wrap(Error::TotalSize { tensor: tensor.name.clone() }))?;
                match by_name.entry(tensor.name.clone()) {
                    Entry::Occupied(entry) => {
                        return Err(part.wrap(Error::DuplicateTensor { tensor: entry.key().clone() }));
                    }
                    Entry::Vacant(entry) => entry.insert(tensors.len()),
                };
                tensors.push(tensor);
            }
            metadata.get_or_insert(header.metadata);
            opened.push(part);
        }
        let metadata = metadata.expect("a model has at least one part");
        Ok(Self { parts: opened, version, metadata, tensors, by_name })
    }

    fn locate(&self, tensor: &TensorInfo) -> Result<(&Part, Range<usize>), Error> {
        // A look-up rather than trust: the fields are public, and another file's entry must not read this one's bytes.
        let own = self.tensor(&tensor.name).filter(|&own| own == tensor);
        let own = own.ok_or_else(|| Error::ForeignTensor { tensor: tensor.name.clone() })?;
        let part = &self.parts[own.part];
        part.check_length()?;
        let got = part.storage.len() as u64;
        let expected = own.file_offset + own.n_bytes;
        match (usize::try_from(own.file_offset), usize::try_from(expected)) {
            (Ok(start), Ok(end)) if expected <= got => Ok((part, start..end)),
            _ => Err(part.wrap(Error::Truncated { tensor: own.name.clone(), expected, got })),
        }
    }
}

impl Part {
    /// Checks that the file is still as long as its map.
    fn check_length(&self) -> Result<(), Error> {
        let Some(source) = &self.source else { return Ok(()) };
        let now = source.file.metadata();
        let got = now.map_err(|error| self.wrap(Error::Io { action: "read the file's length", error }))?.len();
        let expected = self.storage.len() as u64;
        if got < expected { Err(self.wrap(Error::Shrunk { expected, got })) } else { Ok(()) }
    }

    fn wrap(&self, error: Error) -> Error {
        match &self.source {
            Some(source) => in_file(&source.path, error),
            None => error,
        }
    }
}

fn open_part(path: &Path, part_idx: usize, extent: Extent) -> Result<(Part, Header), Error> {
    let file = open_regular(path).map_err(|error| in_file(path, error))?;
    let storage = Storage::map(&file).map_err(|error| in_file(path, error))?;
    let source = Source { path: path.to_owned(), file };
    let part = Part { storage: Arc::new(storage), source: Some(source) };
    // The file may have been cut between measuring and mapping, and the header is about to be read.
    part.check_length()?;
    let header = Header::parse(&part.storage, part_idx).map_err(|error| part.wrap(error))?;
    if extent == Extent::Whole {
        header.check_data(part.storage.len() as u64).map_err(|error| part.wrap(error))?;
    }
    Ok((part, header))
}

/// Opens `path` for reading if it is a regular file with content.
fn open_regular(path: &Path) -> Result<File, Error> {
    let check = |metadata: io::Result<std::fs::Metadata>| {
        let metadata = metadata.map_err(|error| Error::Io { action: "read the file's properties", error })?;
        match metadata.file_type() {
            kind if kind.is_dir() => Err(Error::NotAFile { got: "directory" }),
            kind if !kind.is_file() => Err(Error::NotAFile { got: "pipe, socket or device" }),
            _ if metadata.len() == 0 => Err(Error::Empty),
            _ => Ok(()),
        }
    };
    // Before opening, because opening a pipe waits for its other end; and after, because the path may lead elsewhere by
    // then.
    check(std::fs::metadata(path))?;
    let file = File::open(path).map_err(|error| Error::Io { action: "open the file", error })?;
    check(file.metadata())?;
    Ok(file)
}

fn is_absent(error: &Error) -> bool {
    matches!(error.root(), Error::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
}

fn in_file(path: &Path, error: Error) -> Error {
    Error::File { path: path.to_owned(), error: Box::new(error) }
}

const _: () = {
    const fn is_shared_between_threads<T: Send + Sync>() {}
    is_shared_between_threads::<Gguf>();
    is_shared_between_threads::<Bytes>();
};
