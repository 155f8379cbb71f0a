//! Where models lie, and what is written beside each.
//!
//! `models/<id>/<file>` is a whole, checked file or absent; `models/<id>/manifest.json` says what was checked;
//! `models/<id>.lock` is held while a process fetches that model. Unfinished downloads are the business of `partial`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::catalog::Entry;
use crate::{Error, ModelId, Sha256Sum};

/// Bytes of the largest record that is read.
const RECORD_BYTES_MAX: u64 = 1 << 16;

/// The platforms' customs for caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `$XDG_CACHE_HOME`, or `.cache` in the home folder.
    Xdg,
    /// `Library/Caches` in the home folder.
    Apple,
}

impl Platform {
    /// The one that this program was built for.
    pub const CURRENT: Platform = if cfg!(target_os = "macos") { Platform::Apple } else { Platform::Xdg };
}

/// The folders of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    models: PathBuf,
}

impl Folders {
    /// Folders in a cache of the caller's choice.
    #[must_use]
    pub fn at(cache: &Path) -> Folders {
        Folders { models: cache.join("models") }
    }

    /// The folders that `platform` has for caches, from the values of the variables `HOME` and `XDG_CACHE_HOME`.
    /// A value that is empty or relative counts as absent.
    ///
    /// # Errors
    /// [`Error::NoHome`] if nothing is left to build on.
    pub fn from_environment(
        platform: Platform,
        home: Option<&Path>,
        xdg_cache_home: Option<&Path>,
    ) -> Result<Folders, Error> {
        let absolute = |path: Option<&Path>| path.filter(|path| path.is_absolute()).map(Path::to_path_buf);
        let caches = match platform {
            Platform::Xdg => absolute(xdg_cache_home).or_else(|| Some(absolute(home)?.join(".cache"))),
            Platform::Apple => absolute(home).map(|home| home.join("Library/Caches")),
        };
        Ok(Folders::at(&caches.ok_or(Error::NoHome)?.join("zinc")))
    }

    /// The folder of one model.
    #[must_use]
    pub fn model(&self, id: &ModelId) -> PathBuf {
        self.models.join(id.as_str())
    }

    /// The file of a catalog's model, whether it is there or not.
    #[must_use]
    pub fn file(&self, entry: &Entry) -> PathBuf {
        self.model(&entry.id).join(entry.hub.file)
    }

    /// What is installed of a model: its file, if that is as long as the catalog and the manifest beside it say. The
    /// content was checked when it came and is not read again.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses to look.
    pub fn installed(&self, entry: &Entry) -> Result<Option<Installed>, Error> {
        let path = self.file(entry);
        let n_bytes = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(Error::io("look at", path)(error)),
        };
        let manifest: Option<Manifest> = read_record(&self.manifest(&entry.id));
        Ok(manifest.filter(|manifest| n_bytes == entry.size_bytes && manifest.fits(entry)).map(|manifest| Installed {
            path,
            verification: manifest.verification,
            source: manifest.source,
            fetched: false,
        }))
    }

    /// Takes the lock of a model.
    pub(crate) fn lock(&self, id: &ModelId) -> Result<Lock, Error> {
        let folder = self.model(id);
        fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
        let path = self.models.join(format!("{id}.lock"));
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { id: id.clone(), lock: path }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
        }
    }

    /// Gives a finished file its final name and writes its manifest.
    pub(crate) fn install(&self, entry: &Entry, finished: &Path, source: &str) -> Result<Installed, Error> {
        let path = self.file(entry);
        fs::rename(finished, &path).map_err(Error::io("give the download its final name", &path))?;
        self.record(entry, source)
    }

    /// Writes the manifest of a file that is in place and was checked.
    pub(crate) fn record(&self, entry: &Entry, source: &str) -> Result<Installed, Error> {
        let verification = Verification::of(entry);
        let manifest = Manifest {
            id: entry.id.to_string(),
            file: entry.hub.file.to_owned(),
            size_bytes: entry.size_bytes,
            sha256: entry.sha256.map(|sum| sum.to_string()),
            verification,
            source: source.to_owned(),
            installed_at_unix: seconds_since_1970(),
        };
        let path = self.manifest(&entry.id);
        write_record(&path, &manifest).map_err(Error::io("write", path))?;
        sync_folder(&self.model(&entry.id))?;
        Ok(Installed { path: self.file(entry), verification, source: source.to_owned(), fetched: true })
    }

    fn manifest(&self, id: &ModelId) -> PathBuf {
        self.model(id).join("manifest.json")
    }
}

/// The lock of a model, held until it is dropped or the process dies.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would not do: a process that another thread starts just now holds a copy of the file until it
        // runs its own program, and the lock with it. An error leaves the lock to the closing.
        let _ = self.0.unlock();
    }
}

/// A model that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its file.
    pub path: PathBuf,
    /// How it was checked when it came.
    pub verification: Verification,
    /// Where it came from, in words.
    pub source: String,
    /// Whether it came, or was checked, just now.
    pub fetched: bool,
}

