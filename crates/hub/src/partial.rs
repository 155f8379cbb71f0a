//! A download that is not whole yet: `<file>.partial`, and beside it `<file>.partial.json` with what it is a part of.
//!
//! The sum is taken while the bytes are written, so that a finished file needs no second reading; what an earlier pull
//! left is read once, at the start. Bytes of two different files never end up in one: when the pinned identity does not
//! fit, the part is thrown away.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::folders::{read_record, remove_file, write_record};
use crate::watch::{Event, Phase, Watch};
use crate::{Error, Sha256Sum};

/// Bytes read or hashed at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 17;

/// What an unfinished file is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// The server's name for the version (its ETag), if it gives one.
    tag: Option<String>,
    size_bytes: u64,
    sha256: Option<String>,
}

/// An unfinished file, open for appending.
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    hasher: Sha256,
    pin: Pin,
    /// Whether its bytes came with more than one answer.
    is_patchwork: bool,
}

impl Partial {
    /// Opens what an earlier pull left for `destination`, or begins anew.
    pub(crate) fn open(
        destination: &Path,
        size_bytes: u64,
        sha256: Option<Sha256Sum>,
        watch: &mut Watch<'_>,
    ) -> Result<Partial, Error> {
        let path = partial_path(destination);
        // A symbolic link of that name would let bytes go somewhere else; opening one is refused.
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(no_links);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        let wanted = Pin { tag: None, size_bytes, sha256: sha256.map(|sum| sum.to_string()) };
        let pinned = read_record::<Pin>(&pin_path(&path));
        let mut partial = Partial { path, file, n_bytes: 0, hasher: Sha256::new(), pin: wanted, is_patchwork: false };
        match pinned {
            Some(pin) if partial.continues(&pin) => {
                partial.pin = pin;
                partial.read_back(watch)?;
            }
            _ => partial.restart()?,
        }
        Ok(partial)
    }

    /// Bytes that are there.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Bytes of the whole.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.pin.size_bytes
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its bytes came with more than one answer, so that a wrong sum may be the seam's fault.
    pub(crate) fn is_patchwork(&self) -> bool {
        self.is_patchwork
    }

    /// Whether a version that the server calls `tag` is the one whose bytes are here. Without a name, only a published
    /// sum can tell in the end.
    pub(crate) fn is_part_of(&self, tag: Option<&str>) -> bool {
        match (&self.pin.tag, tag) {
            (Some(pinned), Some(tag)) => pinned == tag,
            _ => self.pin.sha256.is_some(),
        }
    }

    /// Throws away what is there.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let empty = self.file.set_len(0).and_then(|()| self.file.rewind());
        empty.map_err(Error::io("empty", &self.path))?;
        self.n_bytes = 0;
        self.hasher = Sha256::new();
        self.is_patchwork = false;
        Ok(())
    }

    /// Notes which version the bytes to come belong to. Called before the first of each answer is written.
    pub(crate) fn begin_answer(&mut self, tag: Option<String>) -> Result<(), Error> {
        self.is_patchwork = self.n_bytes > 0;
        // A later answer that does not say its version takes nothing from what is known.
        if self.n_bytes == 0 || tag.is_some() {
            self.pin.tag = tag;
        }
        write_record(&pin_path(&self.path), &self.pin).map_err(|error| self.refused(error))
    }

    /// Appends; what was counted and summed is exactly what the system took.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(self.refused(ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.hasher.update(&bytes[..n]);
                    self.n_bytes += n as u64;
                    bytes = &bytes[n..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused(error)),
            }
        }
        Ok(())
    }

    /// Makes the bytes last. `Err` tells a full disk from other trouble.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|error| self.refused(error))
    }

    /// The sum of what is there.
    pub(crate) fn sum(&self) -> Sha256Sum {
        Sha256Sum::of(&self.hasher)
    }

    /// Removes it from the disk.
    pub(crate) fn discard(self) -> Result<(), Error> {
        let path = self.path.clone();
        drop(self);
        remove_file(&path)?;
        remove_file(&pin_path(&path))
    }

    fn continues(&self, pin: &Pin) -> bool {
        let same = pin.size_bytes == self.pin.size_bytes && pin.sha256 == self.pin.sha256;
        same && (pin.tag.is_some() || pin.sha256.is_some())
    }

    /// Counts and sums what is on the disk.
    fn read_back(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let total = self.file.metadata().map_err(Error::io("look at", &self.path))?.len();
        if total > self.pin.size_bytes {
            return self.restart();
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            watch.check()?;
            let n = match self.file.read(&mut chunk) {
                Ok(n) => n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io("read", &self.path)(error)),
            };
            if n == 0 {
                break;
            }
            self.hasher.update(&chunk[..n]);
            self.n_bytes += n as u64;
            watch.event(Event::Progress { phase: Phase::Checking, done: self.n_bytes, total });
        }
        self.file.seek(SeekFrom::Start(self.n_bytes)).map_err(Error::io("read", &self.path))?;
        self.is_patchwork = self.n_bytes > 0;
        Ok(())
    }

    fn refused(&self, error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Error::DiskFull { partial: self.path.clone(), done: self.n_bytes, total: self.pin.size_bytes }
            }
            _ => Error::io("write", &self.path)(error),
        }
    }
}

