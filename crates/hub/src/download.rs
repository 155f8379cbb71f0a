//! A file from the hub, in as many requests as it takes, over as many connections as help.
//!
//! This thread counts, sums and tells the caller while the connections of `transfer` write. An answer for another
//! version than the one begun makes the download start over, and so does a sum that is wrong after several answers were
//! joined; from then on over one connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::folders::check_space;
use crate::http::Client;
use crate::partial::Partial;
use crate::summing::Summer;
use crate::transfer::{Fault, Message, Transfer};
use crate::wanted::{Wanted, WantedFile};
use crate::watch::{Event, Phase, TICK, Watch};
use crate::{Error, Folders, Settings, Sha256Sum};

/// Times that a download may start over.
const RESTARTS_MAX: u32 = 3;
/// Bytes that are summed between two looks at what has happened.
const SUM_BYTES: u64 = 8 << 20;

/// Brings a file from the hub, gives it its final name, and returns its sum.
pub(crate) fn from_hub(
    settings: &Settings,
    folders: &Folders,
    wanted: &Wanted,
    file: &WantedFile,
    watch: &mut Watch<'_>,
) -> Result<Sha256Sum, Error> {
    let destination = folders.model(&wanted.id).join(file.name());
    let url = Client::new(settings)?.address(&wanted.repository, &wanted.revision, &file.path);
    let mut partial = Partial::open(&destination, file.size_bytes, file.sha256)?;
    let mut summer = Summer::new(&partial)?;
    summer.finish((partial.prefix(), partial.n_restarts()), watch)?;
    let mut download = Download { settings, url: &url, repository: &wanted.repository, n_starts: 0, is_single: false };
    let got = loop {
        partial = download.complete(partial, &mut summer, watch)?;
        summer.finish((partial.size_bytes(), partial.n_restarts()), watch)?;
        let got = summer.sum();
        match file.sha256 {
            Some(expected) if got != expected && !partial.is_patchwork() => {
                partial.discard()?;
                return Err(Error::WrongHash { source_name: url, expected, got });
            }
            Some(expected) if got != expected => {
                download.start_over(&mut partial, "its parts do not fit together")?;
            }
            _ => break got,
        }
    };
    partial.sync()?;
    folders.install(partial.path(), &destination)?;
    partial.discard()?;
    Ok(got)
}

struct Download<'a> {
    settings: &'a Settings,
    url: &'a str,
    repository: &'a str,
    n_starts: u32,
    /// It was begun anew: one connection cannot mix versions.
    is_single: bool,
}

/// How an attempt ended.
enum End {
    Whole,
    StartOver(&'static str),
}

impl Download<'_> {
    /// Goes on until every byte is there.
    fn complete(&mut self, mut partial: Partial, summer: &mut Summer, watch: &mut Watch<'_>) -> Result<Partial, Error> {
        loop {
            if partial.missing_bytes() == 0 {
                return Ok(partial);
            }
            let (left, end) = self.attempt(partial, summer, watch);
            partial = left;
            partial.save_pieces(true);
            // What the interrupted requests report is not what happened.
            watch.check()?;
            if let End::StartOver(why) = end? {
                self.start_over(&mut partial, why)?;
            }
        }
    }

    /// Runs connections until one fails for good or all is there.
    fn attempt(&self, partial: Partial, summer: &mut Summer, watch: &mut Watch<'_>) -> (Partial, Result<End, Error>) {
        let limits = &self.settings.limits;
        let folder = partial.path().parent().unwrap_or(partial.path()).to_path_buf();
        let client = match check_space(&folder, partial.missing_bytes()).and_then(|()| Client::new(self.settings)) {
            Ok(client) => client,
            Err(error) => return (partial, Err(error)),
        };
        let is_large = partial.missing_bytes() >= limits.piece_bytes.saturating_mul(2);
        let n_connections = if is_large && !self.is_single { limits.connections.max(1) as usize } else { 1 };
        let transfer = Transfer {
            client: &client,
            limits,
            url: self.url,
            partial: Mutex::new(partial),
            claims: Mutex::new(vec![None; n_connections]),
            piece_bytes: if n_connections > 1 { limits.piece_bytes } else { u64::MAX },
            serves_pieces: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        };
        let end = thread::scope(|scope| {
            let (tell, hear) = mpsc::channel();
            let connect = |connection: usize| {
                let (tell, transfer) = (tell.clone(), &transfer);
                scope.spawn(move || transfer.work(connection, &tell));
            };
            connect(0);
            let end = follow(&transfer, &hear, summer, watch, &|| (1..n_connections).for_each(connect));
            stop(&transfer);
            end
        });
        (transfer.partial.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), end)
    }

    fn start_over(&mut self, partial: &mut Partial, why: &str) -> Result<(), Error> {
        (self.n_starts, self.is_single) = (self.n_starts + 1, true);
        if self.n_starts > RESTARTS_MAX {
            let host = self.repository.to_owned();
            return Err(Error::BadAnswer { host, what: format!("the file cannot be put together: {why}") });
        }
        partial.restart()
    }
}

/// Listens to the connections, sums what they bring, and tells the caller, until all have ended. `let_join` starts the
/// others beside the first.
fn follow(
    transfer: &Transfer<'_>,
    hear: &Receiver<Message>,
    summer: &mut Summer,
    watch: &mut Watch<'_>,
    let_join: &dyn Fn(),
) -> Result<End, Error> {
    let mut n_running = 1;
    let done = transfer.partial().n_bytes();
    let total = transfer.partial().size_bytes();
    watch.event(Event::Progress { phase: Phase::Downloading, done, total });
    let mut shown = Some(done);
    // Of the first connection that failed for good while others went on.
    let mut failure = None;
    let mut is_behind = false;
    while n_running > 0 {
        let message = hear.recv_timeout(if is_behind { Duration::ZERO } else { TICK });
        let (done, total, at) = {
            let mut partial = transfer.partial();
            partial.save_pieces(false);
            (partial.n_bytes(), partial.size_bytes(), (partial.prefix(), partial.n_restarts()))
        };
        if shown != Some(done) {
            shown = Some(done);
            watch.event(Event::Progress { phase: Phase::Downloading, done, total });
        }
        match message {
            Ok(Message::Retrying { reason, delay }) => watch.event(Event::Retrying { reason: &reason, delay }),
            Ok(Message::ServesPieces) => {
                n_running = transfer.claims.lock().map_or(1, |claims| claims.len());
                let_join();
            }
            Ok(Message::Ended(ended)) => {
                n_running -= 1;
                match ended {
                    Ok(()) | Err(Fault::Stopped) => {}
                    Err(Fault::StartOver(why)) => return Ok(End::StartOver(why)),
                    Err(Fault::Failed(reason)) if reason.is_passing() && n_running > 0 => {
                        failure.get_or_insert(reason);
                    }
                    Err(Fault::Failed(reason)) => return Err(reason),
                }
            }
            Err(RecvTimeoutError::Timeout) => is_behind = summer.advance(at, SUM_BYTES)?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        watch.check()?;
    }
    match failure {
        Some(reason) if transfer.partial().missing_bytes() > 0 => Err(reason),
        _ => Ok(End::Whole),
    }
}

/// Ends what still runs. Reads block in the kernel; nobody must wait for the server's next byte.
fn stop(transfer: &Transfer<'_>) {
    transfer.is_stopped.store(true, Ordering::Relaxed);
    transfer.client.interrupter().shutdown();
}