/// How a file was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// Its SHA-256 is the one in the catalog.
    Sha256,
    /// No sum is published: only its size was checked.
    SizeOnly,
}

impl Verification {
    /// The check that an entry makes possible.
    #[must_use]
    pub fn of(entry: &Entry) -> Verification {
        match entry.sha256 {
            Some(_) => Verification::Sha256,
            None => Verification::SizeOnly,
        }
    }
}

/// The record beside a model's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The model's id.
    pub id: String,
    /// Name of its file.
    pub file: String,
    /// Bytes of its file.
    pub size_bytes: u64,
    /// Sum of its file, if one is published.
    pub sha256: Option<String>,
    /// How the file was checked.
    pub verification: Verification,
    /// Where the file came from, in words.
    pub source: String,
    /// When, in seconds since 1970 by this machine's clock; for people, never compared.
    pub installed_at_unix: u64,
}

impl Manifest {
    /// Whether it speaks of the file that the catalog means.
    fn fits(&self, entry: &Entry) -> bool {
        self.id == entry.id.as_str()
            && self.file == entry.hub.file
            && self.size_bytes == entry.size_bytes
            && self.sha256 == entry.sha256.as_ref().map(Sha256Sum::to_string)
    }
}

/// Reads a small JSON file; one that is absent, too large or broken counts as absent.
pub(crate) fn read_record<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(RECORD_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes a small JSON file so that it is always the old one or the new one.
pub(crate) fn write_record(path: &Path, record: &impl Serialize) -> io::Result<()> {
    let unfinished = path.with_extension("json.new");
    let text = serde_json::to_vec_pretty(record).expect("records hold strings and numbers only");
    let mut file = File::create(&unfinished)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Removes a file if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder and what is in it, if it is there.
pub(crate) fn remove_folder(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove the folder", path)(error)),
        _ => Ok(()),
    }
}

/// `Err` if fewer than `needed` bytes can be written in `folder`.
pub(crate) fn check_space(folder: &Path, needed: u64) -> Result<(), Error> {
    let found =
        rustix::fs::statvfs(folder).map_err(|errno| Error::io("ask for the free space of", folder)(errno.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    match needed > free {
        true => Err(Error::NoSpace { folder: folder.to_path_buf(), needed, free }),
        false => Ok(()),
    }
}

/// Makes the names in a folder last through a power cut.
fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(Error::io("write", folder))
}

/// By the machine's clock, which may be wrong.
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Folders, Platform, check_space, read_record, write_record};
    use crate::{Error, catalog};

    #[test]
    fn folders_follow_the_platforms_customs() {
        let home = Some(Path::new("/users/ada"));
        let caches = Some(Path::new("/big/caches"));
        let cases = [
            (Platform::Xdg, home, None, "/users/ada/.cache/zinc"),
            (Platform::Xdg, home, caches, "/big/caches/zinc"),
            (Platform::Xdg, None, caches, "/big/caches/zinc"),
            (Platform::Xdg, home, Some(Path::new("")), "/users/ada/.cache/zinc"),
            (Platform::Xdg, home, Some(Path::new("relative")), "/users/ada/.cache/zinc"),
            (Platform::Apple, home, caches, "/users/ada/Library/Caches/zinc"),
        ];
        for (platform, home, xdg_cache_home, cache) in cases {
            let folders = Folders::from_environment(platform, home, xdg_cache_home).unwrap();
            assert_eq!(folders, Folders::at(Path::new(cache)));
        }
        let relative = Some(Path::new("ada"));
        for (platform, home) in [(Platform::Xdg, None), (Platform::Xdg, relative), (Platform::Apple, None)] {
            let found = Folders::from_environment(platform, home, None);
            assert!(matches!(found, Err(Error::NoHome)), "{platform:?} {home:?}");
        }
    }

    #[test]
    fn a_model_lies_in_the_folder_of_its_id() {
        let path = Folders::at(Path::new("/cache/zinc")).file(catalog::DEFAULT);
        let expected = "/cache/zinc/models/smollm2-135m-instruct-q4_1/SmolLM2-135M-Instruct.Q4_1.gguf";
        assert_eq!(path, PathBuf::from(expected));
    }

    #[test]
    fn a_broken_record_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        assert_eq!(read_record::<Vec<u32>>(&path), None);
        write_record(&path, &[1, 2]).unwrap();
        assert_eq!(read_record(&path), Some(vec![1, 2]));
        std::fs::write(&path, "[1, 2").unwrap();
        assert_eq!(read_record::<Vec<u32>>(&path), None);
    }

    #[test]
    fn space_is_looked_at_where_the_file_will_lie() {
        let folder = tempfile::tempdir().unwrap();
        check_space(folder.path(), 0).unwrap();
        let refused = check_space(folder.path(), u64::MAX);
        assert!(matches!(refused, Err(Error::NoSpace { needed: u64::MAX, free, .. }) if free > 0));
    }
}