/// Removes what a pull of `destination` may have left unfinished.
pub(crate) fn discard_leftovers(destination: &Path) -> Result<(), Error> {
    let path = partial_path(destination);
    remove_file(&path)?;
    remove_file(&pin_path(&path))
}

fn partial_path(destination: &Path) -> PathBuf {
    with_suffix(destination, ".partial")
}

fn pin_path(partial: &Path) -> PathBuf {
    with_suffix(partial, ".json")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use super::{Error, Partial, Sha256Sum, partial_path, pin_path};
    use crate::watch::{Event, Watch};

    /// The sum of `abc` in FIPS 180-2, B.1.
    const ABC: Sha256Sum = Sha256Sum::from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

    fn open(destination: &Path, sha256: Option<Sha256Sum>) -> Result<Partial, Error> {
        let mut ignore = |_: Event<'_>| {};
        Partial::open(destination, 3, sha256, &mut Watch { cancel: &AtomicBool::new(false), on_event: &mut ignore })
    }

    #[test]
    fn a_part_is_continued_and_its_sum_covers_all() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("file");
        let mut partial = open(&destination, Some(ABC)).unwrap();
        partial.begin_answer(Some("v1".into())).unwrap();
        partial.append(b"ab").unwrap();
        drop(partial);

        let mut partial = open(&destination, Some(ABC)).unwrap();
        assert_eq!((partial.n_bytes(), partial.is_patchwork()), (2, true));
        assert!(partial.is_part_of(Some("v1")) && !partial.is_part_of(Some("v2")));
        partial.append(b"c").unwrap();
        assert_eq!(partial.sum(), ABC);
        partial.discard().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_part_of_something_else_is_thrown_away() {
        let other = Sha256Sum::from_hex("00000000000000000000000000000000000000000000000000000000000000ff");
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("file");
        let leave = |tag: Option<&str>, sha256| {
            let mut partial = open(&destination, sha256).unwrap();
            partial.begin_answer(tag.map(str::to_owned)).unwrap();
            partial.append(b"ab").unwrap();
        };
        let left = |sha256| open(&destination, sha256).unwrap().n_bytes();

        leave(Some("v1"), Some(other));
        assert_eq!(left(Some(ABC)), 0, "the catalog means another file now");
        leave(None, None);
        assert_eq!(left(None), 0, "nothing tells what it is a part of");
        leave(Some("v1"), None);
        assert_eq!(left(None), 2);
        fs::remove_file(pin_path(&partial_path(&destination))).unwrap();
        assert_eq!(left(None), 0, "its record is gone");
        leave(Some("v1"), None);
        fs::write(partial_path(&destination), b"abcd").unwrap();
        assert_eq!(left(None), 0, "it is longer than the whole");
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (destination, victim) = (folder.path().join("file"), folder.path().join("victim"));
        fs::write(&victim, b"precious").unwrap();
        std::os::unix::fs::symlink(&victim, partial_path(&destination)).unwrap();
        assert!(matches!(open(&destination, None), Err(Error::Io { action: "open", .. })));
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    /// The kernel's own full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_from_other_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let mut partial = open(&folder.path().join("file"), None).unwrap();
        partial.append(b"a").unwrap();
        partial.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let refused = partial.append(b"bc");
        assert!(matches!(refused, Err(Error::DiskFull { done: 1, total: 3, .. })), "{refused:?}");
    }
}
