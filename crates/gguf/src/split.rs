//! Models split over several files named `NAME-00001-of-0000N.gguf`.
//!
//! Any part leads to all. Each part says its number and how many there are, in its name and in its metadata; both must
//! agree. Metadata beyond the `split.*` keys is that of the first part.

#![forbid(unsafe_code)]

use crate::{Error, Metadata};
use std::path::{Path, PathBuf};

/// Parts of a model at most; each holds a map and a file open.
const N_PARTS_MAX: u64 = 512;
const COUNT_KEY: &str = "split.count";
const PART_KEY: &str = "split.no";
const N_TENSORS_KEY: &str = "split.tensors.count";

/// The files of a split model, in order, of which `path` is one; `None` for a model in one file.
pub(crate) fn part_paths(path: &Path, metadata: &Metadata) -> Result<Option<Vec<PathBuf>>, Error> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_name);
    let n_parts = n_parts(metadata)?;
    let Some(name) = name else {
        return if n_parts > 1 { Err(unnamed(metadata, n_parts)?) } else { Ok(None) };
    };
    if n_parts != name.n_parts {
        return Err(field(COUNT_KEY, name.n_parts, metadata.u64(COUNT_KEY)?));
    }
    if n_parts == 1 {
        return Ok(None);
    }
    Ok(Some((1..=n_parts).map(|part| path.with_file_name(name.of_part(part))).collect()))
}

/// Checks that a file given without a name is no part of a split model.
pub(crate) fn check_whole(metadata: &Metadata) -> Result<(), Error> {
    let n_parts = n_parts(metadata)?;
    if n_parts > 1 { Err(unnamed(metadata, n_parts)?) } else { Ok(()) }
}

/// Checks what part `part_idx` of `n_parts` says of itself.
pub(crate) fn check_part(metadata: &Metadata, part_idx: usize, n_parts: usize) -> Result<(), Error> {
    for (key, expected) in [(COUNT_KEY, n_parts as u64), (PART_KEY, part_idx as u64)] {
        let got = metadata.u64(key)?;
        if got != Some(expected) {
            return Err(field(key, expected, got));
        }
    }
    Ok(())
}

/// Checks the number of tensors that a part states for the whole model; only the first part must state it.
pub(crate) fn check_n_tensors(metadata: &Metadata, part_idx: usize, n_tensors: usize) -> Result<(), Error> {
    let got = metadata.u64(N_TENSORS_KEY)?;
    let is_right =
        if part_idx == 0 { got == Some(n_tensors as u64) } else { got.is_none_or(|got| got == n_tensors as u64) };
    if is_right { Ok(()) } else { Err(field(N_TENSORS_KEY, n_tensors as u64, got)) }
}

/// What the name of a part says.
struct PartName<'a> {
    prefix: &'a str,
    n_parts: u64,
}

impl PartName<'_> {
    fn of_part(&self, part: u64) -> String {
        format!("{}-{part:05}-of-{:05}.gguf", self.prefix, self.n_parts)
    }
}

/// Reads `PREFIX-00001-of-00003.gguf`.
fn parse_name(name: &str) -> Option<PartName<'_>> {
    let (rest, n_parts) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        let is_number = digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (part, n_parts) = (number(part)?, number(n_parts)?);
    (1..=n_parts).contains(&part).then_some(PartName { prefix, n_parts })
}

/// The number of files that the metadata speaks of, 1 when it speaks of none.
fn n_parts(metadata: &Metadata) -> Result<u64, Error> {
    let got = metadata.u64(COUNT_KEY)?.unwrap_or(1).max(1);
    if got > N_PARTS_MAX {
        return Err(Error::Limit { field: COUNT_KEY.to_owned(), got, limit: N_PARTS_MAX });
    }
    Ok(got)
}

fn unnamed(metadata: &Metadata, n_parts: u64) -> Result<Error, Error> {
    let part_idx = metadata.u64(PART_KEY)?.unwrap_or(0);
    Ok(Error::SplitName { part: part_idx.saturating_add(1), of: n_parts })
}

fn field(key: &'static str, expected: u64, got: Option<u64>) -> Error {
    Error::SplitField { key, expected, got: got.map_or_else(|| "absent".to_owned(), |got| got.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::parse_name;

    #[test]
    fn names_of_parts() {
        let name = parse_name("a-b-00002-of-00003.gguf").unwrap();
        assert_eq!((name.prefix, name.n_parts), ("a-b", 3));
        assert_eq!(name.of_part(1), "a-b-00001-of-00003.gguf");
        for other in
            ["a.gguf", "a-00002-of-00003", "a-0002-of-00003.gguf", "a-00004-of-00003.gguf", "a-00000-of-00003.gguf"]
        {
            assert!(parse_name(other).is_none(), "{other}");
        }
        assert!(parse_name("a-+0001-of-00003.gguf").is_none());
    }
}
