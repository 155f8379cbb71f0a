//! The driver's compiled pipelines, kept in a file from one start to the next.
//!
//! One file for each driver build and device, in a folder that the caller names. It is written
//! whole under another name and then renamed, and ends in the SHA-256 of what comes before: drivers
//! trust what they wrote, so a file that was cut or altered must not reach them. Whatever is wrong
//! with a file, it counts as empty and is replaced; nothing here ends a run.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::candidate::Candidate;

/// Bytes of the largest cache that is kept; ours has been a few megabytes.
const BYTES_MAX: u64 = 256 << 20;
/// Bytes of the header that Vulkan puts at the front.
const HEADER_BYTES: usize = 32;
/// Bytes of the sum at the end.
const SUM_BYTES: usize = 32;

/// A file of compiled pipelines and what is known to be in it.
#[derive(Clone, Debug)]
pub struct PipelineFile {
    path: PathBuf,
    known: Vec<u8>,
}

impl PipelineFile {
    /// The file of a device in `folder`, read if it is there and whole.
    #[must_use]
    pub fn open(folder: &Path, candidate: &Candidate) -> PipelineFile {
        let Candidate { vendor_id, device_id, pipeline_uuid, .. } = candidate;
        PipelineFile::of(folder, *vendor_id, *device_id, pipeline_uuid)
    }

    fn of(folder: &Path, vendor_id: u32, device_id: u32, uuid: &str) -> PipelineFile {
        let path = folder.join(format!("vulkan-{vendor_id:04x}-{device_id:04x}-{uuid}.pipelines"));
        let known = read(&path).filter(|bytes| is_of(bytes, vendor_id, device_id, uuid));
        PipelineFile { path, known: known.unwrap_or_default() }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the driver wrote in an earlier run; empty if there is nothing that can be used.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.known
    }

    /// Keeps what the driver has now; returns whether anything was written.
    ///
    /// # Errors
    /// The system refuses. The file is then as it was.
    pub fn save(&mut self, bytes: Vec<u8>) -> io::Result<bool> {
        if bytes == self.known || bytes.len() as u64 > BYTES_MAX - SUM_BYTES as u64 {
            return Ok(false);
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Two programs may write at once: each has its own file until the renaming.
        let temporary = self.path.with_extension(format!("{}.part", std::process::id()));
        let written = write(&temporary, &bytes).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.known = bytes;
        Ok(true)
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.write_all(&Sha256::digest(bytes))?;
    file.sync_all()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let end = bytes.len().checked_sub(SUM_BYTES)?;
    let is_whole = bytes.len() as u64 <= BYTES_MAX && Sha256::digest(&bytes[..end])[..] == bytes[end..];
    bytes.truncate(end);
    is_whole.then_some(bytes)
}

/// Whether Vulkan's header says that the data belongs to this driver and device.
fn is_of(bytes: &[u8], vendor_id: u32, device_id: u32, uuid: &str) -> bool {
    let word = |i: usize| bytes.get(4 * i..4 * i + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let header_bytes = word(0).and_then(|n| usize::try_from(n).ok());
    let found: Option<String> =
        bytes.get(16..HEADER_BYTES).map(|uuid| uuid.iter().map(|byte| format!("{byte:02x}")).collect());
    header_bytes == Some(HEADER_BYTES)
        && word(1) == Some(1)
        && word(2) == Some(vendor_id)
        && word(3) == Some(device_id)
        && found.as_deref() == Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "00112233445566778899aabbccddeeff";

    /// What a driver of vendor 0x1002, device 0x7550 would give.
    fn of_driver(payload: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [32u32, 1, 0x1002, 0x7550].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend((0..16u8).map(|i| i * 0x11));
        bytes.extend(payload);
        bytes
    }

    fn open(folder: &Path) -> PipelineFile {
        PipelineFile::of(folder, 0x1002, 0x7550, UUID)
    }

    #[test]
    fn what_was_kept_comes_back_and_is_written_only_when_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let nested = folder.path().join("not/there/yet");
        let mut file = open(&nested);
        assert!(file.bytes().is_empty());
        assert!(file.save(of_driver(b"one")).unwrap());
        assert!(!file.save(of_driver(b"one")).unwrap(), "nothing changed");
        let mut again = open(&nested);
        assert_eq!(again.bytes(), of_driver(b"one"));
        assert!(!again.save(of_driver(b"one")).unwrap());
        assert!(again.save(of_driver(b"one and two")).unwrap());
        assert_eq!(open(&nested).bytes(), of_driver(b"one and two"));
        assert_eq!(fs::read_dir(&nested).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_broken_or_foreign_file_counts_as_empty_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let good = of_driver(b"pipelines");
        let sealed = |bytes: &[u8]| [bytes, &Sha256::digest(bytes)[..]].concat();
        let with = |index: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[index] = value;
            sealed(&bytes)
        };
        let mut flipped = sealed(&good);
        flipped[40] ^= 1;
        let cut = sealed(&good)[..60].to_vec();
        let foreign = [with(0, 16), with(4, 2), with(8, 0), with(12, 0), with(20, 0), sealed(&good[..20])];
        for bytes in [Vec::new(), vec![0; 31], flipped, cut, good.clone()].into_iter().chain(foreign) {
            fs::write(open(folder.path()).path(), &bytes).unwrap();
            let mut file = open(folder.path());
            assert!(file.bytes().is_empty(), "{bytes:x?}");
            assert!(file.save(good.clone()).unwrap());
            assert_eq!(open(folder.path()).bytes(), good);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"x").unwrap();
        let mut file = open(&folder.path().join("file/below"));
        assert!(file.bytes().is_empty());
        assert!(file.save(of_driver(b"x")).is_err());
    }
}
