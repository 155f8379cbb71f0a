//! What is done with models that are in the cache: which one is the user's, which are in use, checking, removing.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::folders::{MANIFEST, read_record, remove_file, remove_folder, write_record};
use crate::package::WORK;
use crate::partial::discard_leftovers;
use crate::summing::sum_of;
use crate::watch::{Event, Watch};
use crate::{Error, Folders, Installed, ModelId};

/// The record of the model that is run if none is named, in the cache's folder.
const ACTIVE: &str = "active.json";

#[derive(Serialize, Deserialize)]
struct Active {
    id: String,
}

/// What a removal has removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Bytes that its files had.
    pub size_bytes: u64,
    /// Names in its folder that no pull made; they and the folder are still there.
    pub left: Vec<String>,
}

/// A model in use: as long as this lives, no process of this machine removes the model unless it is forced to.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "the lock is the open file's")] Option<File>);

impl Installed {
    /// Marks the model as in use. Where the file system has no locks, the model goes unmarked.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened.
    pub fn hold(&self) -> Result<Hold, Error> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        Ok(Hold(file.try_lock_shared().is_ok().then_some(file)))
    }
}

impl Folders {
    /// The model that the user chose, if it is still there to be read.
    #[must_use]
    pub fn active(&self) -> Option<ModelId> {
        let active: Active = read_record(&self.cache().join(ACTIVE))?;
        ModelId::new(&active.id).ok()
    }

    /// Chooses the model that is run if none is named; `None` chooses none.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written down.
    pub fn set_active(&self, id: Option<&ModelId>) -> Result<(), Error> {
        let path = self.cache().join(ACTIVE);
        let Some(id) = id else { return remove_file(&path) };
        fs::create_dir_all(self.cache()).map_err(Error::io("make the folder", self.cache()))?;
        write_record(&path, &Active { id: id.to_string() }).map_err(Error::io("write", path))
    }

    /// Reads every file of a model and compares its sum with the one that it had when it came. `cancel` and `on_event`
    /// are as for a pull.
    ///
    /// # Errors
    /// [`Error::NotInstalled`]; [`Error::Damaged`] with the first file that differs.
    pub fn verify(
        &self,
        id: &ModelId,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Installed, Error> {
        let missing = || Error::NotInstalled { id: id.clone() };
        let installed = self.installed_by_id(id)?.ok_or_else(missing)?;
        let manifest = self.manifest(id).ok_or_else(missing)?;
        let mut watch = Watch { cancel, on_event };
        for file in &manifest.files {
            let path = self.model(id).join(&file.name);
            let got = sum_of(&path, file.size_bytes, &mut watch)?;
            if got.to_string() != file.sha256 {
                return Err(Error::Damaged { path, expected: file.sha256.clone(), got });
            }
        }
        Ok(installed)
    }

    /// Removes a model and what unfinished pulls left of it: the files that a pull makes, by their names, and nothing
    /// else. `file` is the catalog's name for its file, for a model that was never whole.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] if there is nothing of it; [`Error::Loaded`] if a process runs it and `is_forced` is not
    /// set; [`Error::Busy`] while it is pulled.
    pub fn remove(&self, id: &ModelId, file: Option<&str>, is_forced: bool) -> Result<Removed, Error> {
        let folder = self.model(id);
        if folder.is_symlink() {
            return Err(Error::Linked { path: folder });
        }
        if !folder.is_dir() {
            return Err(Error::NotInstalled { id: id.clone() });
        }
        let _lock = self.lock(id)?;
        let manifest = self.manifest(id);
        let mut names: Vec<String> = manifest.iter().flat_map(|m| &m.files).map(|file| file.name.clone()).collect();
        names.extend(file.map(str::to_owned).filter(|name| !names.contains(name)));
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        if !is_forced && paths.iter().any(|path| is_held(path)) {
            return Err(Error::Loaded { id: id.clone() });
        }
        let sizes = paths.iter().map(|path| fs::symlink_metadata(path).map_or(0, |found| found.len()));
        let size_bytes = sizes.fold(0, u64::saturating_add);
        // Without its manifest the model is not there, whatever happens next.
        remove_file(&folder.join(MANIFEST))?;
        remove_file(&folder.join(MANIFEST).with_extension("json.new"))?;
        for path in self.unfinished(id)?.iter().chain(&paths) {
            remove_file(path)?;
        }
        paths.iter().try_for_each(|path| discard_leftovers(path))?;
        remove_folder(&folder.join(WORK))?;
        let left = self.names_in(id)?;
        if left.is_empty() {
            fs::remove_dir(&folder).map_err(Error::io("remove the folder", &folder))?;
        }
        if self.active().as_ref() == Some(id) {
            self.set_active(None)?;
        }
        Ok(Removed { size_bytes, left })
    }

    /// What pulls that did not end have left of any file: of a split model the names are not known beforehand.
    fn unfinished(&self, id: &ModelId) -> Result<Vec<PathBuf>, Error> {
        let endings = [".gguf.partial", ".gguf.partial.json", ".gguf.partial.json.new"];
        let mut names = self.names_in(id)?;
        names.retain(|name| endings.iter().any(|ending| name.ends_with(ending)));
        Ok(names.iter().map(|name| self.model(id).join(name)).collect())
    }

    fn names_in(&self, id: &ModelId) -> Result<Vec<String>, Error> {
        let folder = self.model(id);
        let entries = fs::read_dir(&folder).map_err(Error::io("read the folder", &folder))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }
}

/// Whether a process holds the file. One that cannot be asked, because it is gone or has no locks, is not held.
fn is_held(path: &std::path::Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
