//! A download that is not whole yet: `<file>.partial`, and beside it `<file>.partial.json` with what it is a part of.
//!
//! As long as bytes come in order, the file's length says how many are there, whatever happens to this process. When
//! several connections bring pieces, the record lists them, so that it may be a second behind after a crash. Bytes of two
//! different files never end up in one: when the pinned identity does not fit, the part is thrown away.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::folders::{NO_LINKS, read_record, remove_file, write_record};
use crate::ranges::Ranges;
use crate::{Error, Sha256Sum};

/// Bytes read or hashed at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 17;
/// How far the list of pieces on the disk may be behind.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// What an unfinished file is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// The server's name for the version (its ETag), if it gives one.
    tag: Option<String>,
    size_bytes: u64,
    sha256: Option<String>,
    /// The bytes that are there, if they did not come in order.
    pieces: Option<Ranges>,
}

/// An unfinished file, open for writing.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    done: Ranges,
    pin: Pin,
    saved_at: Instant,
    /// Answers that have brought bytes; what an earlier pull left counts as one.
    n_answers: u32,
    /// Times that it was emptied, so that a sum begun before is not taken for its own.
    n_restarts: u32,
}

impl Partial {
    /// Opens what an earlier pull left for `destination`, or begins anew.
    pub(crate) fn open(destination: &Path, size_bytes: u64, sha256: Option<Sha256Sum>) -> Result<Partial, Error> {
        let path = partial_path(destination);
        let mut options = OpenOptions::new();
        // A symbolic link of that name would let bytes go somewhere else; opening one is refused.
        options.read(true).write(true).create(true).truncate(false).custom_flags(NO_LINKS);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        let length = file.metadata().map_err(Error::io("look at", &path))?.len();
        let pin = Pin { tag: None, size_bytes, sha256: sha256.map(|sum| sum.to_string()), pieces: None };
        let pinned = read_record::<Pin>(&pin_path(&path));
        let (done, saved_at) = (Ranges::default(), Instant::now());
        let mut partial = Partial { path, file, done, pin, saved_at, n_answers: 0, n_restarts: 0 };
        match pinned {
            Some(pin) if partial.continues(&pin, length) => {
                partial.done = pin.pieces.clone().unwrap_or_else(|| Ranges::up_to(length));
                partial.pin = pin;
                partial.n_answers = u32::from(partial.n_bytes() > 0);
            }
            _ => partial.restart()?,
        }
        Ok(partial)
    }

