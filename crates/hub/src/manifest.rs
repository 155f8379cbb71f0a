//! What is written beside a model's files: which they are, and how they were checked.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::wanted::Wanted;
use crate::{ModelId, Sha256Sum};

/// Files of the largest model that is believed.
const FILES_MAX: usize = 512;

/// A model that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its id.
    pub id: ModelId,
    /// Its file; the first one of a split model.
    pub path: PathBuf,
    /// Where it is from: `owner/name`.
    pub repository: String,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// How it was checked when it came.
    pub verification: Verification,
    /// Where it came from, in words.
    pub source: String,
    /// Whether it came, or was checked, just now.
    pub fetched: bool,
}

/// How a model's files were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// The SHA-256 of each is the one that is published.
    Sha256,
    /// No sum is published: only the size was checked.
    SizeOnly,
}

/// The record beside a model's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The model's id.
    pub id: String,
    /// Where it is from: `owner/name`.
    pub repository: String,
    /// The commit, or the branch if the hub named no commit.
    pub revision: String,
    /// Its files; the one that is opened comes first.
    pub files: Vec<ManifestFile>,
    /// How they were checked.
    pub verification: Verification,
    /// Where they came from, in words.
    pub source: String,
    /// When, in seconds since 1970 by this machine's clock; for people, never compared.
    pub installed_at_unix: u64,
}

/// A file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its name in the model's folder.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// The sum that it had when it came, whether one was published or not.
    pub sha256: String,
}

impl Manifest {
    /// Whether it is one that a pull may have written for this id: a record lies on a disk, where anybody may write.
    pub(crate) fn is_sound(&self, id: &ModelId) -> bool {
        let names = || self.files.iter().map(|file| file.name.as_str());
        self.id == id.as_str() && (1..=FILES_MAX).contains(&self.files.len()) && names().all(is_plain_name)
    }

    /// Whether it speaks of the files that a pull is to bring.
    pub(crate) fn fits(&self, wanted: &Wanted) -> bool {
        let same = |(here, there): (&ManifestFile, &crate::wanted::WantedFile)| {
            let sum = there.sha256.as_ref().map(Sha256Sum::to_string);
            here.name == there.name() && here.size_bytes == there.size_bytes && sum.is_none_or(|sum| sum == here.sha256)
        };
        let is_checked = self.verification == Verification::Sha256 || wanted.files.iter().any(|f| f.sha256.is_none());
        self.files.len() == wanted.files.len() && self.files.iter().zip(&wanted.files).all(same) && is_checked
    }

    /// The model that it describes, in `folder`.
    pub(crate) fn installed(&self, folder: &Path) -> Installed {
        Installed {
            id: ModelId::new(&self.id).expect("a sound manifest has the id that it was looked up by"),
            path: folder.join(self.files.first().map_or("", |file| file.name.as_str())),
            repository: self.repository.clone(),
            size_bytes: self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size_bytes)),
            verification: self.verification,
            source: self.source.clone(),
            fetched: false,
        }
    }
}

/// Whether a name may be a model file's: nothing that leads elsewhere, hides, or could be one of our own records.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-+".contains(&b);
    name.ends_with(".gguf") && name.len() <= 200 && !name.starts_with(['.', '-']) && name.bytes().all(plain)
}

/// By the machine's clock, which may be wrong.
pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::is_plain_name;

    #[test]
    fn names_of_files_lead_nowhere_else() {
        for good in ["a.gguf", "Qwen3.5-2B-UD-Q4_K_XL-00001-of-00002.gguf", "a+b.gguf"] {
            assert!(is_plain_name(good), "{good}");
        }
        let long = format!("{}.gguf", "x".repeat(200));
        for bad in [
            "",
            ".gguf",
            "../a.gguf",
            "a/b.gguf",
            "a\\b.gguf",
            "-a.gguf",
            "a b.gguf",
            "a\n.gguf",
            "é.gguf",
            "a.json",
            &long,
        ] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
    }
}
