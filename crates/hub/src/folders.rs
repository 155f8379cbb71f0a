//! Where models lie, and the small files beside them.
//!
//! `models/<id>/<file>` is a whole, checked file or absent; `models/<id>/manifest.json` says what was checked
//! (`manifest`); `models/<id>.lock` is held while a process fetches or removes that model, and a shared lock on the file
//! itself while one runs it. Unfinished downloads are the business of `partial`. Nothing is written through symbolic
//! links of the cache.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalog::Entry;
use crate::manifest::{Installed, Manifest, ManifestFile, Verification, seconds_since_1970};
use crate::wanted::Wanted;
use crate::{Error, ModelId, Sha256Sum};

/// Bytes of the largest record that is read.
const RECORD_BYTES_MAX: u64 = 1 << 18;
/// For `custom_flags`: a symbolic link is not opened.
#[allow(clippy::cast_possible_wrap, reason = "flags of the system, as its headers have them")]
pub(crate) const NO_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
/// The name of the record of a model.
pub(crate) const MANIFEST: &str = "manifest.json";

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
    cache: PathBuf,
    models: PathBuf,
}

impl Folders {
    /// Folders in a cache of the caller's choice.
    #[must_use]
    pub fn at(cache: &Path) -> Folders {
        Folders { cache: cache.to_path_buf(), models: cache.join("models") }
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

    /// The cache itself, for what else is worth keeping.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// What is installed of a catalog's model: its file, if that is as long as the catalog and the manifest beside it
    /// say. The content was checked when it came and is not read again.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses to look.
    pub fn installed(&self, entry: &Entry) -> Result<Option<Installed>, Error> {
        self.installed_as(&Wanted::of(entry))
    }

    /// What is installed under an id, by its own manifest: also what the catalog does not have.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses to look.
    pub fn installed_by_id(&self, id: &ModelId) -> Result<Option<Installed>, Error> {
        match self.manifest(id) {
            Some(manifest) if self.is_whole(id, &manifest)? => Ok(Some(manifest.installed(&self.model(id)))),
            _ => Ok(None),
        }
    }

    /// Ids of all models that are installed, in order. A cache that is not there holds none.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses to look.
    pub fn all_installed(&self) -> Result<Vec<Installed>, Error> {
        let entries = match fs::read_dir(&self.models) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(Error::io("read the folder", &self.models)(error)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<ModelId> = names.filter_map(|name| ModelId::new(&name).ok()).collect();
        ids.sort();
        let found = ids.iter().map(|id| self.installed_by_id(id));
        found.filter_map(Result::transpose).collect()
    }

    /// As [`Folders::installed`], for what a pull is to bring.
    pub(crate) fn installed_as(&self, wanted: &Wanted) -> Result<Option<Installed>, Error> {
        match self.manifest(&wanted.id) {
            Some(manifest) if manifest.fits(wanted) && self.is_whole(&wanted.id, &manifest)? => {
                Ok(Some(manifest.installed(&self.model(&wanted.id))))
            }
            _ => Ok(None),
        }
    }

    /// The manifest of a model, if it is there and speaks of that model.
    pub(crate) fn manifest(&self, id: &ModelId) -> Option<Manifest> {
        read_record::<Manifest>(&self.model(id).join(MANIFEST)).filter(|manifest| manifest.is_sound(id))
    }

    /// Whether every file of a manifest is there with its length.
    fn is_whole(&self, id: &ModelId, manifest: &Manifest) -> Result<bool, Error> {
        let folder = self.model(id);
        for file in &manifest.files {
            let path = folder.join(&file.name);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() && metadata.len() == file.size_bytes => {}
                Ok(_) => return Ok(false),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Ok(false);
                }
                Err(error) => return Err(Error::io("look at", path)(error)),
            }
        }
        Ok(true)
    }

    /// Takes the lock of a model, whose folder is made.
    pub(crate) fn lock(&self, id: &ModelId) -> Result<Lock, Error> {
        let folder = self.model(id);
        if folder.is_symlink() {
            return Err(Error::Linked { path: folder });
        }
        fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
        let path = self.models.join(format!("{id}.lock"));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).custom_flags(NO_LINKS).open(&path);
        let file = opened.map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { id: id.clone(), lock: path }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
        }
    }

    /// Gives a finished file its final name.
    pub(crate) fn install(&self, finished: &Path, path: &Path) -> Result<(), Error> {
        fs::rename(finished, path).map_err(Error::io("give the download its final name", path))?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    /// Writes the manifest of files that are in place and were checked; `sums` are theirs, in order.
    pub(crate) fn record(&self, wanted: &Wanted, sums: &[Sha256Sum], source: &str) -> Result<Installed, Error> {
        let file = |(file, sum): (&crate::wanted::WantedFile, &Sha256Sum)| ManifestFile {
            name: file.name().to_owned(),
            size_bytes: file.size_bytes,
            sha256: sum.to_string(),
        };
        let is_published = wanted.files.iter().all(|file| file.sha256.is_some());
        let manifest = Manifest {
            id: wanted.id.to_string(),
            repository: wanted.repository.clone(),
            revision: wanted.revision.clone(),
            files: wanted.files.iter().zip(sums).map(file).collect(),
            verification: if is_published { Verification::Sha256 } else { Verification::SizeOnly },
            source: source.to_owned(),
            installed_at_unix: seconds_since_1970(),
        };
        let folder = self.model(&wanted.id);
        let path = folder.join(MANIFEST);
        write_record(&path, &manifest).map_err(Error::io("write", path))?;
        sync_folder(&folder)?;
        Ok(Installed { fetched: true, ..manifest.installed(&folder) })
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
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).custom_flags(NO_LINKS).open(&unfinished)?;
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