    /// Bytes that are there.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.done.n_bytes()
    }

    /// Bytes that are there without a gap from the start.
    pub(crate) fn prefix(&self) -> u64 {
        self.done.prefix()
    }

    /// Bytes of the whole.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.pin.size_bytes
    }

    /// Bytes that are not there.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.size_bytes() - self.n_bytes()
    }

    /// The first stretch that is neither there nor claimed.
    pub(crate) fn first_gap(&self, claims: &[Range<u64>]) -> Option<Range<u64>> {
        self.done.first_gap(claims, self.size_bytes())
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle of the file, for reading what was written.
    pub(crate) fn reader(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(Error::io("open", &self.path))
    }

    /// How often it was emptied.
    pub(crate) fn n_restarts(&self) -> u32 {
        self.n_restarts
    }

    /// Whether its bytes came with more than one answer, so that a wrong sum may be the seam's fault.
    pub(crate) fn is_patchwork(&self) -> bool {
        self.n_answers > 1 || self.pin.pieces.is_some()
    }

    /// Whether a version that the server calls `tag` is the one whose bytes are here. Without a name, only a published
    /// sum can tell in the end.
    pub(crate) fn is_part_of(&self, tag: Option<&str>) -> bool {
        match (&self.pin.tag, tag) {
            _ if self.n_answers == 0 => true,
            (Some(pinned), Some(tag)) => pinned == tag,
            _ => self.pin.sha256.is_some(),
        }
    }

    /// Whether pieces that come apart can be told to be of one version.
    pub(crate) fn is_identified(&self) -> bool {
        self.pin.tag.is_some() || self.pin.sha256.is_some()
    }

    /// Throws away what is there.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.file.set_len(0).map_err(Error::io("empty", &self.path))?;
        self.done = Ranges::default();
        self.pin.pieces = None;
        self.n_answers = 0;
        self.n_restarts += 1;
        Ok(())
    }

    /// Notes which version the bytes to come belong to. Called before the first of each answer is written.
    pub(crate) fn begin_answer(&mut self, tag: Option<String>) -> Result<(), Error> {
        self.n_answers = if self.n_bytes() == 0 { 1 } else { self.n_answers + 1 };
        // A later answer that does not say its version takes nothing from what is known.
        if self.n_bytes() == 0 || tag.is_some() {
            self.pin.tag = tag;
        }
        self.save()
    }

    /// From here on bytes may come out of order.
    pub(crate) fn begin_pieces(&mut self) -> Result<(), Error> {
        self.pin.pieces = Some(self.done.clone());
        self.save()
    }

    /// Writes at `offset`; what is counted as there is exactly what the system took.
    pub(crate) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.file.write_at(bytes, offset) {
                Ok(0) => return Err(self.refused(ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.done.insert(offset..offset + n as u64);
                    offset += n as u64;
                    bytes = &bytes[n..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused(error)),
            }
        }
        Ok(())
    }

    /// Writes the list of pieces if it is due, or at the end. That it could not be written costs bytes at the next pull
    /// and is no reason to stop this one.
    pub(crate) fn save_pieces(&mut self, is_last: bool) {
        if self.pin.pieces.is_some() && (is_last || self.saved_at.elapsed() >= SAVE_EVERY) {
            self.pin.pieces = Some(self.done.clone());
            let _ = self.save();
        }
    }

    /// Makes the bytes last. `Err` tells a full disk from other trouble.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(|error| self.refused(error))
    }

    /// Removes it from the disk.
    pub(crate) fn discard(self) -> Result<(), Error> {
        let path = self.path.clone();
        drop(self);
        remove_file(&path)?;
        remove_file(&pin_path(&path))
    }

    fn save(&mut self) -> Result<(), Error> {
        self.saved_at = Instant::now();
        write_record(&pin_path(&self.path), &self.pin).map_err(|error| self.refused(error))
    }

    fn continues(&self, pin: &Pin, length: u64) -> bool {
        let same = pin.size_bytes == self.pin.size_bytes && pin.sha256 == self.pin.sha256;
        let fits = length <= pin.size_bytes && pin.pieces.as_ref().is_none_or(|pieces| pieces.end() <= length);
        same && fits && (pin.tag.is_some() || pin.sha256.is_some())
    }

    fn refused(&self, error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Error::DiskFull { partial: self.path.clone(), done: self.n_bytes(), total: self.pin.size_bytes }
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

/// Bytes of the disk that an unfinished download of `destination` takes already.
pub(crate) fn bytes_left(destination: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(partial_path(destination));
    metadata.map_or(0, |found| found.len().min(found.blocks().saturating_mul(512)))
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

    use super::{Error, Partial, Sha256Sum, partial_path, pin_path};

    /// The sum of `abc` in FIPS 180-2, B.1.
    const ABC: Sha256Sum = Sha256Sum::from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

    fn open(destination: &Path, sha256: Option<Sha256Sum>) -> Result<Partial, Error> {
        Partial::open(destination, 3, sha256)
    }

    #[test]
    fn a_part_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("file");
        let mut partial = open(&destination, Some(ABC)).unwrap();
        partial.begin_answer(Some("v1".into())).unwrap();
        partial.write(0, b"ab").unwrap();
        drop(partial);

        let mut partial = open(&destination, Some(ABC)).unwrap();
        assert_eq!((partial.n_bytes(), partial.is_patchwork()), (2, false));
        assert!(partial.is_part_of(Some("v1")) && !partial.is_part_of(Some("v2")));
        partial.begin_answer(None).unwrap();
        assert!(partial.is_patchwork());
        partial.write(2, b"c").unwrap();
        assert_eq!((partial.prefix(), partial.missing_bytes()), (3, 0));
        partial.discard().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn pieces_are_continued_where_the_record_says() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("file");
        let mut partial = open(&destination, Some(ABC)).unwrap();
        partial.begin_answer(None).unwrap();
        partial.begin_pieces().unwrap();
        partial.write(2, b"c").unwrap();
        partial.save_pieces(true);
        // Not in the record: a process that was killed.
        partial.write(0, b"a").unwrap();
        drop(partial);
        let partial = open(&destination, Some(ABC)).unwrap();
        assert_eq!((partial.n_bytes(), partial.prefix(), partial.first_gap(&[])), (1, 0, Some(0..2)));
        drop(partial);
        OpenOptions::new().write(true).open(partial_path(&destination)).unwrap().set_len(2).unwrap();
        assert_eq!(open(&destination, Some(ABC)).unwrap().n_bytes(), 0, "the file lacks what the record lists");
    }

    #[test]
    fn a_part_of_something_else_is_thrown_away() {
        let other = Sha256Sum::from_hex("00000000000000000000000000000000000000000000000000000000000000ff");
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("file");
        let leave = |tag: Option<&str>, sha256| {
            let mut partial = open(&destination, sha256).unwrap();
            partial.begin_answer(tag.map(str::to_owned)).unwrap();
            partial.write(0, b"ab").unwrap();
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
        partial.write(0, b"a").unwrap();
        partial.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let refused = partial.write(1, b"bc");
        assert!(matches!(refused, Err(Error::DiskFull { done: 1, total: 3, .. })), "{refused:?}");
    }
}
