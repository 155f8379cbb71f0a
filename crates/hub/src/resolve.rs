//! From what a user named to a file, or to the one sentence that says why there is none.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::catalog::{self, Entry};
use crate::reference::HubReference;
use crate::sources::installed_hub;
use crate::{Error, Folders, Installed, ModelId};

/// Ids that are suggested for one that does not exist.
const SUGGESTIONS_MAX: usize = 3;
/// Names that are shown of a folder's model files.
const NAMES_MAX: usize = 5;

/// A model that was named, found.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// It is in the cache; with its entry, if it is of the catalog.
    Installed(Option<&'static Entry>, Installed),
    /// A model of the catalog that can be pulled.
    Missing(&'static Entry),
    /// A model of the hub that can be looked for.
    OnHub(HubReference),
}

/// Finds a model by its id in the catalog or in the cache, or by `owner/name:QUANTISATION`.
///
/// # Errors
/// [`Error::BadId`], [`Error::BadReference`], [`Error::UnknownModel`] with ids that look alike, or [`Error::Io`] if the
/// cache cannot be read.
pub fn model_id(folders: &Folders, id: &str) -> Result<Resolved, Error> {
    if let Some(reference) = HubReference::parse(id) {
        let reference = reference?;
        return Ok(match installed_hub(&reference, folders)? {
            Some(installed) => Resolved::Installed(None, installed),
            None => Resolved::OnHub(reference),
        });
    }
    let Some(entry) = catalog::find(id) else {
        let id = ModelId::new(&id.to_ascii_lowercase())?;
        if let Some(installed) = folders.installed_by_id(&id)? {
            return Ok(Resolved::Installed(None, installed));
        }
        return Err(Error::UnknownModel { nearest: nearest(id.as_str()), id: id.to_string() });
    };
    Ok(match folders.installed(entry)? {
        Some(installed) => Resolved::Installed(Some(entry), installed),
        None => Resolved::Missing(entry),
    })
}

/// Checks that a path leads to a file with something in it. What it holds is the reader's business.
///
/// # Errors
/// [`Error::NoSuchFile`], [`Error::IsFolder`], [`Error::NotAFile`], [`Error::EmptyFile`], or [`Error::Io`] if the
/// system refuses to look.
pub fn model_file(path: &Path) -> Result<(), Error> {
    let to = path.to_path_buf();
    let metadata = match fs::metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let is_id = path.to_str().is_some_and(|id| catalog::find(id).is_some());
            return Err(Error::NoSuchFile { path: to, is_id });
        }
        found => found.map_err(Error::io("look at", path))?,
    };
    if metadata.is_dir() {
        return Err(Error::IsFolder { path: to, models: models_in(path) });
    }
    match (metadata.is_file(), metadata.len()) {
        (false, _) => Err(Error::NotAFile { path: to }),
        (true, 0) => Err(Error::EmptyFile { path: to }),
        (true, _) => Ok(()),
    }
}

/// Names of model files in a folder, in order.
fn models_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".gguf")).collect();
    names.sort();
    names.truncate(NAMES_MAX);
    names
}

/// Ids of the catalog that look like `id`, the likest first.
fn nearest(id: &str) -> Vec<&'static str> {
    let close = |other: &str| {
        let edits = edits(id.as_bytes(), other.as_bytes());
        // A beginning or a piece of an id is what people remember of it.
        let is_piece = id.len() >= 3 && other.contains(id);
        (is_piece || edits <= 2 + other.len() / 5).then_some((!is_piece, edits))
    };
    let mut found: Vec<_> =
        catalog::ENTRIES.iter().filter_map(|entry| Some((close(entry.id.as_str())?, entry.id.as_str()))).collect();
    found.sort();
    found.into_iter().map(|(_, id)| id).take(SUGGESTIONS_MAX).collect()
}

/// Least number of insertions, deletions and replacements that turn one text into the other (Levenshtein).
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn edits_are_counted() {
        // The textbook's examples.
        for (a, b, n) in [("kitten", "sitting", 3), ("saturday", "sunday", 3), ("", "abc", 3), ("abc", "abc", 0)] {
            assert_eq!(edits(a.as_bytes(), b.as_bytes()), n, "{a} {b}");
            assert_eq!(edits(b.as_bytes(), a.as_bytes()), n, "{b} {a}");
        }
    }

    #[test]
    fn what_was_meant_is_suggested() {
        let cases = [
            ("qwen35-2b-q4km", Some("qwen35-2b-q4k-m")),
            ("qwen3.5-2b-q4k-m", Some("qwen35-2b-q4k-m")),
            ("qwen35-2b", Some("qwen35-2b-q4k-m")),
            ("gpt-oss-20b", Some("gpt-oss-20b-q4k-m")),
            ("smollm2", Some("smollm2-135m-instruct-q4_1")),
            ("35b", Some("qwen35-35b-a3b-q4k-xl")),
            ("llama-2-70b-chat", None),
            ("x", None),
        ];
        for (id, expected) in cases {
            assert_eq!(nearest(id).first().copied(), expected, "{id}");
        }
    }
}
