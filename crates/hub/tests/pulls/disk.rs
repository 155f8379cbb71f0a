//! Disks that fill up, and folders that cannot be written. Needs the right to mount; says so and passes without it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cache::{Cache, content};
use crate::python::fake_python;
use crate::server::{Reply, Server};
use zinc_hub::Error;

const SIZE: usize = 600_011;

/// A disk of one mebibyte in memory, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Disk> {
        // Whoever starts a process sees to it that this program is written first; it says why.
        fake_python();
        let disk = Disk(tempfile::tempdir().unwrap());
        match run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"], disk.path()) {
            true => Some(disk),
            false => {
                println!("skipped: mounting a disk is not permitted here");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &[], self.path());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_disk_that_fills_up_during_a_download_keeps_the_part() {
    let Some(disk) = Disk::mount() else { return };
    let bytes = content(1, SIZE);
    let served = bytes.clone();
    let ballast = disk.path().join("ballast");
    let heavy = ballast.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
        let heavy = heavy.clone();
        match index {
            // There was room when the download began.
            0 => reply.call_at(SIZE / 2, move || fill(&heavy)),
            _ => reply,
        }
    });
    let cache = Cache::at(tempfile::tempdir_in(disk.path()).unwrap(), &server, &bytes);
    let Err(full @ Error::DiskFull { done, .. }) = cache.pull() else { panic!("there was room") };
    assert!(done < SIZE as u64 && cache.partial_bytes() == Some(done));
    assert!(full.to_string().starts_with("the disk is full: "), "{full}");
    // Nothing more is tried while it is full.
    assert!(matches!(cache.pull(), Err(Error::NoSpace { .. })));
    assert_eq!(server.requests().len(), 1);

    fs::remove_file(&ballast).unwrap();
    cache.pull().unwrap();
    assert_eq!(server.requests()[1].offset() as u64, done);
}

/// Takes what is left.
fn fill(path: &Path) {
    fs::write(path, vec![0; 1 << 20]).expect_err("the disk is small");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_and_still_serves() {
    let Some(disk) = Disk::mount() else { return };
    let bytes = content(2, SIZE);
    let server = Server::of_file(&bytes);
    let mut cache = Cache::at(tempfile::tempdir_in(disk.path()).unwrap(), &server, &bytes);
    cache.pull().unwrap();
    assert!(run("mount", &["-o", "remount,ro"], disk.path()));
    assert!(!cache.pull().unwrap().fetched);

    cache.entry.id = zinc_hub::ModelId::fixed("another");
    let Err(refused) = cache.pull() else { panic!("it was written") };
    let folder = cache.folder();
    assert!(matches!(&refused, Error::Io { action: "make the folder", path, .. } if *path == folder), "{refused:?}");
    assert_eq!(server.requests().len(), 1);
    assert!(run("mount", &["-o", "remount,rw"], disk.path()));
}
