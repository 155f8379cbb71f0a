//! What a pull is to bring, wherever the wish came from: the catalog, or a repository that the user named.

use crate::catalog::{Entry, Package};
use crate::{ModelId, Sha256Sum};

/// The files of one model in one repository.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The model's folder in the cache.
    pub(crate) id: ModelId,
    /// `owner/name`.
    pub(crate) repository: String,
    /// Commit, or the name of a branch.
    pub(crate) revision: String,
    /// At least one; the file that is opened comes first.
    pub(crate) files: Vec<WantedFile>,
    /// A Python package that carries the only file.
    pub(crate) package: Option<Package>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedFile {
    /// Its path in the repository, with `/`.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size_bytes: u64,
    /// Its published sum, if there is one.
    pub(crate) sha256: Option<Sha256Sum>,
}

impl WantedFile {
    /// Its name in the model's folder.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl Wanted {
    /// A model of the catalog.
    pub(crate) fn of(entry: &Entry) -> Wanted {
        let file = WantedFile { path: entry.hub.file.to_owned(), size_bytes: entry.size_bytes, sha256: entry.sha256 };
        Wanted {
            id: entry.id.clone(),
            repository: entry.hub.repository.to_owned(),
            revision: entry.hub.revision.to_owned(),
            files: vec![file],
            package: entry.package.clone(),
        }
    }
}
