//! Disks that fill up, and folders that cannot be written. Needs the right to mount; says so and passes without it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::cache::{Cache, content};
use crate::python::processes;
use crate::server::{Reply, Server};
use zinc_hub::Error;

const SIZE: usize = 600_011;

/// A disk of one mebibyte in memory, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Disk> {
        let disk = Disk(tempfile::tempdir().unwrap());
        match run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"], disk.path()) {
            true => Some(disk),
            false => {
                eprintln!("skipped: mounting a disk is not permitted here");
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
        run("umount", &["-l"], self.path());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_disk_that_fills_up_during_a_download_keeps_the_part() {
    let _alone = processes();
    let Some(disk) = Disk::mount() else { return };
    let bytes = content(1, SIZE);
    let served = bytes.clone();
    let ballast = disk.path().join("ballast");
    let heavy = ballast.clone();
    let (filled, full) = mpsc::channel();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
        let (heavy, filled) = (heavy.clone(), filled.clone());
        match index {
            // There was room when the download began.
            0 => reply.call_at(SIZE / 2, move || {
                fill(&heavy);
                filled.send(()).unwrap();
            }),
            _ => reply,
        }
    });
    let cache = Cache::at(tempfile::tempdir_in(disk.path()).unwrap(), &server, &bytes);
    let Err(refused @ Error::DiskFull { done, .. }) = cache.pull() else { panic!("there was room") };
    full.recv().unwrap();
    assert!(done < SIZE as u64 && cache.partial_bytes() == Some(done));
    assert!(refused.to_string().starts_with("the disk is full: "), "{refused}");
    // Nothing more is tried while it is full.
    let refused = cache.pull();
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    assert_eq!(server.requests().len(), 1);

    fs::remove_file(&ballast).unwrap();
    cache.pull().unwrap();
    assert_eq!(server.requests()[1].offset() as u64, done);
}

/// Takes what is left.
fn fill(path: &Path) {
    fs::write(path, vec![0; 2 << 20]).expect_err("the disk is small");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_and_still_serves() {
    let _alone = processes();
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
