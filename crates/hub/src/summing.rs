//! SHA-256 sums of files: of one that is being written, beside those who write it, and of one that lies there.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::partial::{CHUNK_BYTES, Partial};
use crate::watch::{Event, Phase, Watch};
use crate::{Error, Sha256Sum};

/// Takes the sum of a file from its start, as far as its bytes are there.
pub(crate) struct Summer {
    file: File,
    path: PathBuf,
    hasher: Sha256,
    n_bytes: u64,
    /// The partial's count of restarts when the sum was begun.
    n_restarts: u32,
    chunk: Vec<u8>,
}

impl Summer {
    /// Begins with what an unfinished file has.
    pub(crate) fn new(partial: &Partial) -> Result<Summer, Error> {
        let (file, path) = (partial.reader()?, partial.path().to_path_buf());
        let n_restarts = partial.n_restarts();
        Ok(Summer { file, path, hasher: Sha256::new(), n_bytes: 0, n_restarts, chunk: vec![0; CHUNK_BYTES] })
    }

    /// Begins with a file that lies there.
    fn of_file(file: File, path: &Path) -> Summer {
        let chunk = vec![0; CHUNK_BYTES];
        Summer { file, path: path.to_path_buf(), hasher: Sha256::new(), n_bytes: 0, n_restarts: 0, chunk }
    }

    /// Goes on by at most `budget` bytes of the first `prefix`; whether more of them are left. A file that was emptied
    /// meanwhile is begun anew: what was read of it then may be anything.
    pub(crate) fn advance(&mut self, (prefix, n_restarts): (u64, u32), budget: u64) -> Result<bool, Error> {
        if n_restarts != self.n_restarts {
            (self.hasher, self.n_bytes, self.n_restarts) = (Sha256::new(), 0, n_restarts);
        }
        let goal = prefix.min(self.n_bytes.saturating_add(budget));
        while self.n_bytes < goal {
            let most = usize::try_from(goal - self.n_bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            match self.file.read_at(&mut self.chunk[..most], self.n_bytes) {
                // Emptied just now; the next call sees that it was.
                Ok(0) => return Ok(true),
                Ok(n) => {
                    self.hasher.update(&self.chunk[..n]);
                    self.n_bytes += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path)(error)),
            }
        }
        Ok(self.n_bytes < prefix)
    }

    /// Goes through all of the first `prefix` bytes, telling how far it is.
    pub(crate) fn finish(&mut self, at: (u64, u32), watch: &mut Watch<'_>) -> Result<(), Error> {
        while self.advance(at, 64 * CHUNK_BYTES as u64)? {
            watch.check()?;
            watch.event(Event::Progress { phase: Phase::Checking, done: self.n_bytes, total: at.0 });
        }
        Ok(())
    }

    /// The sum of what it has gone through.
    pub(crate) fn sum(&self) -> Sha256Sum {
        Sha256Sum::of(&self.hasher)
    }
}

/// The sum of the file at `path`, which has `n_bytes`. One that turns out shorter gives the sum of what it has.
pub(crate) fn sum_of(path: &Path, n_bytes: u64, watch: &mut Watch<'_>) -> Result<Sha256Sum, Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut summer = Summer::of_file(file, path);
    loop {
        watch.check()?;
        let before = summer.n_bytes;
        let is_more = summer.advance((n_bytes, 0), 64 * CHUNK_BYTES as u64)?;
        watch.event(Event::Progress { phase: Phase::Checking, done: summer.n_bytes, total: n_bytes });
        if !is_more || summer.n_bytes == before {
            return Ok(summer.sum());
        }
    }
}
