//! A file from the hub, in as many requests as it takes.
//!
//! Every request asks for what is still missing. A failure that may pass is followed by a wait and a further request; an
//! answer for another version than the one begun makes the download start over; a sum that is wrong after several
//! answers were joined does so once. Parallel requests are not made here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::catalog::Entry;
use crate::folders::check_space;
use crate::http::{Answer, Client, Part};
use crate::partial::{CHUNK_BYTES, Partial};
use crate::watch::{Event, Phase, TICK, Watch};
use crate::{Error, Folders, Installed, Limits};

/// Bytes that make up for the failures before them.
const GAIN_BYTES: u64 = 16 << 20;
/// Times that a download may start over.
const RESTARTS_MAX: u32 = 3;

/// Brings a model's file from the hub and installs it. The client ends with this.
pub(crate) fn from_hub(
    client: Client,
    limits: &Limits,
    folders: &Folders,
    entry: &Entry,
    watch: &mut Watch<'_>,
) -> Result<Installed, Error> {
    let done = AtomicBool::new(false);
    let cancel = watch.cancel;
    thread::scope(|scope| {
        // Reads block in the kernel; whoever cancels must not wait for the server's next byte.
        let interrupter = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && !cancel.load(Ordering::Relaxed) {
                thread::park_timeout(TICK);
            }
            client.interrupter().shutdown();
        });
        let mut download = Download { client: &client, limits, folders, entry, restarts: 0 };
        let result = download.run(watch);
        done.store(true, Ordering::Relaxed);
        interrupter.thread().unpark();
        match watch.check() {
            // What the interrupted request reports is not what happened.
            Err(cancelled) if result.is_err() => Err(cancelled),
            _ => result,
        }
    })
}

struct Download<'a> {
    client: &'a Client,
    limits: &'a Limits,
    folders: &'a Folders,
    entry: &'a Entry,
    restarts: u32,
}

impl Download<'_> {
    fn run(&mut self, watch: &mut Watch<'_>) -> Result<Installed, Error> {
        let entry = self.entry;
        let destination = self.folders.file(entry);
        let hub = &entry.hub;
        let url = self.client.address(hub.repository, hub.revision, hub.file);
        let mut partial = Partial::open(&destination, entry.size_bytes, entry.sha256, watch)?;
        loop {
            self.complete(&url, &mut partial, watch)?;
            let (got, Some(expected)) = (partial.sum(), entry.sha256) else { break };
            if got == expected {
                break;
            }
            if !partial.is_patchwork() {
                partial.discard()?;
                return Err(Error::WrongHash { source_name: url, expected, got });
            }
            self.start_over(&mut partial, "its parts do not fit together")?;
        }
        partial.sync()?;
        let installed = self.folders.install(entry, partial.path(), &url)?;
        partial.discard()?;
        Ok(installed)
    }

    /// Asks until every byte is there.
    fn complete(&mut self, url: &str, partial: &mut Partial, watch: &mut Watch<'_>) -> Result<(), Error> {
        let mut failures = 0;
        while partial.n_bytes() < partial.size_bytes() {
            watch.check()?;
            let before = partial.n_bytes();
            let Err(reason) = self.transfer(url, partial, watch) else { continue };
            watch.check()?;
            if partial.n_bytes().saturating_sub(before) >= GAIN_BYTES {
                failures = 0;
            }
            failures += 1;
            let delay = self.delay(failures, &reason);
            match delay {
                Some(delay) if reason.is_passing() && failures < self.limits.attempts_max => {
                    watch.event(Event::Retrying { reason: &reason, delay });
                    watch.wait(delay)?;
                }
                _ => return Err(reason),
            }
        }
        Ok(())
    }

    /// The wait before the next request, unless the server asks for one that is too long.
    fn delay(&self, failures: u32, reason: &Error) -> Option<Duration> {
        let doubled = self.limits.retry_delay.saturating_mul(1 << (failures - 1).min(16));
        match reason {
            Error::Status { retry_after: Some(wait), .. } if *wait > Limits::DELAY_MAX => None,
            Error::Status { retry_after: Some(wait), .. } => Some(doubled.clamp(*wait, Limits::DELAY_MAX)),
            _ => Some(doubled.min(Limits::DELAY_MAX)),
        }
    }

    /// One request. `Ok` means that it was worth making, not that the file is whole.
    fn transfer(&mut self, url: &str, partial: &mut Partial, watch: &mut Watch<'_>) -> Result<(), Error> {
        check_space(&self.folders.model(&self.entry.id), partial.size_bytes() - partial.n_bytes())?;
        let answer = self.client.get(url, partial.n_bytes())?;
        let expected = partial.size_bytes();
        let announced = match answer.part {
            Part::Whole { n_bytes } => n_bytes,
            Part::Rest { total, .. } => total,
            Part::PastEnd => None,
        };
        if let Some(got) = announced.filter(|got| *got != expected) {
            return Err(Error::WrongLength { source_name: url.to_owned(), expected, got });
        }
        match answer.part {
            Part::Whole { .. } => partial.restart()?,
            Part::Rest { offset, .. } if offset != partial.n_bytes() => {
                let what = format!("asked for bytes from {}, it sent bytes from {offset}", partial.n_bytes());
                return Err(Error::BadAnswer { host: answer.host, what });
            }
            Part::Rest { .. } if partial.is_part_of(answer.tag.as_deref()) => {}
            Part::Rest { .. } => return self.start_over(partial, "it changes while it is fetched"),
            Part::PastEnd if partial.n_bytes() == 0 => {
                return Err(Error::BadAnswer {
                    host: answer.host,
                    what: "no such part, though none was asked for".into(),
                });
            }
            Part::PastEnd => return self.start_over(partial, "it is shorter than what came of it before"),
        }
        receive(answer, url, partial, watch)
    }

    fn start_over(&mut self, partial: &mut Partial, why: &str) -> Result<(), Error> {
        self.restarts += 1;
        if self.restarts > RESTARTS_MAX {
            let host = self.entry.hub.repository.to_owned();
            return Err(Error::BadAnswer { host, what: format!("the file cannot be put together: {why}") });
        }
        partial.restart()
    }
}

/// Appends the body of an answer, up to the size that the file must have.
fn receive(mut answer: Answer, url: &str, partial: &mut Partial, watch: &mut Watch<'_>) -> Result<(), Error> {
    partial.begin_answer(answer.tag.take())?;
    let total = partial.size_bytes();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        watch.event(Event::Progress { phase: Phase::Downloading, done: partial.n_bytes(), total });
        watch.check()?;
        let missing = total - partial.n_bytes();
        let n = match answer.read(&mut chunk) {
            // Nothing more was due, so that trouble after the last byte is no trouble.
            Ok(0) | Err(_) if missing == 0 => return Ok(()),
            read => read?,
        };
        match n as u64 {
            0 => return Err(Error::Cut { host: answer.host, reason: format!("{missing} bytes are missing") }),
            n if n > missing => {
                partial.restart()?;
                return Err(Error::WrongLength {
                    source_name: url.to_owned(),
                    expected: total,
                    got: total + (n - missing),
                });
            }
            _ => partial.append(&chunk[..n])?,
        }
    }
}
