//! The connections that bring one file: each takes the first stretch that nobody has, asks for it, and writes it.
//!
//! The first goes alone. Once its answer shows that the server serves pieces and names the version, others follow;
//! where it does not, the first one's answer brings all. A failure that may pass is followed by a wait and a further
//! request; a connection that has failed too often in a row leaves the rest to the others.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{Answer, Client, Part};
use crate::partial::{CHUNK_BYTES, Partial};
use crate::watch::TICK;
use crate::{Error, Limits};

/// Bytes that make up for the failures before them.
const GAIN_BYTES: u64 = 16 << 20;

/// What all connections of one attempt share.
pub(crate) struct Transfer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) limits: &'a Limits,
    pub(crate) url: &'a str,
    pub(crate) partial: Mutex<Partial>,
    /// What each connection is about to bring.
    pub(crate) claims: Mutex<Vec<Option<Range<u64>>>>,
    /// Bytes that one request asks for at most.
    pub(crate) piece_bytes: u64,
    /// The first answer was a piece of a version that has a name.
    pub(crate) serves_pieces: AtomicBool,
    /// All are to end.
    pub(crate) is_stopped: AtomicBool,
}

/// What a connection tells.
pub(crate) enum Message {
    /// A request failed for a reason that may pass; another follows after `delay`.
    Retrying { reason: Error, delay: Duration },
    /// Others may join.
    ServesPieces,
    /// It ended: there is nothing left for it to take, or it cannot go on.
    Ended(Result<(), Fault>),
}

/// Why a connection cannot go on.
pub(crate) enum Fault {
    /// A failure.
    Failed(Error),
    /// What came so far is of no use.
    StartOver(&'static str),
    /// It was stopped.
    Stopped,
}

impl Transfer<'_> {
    /// The unfinished file.
    pub(crate) fn partial(&self) -> MutexGuard<'_, Partial> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings stretches until none is left to take.
    pub(crate) fn work(&self, connection: usize, tell: &Sender<Message>) {
        let ended = self.bring(connection, tell);
        self.claims()[connection] = None;
        // Nobody listens any more if the pull has ended.
        let _ = tell.send(Message::Ended(ended));
    }

    fn bring(&self, connection: usize, tell: &Sender<Message>) -> Result<(), Fault> {
        let mut failures = 0;
        while let Some(piece) = self.claim(connection) {
            let start = piece.start;
            let reason = match self.request(connection, piece, tell) {
                Ok(()) => continue,
                Err(_) if self.is_stopped.load(Ordering::Relaxed) => return Err(Fault::Stopped),
                Err(Fault::Failed(reason)) => reason,
                Err(fault) => return Err(fault),
            };
            let reached = self.claims()[connection].as_ref().map_or(start, |left| left.start);
            if reached.saturating_sub(start) >= GAIN_BYTES {
                failures = 0;
            }
            failures += 1;
            match self.delay(failures, &reason) {
                Some(delay) if reason.is_passing() && failures < self.limits.attempts_max => {
                    let _ = tell.send(Message::Retrying { reason, delay });
                    self.wait(delay)?;
                }
                _ => return Err(Fault::Failed(reason)),
            }
        }
        Ok(())
    }

    /// Takes the first stretch that is neither there nor taken.
    fn claim(&self, connection: usize) -> Option<Range<u64>> {
        let partial = self.partial();
        let mut claims = self.claims();
        claims[connection] = None;
        let others: Vec<Range<u64>> = claims.iter().flatten().cloned().collect();
        let gap = partial.first_gap(&others)?;
        let piece = gap.start..gap.end.min(gap.start.saturating_add(self.piece_bytes));
        claims[connection] = Some(piece.clone());
        Some(piece)
    }

    /// One request. `Ok` means that it was worth making, not that the stretch is whole.
    fn request(&self, connection: usize, mut piece: Range<u64>, tell: &Sender<Message>) -> Result<(), Fault> {
        let size = self.partial().size_bytes();
        let answer = self.client.get_piece(self.url, &piece, size).map_err(Fault::Failed)?;
        let announced = match answer.part {
            Part::Whole { n_bytes } => n_bytes,
            Part::Piece { total, .. } => total,
            Part::PastEnd => None,
        };
        if let Some(got) = announced.filter(|got| *got != size) {
            let source_name = self.url.to_owned();
            return Err(Fault::Failed(Error::WrongLength { source_name, expected: size, got }));
        }
        let is_alone = !self.serves_pieces.load(Ordering::Relaxed);
        match answer.part {
            Part::Whole { .. } if is_alone => {
                self.partial().restart().map_err(Fault::Failed)?;
                piece = 0..size;
                self.claims()[connection] = Some(piece.clone());
            }
            Part::Whole { .. } => return Err(Fault::StartOver("the server serves pieces only at times")),
            Part::Piece { start, end, .. } if (start, end) != (piece.start, piece.end) => {
                let what = format!("asked for bytes {} to {}, it sent {start} to {end}", piece.start, piece.end);
                return Err(Fault::Failed(Error::BadAnswer { host: answer.host, what }));
            }
            Part::Piece { .. } if self.partial().is_part_of(answer.tag.as_deref()) => {}
            Part::Piece { .. } => return Err(Fault::StartOver("it changes while it is fetched")),
            Part::PastEnd if piece.start == 0 => {
                let what = "no such part, though none was asked for".into();
                return Err(Fault::Failed(Error::BadAnswer { host: answer.host, what }));
            }
            Part::PastEnd => return Err(Fault::StartOver("it is shorter than what came of it before")),
        }
        self.receive(answer, connection, piece, tell)
    }

    /// Writes the body of an answer, up to the end of the stretch.
    fn receive(
        &self,
        mut answer: Answer,
        connection: usize,
        piece: Range<u64>,
        tell: &Sender<Message>,
    ) -> Result<(), Fault> {
        let is_whole = matches!(answer.part, Part::Whole { .. });
        self.partial().begin_answer(answer.tag.take()).map_err(Fault::Failed)?;
        if !is_whole && self.piece_bytes < u64::MAX && !self.serves_pieces.load(Ordering::Relaxed) {
            self.let_others_join(tell)?;
        }
        let (mut at, mut chunk) = (piece.start, vec![0; CHUNK_BYTES]);
        loop {
            if self.is_stopped.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            let missing = piece.end - at;
            if missing == 0 && !is_whole {
                return Ok(());
            }
            let n = match answer.read(&mut chunk) {
                // Nothing more was due, so that trouble after the last byte is no trouble.
                Ok(0) | Err(_) if missing == 0 => return Ok(()),
                read => read.map_err(Fault::Failed)?,
            };
            match n as u64 {
                0 => {
                    let reason = format!("{missing} bytes are missing");
                    return Err(Fault::Failed(Error::Cut { host: answer.host, reason }));
                }
                n if n > missing && is_whole => {
                    self.partial().restart().map_err(Fault::Failed)?;
                    let (source_name, got) = (self.url.to_owned(), piece.end + (n - missing));
                    return Err(Fault::Failed(Error::WrongLength { source_name, expected: piece.end, got }));
                }
                n => {
                    let taken = usize::try_from(n.min(missing)).unwrap_or(chunk.len());
                    self.partial().write(at, &chunk[..taken]).map_err(Fault::Failed)?;
                    at += taken as u64;
                    self.claims()[connection] = Some(at..piece.end);
                }
            }
        }
    }

    fn let_others_join(&self, tell: &Sender<Message>) -> Result<(), Fault> {
        let mut partial = self.partial();
        if !partial.is_identified() {
            return Err(Fault::StartOver("nothing tells pieces of two versions apart"));
        }
        partial.begin_pieces().map_err(Fault::Failed)?;
        self.serves_pieces.store(true, Ordering::Relaxed);
        let _ = tell.send(Message::ServesPieces);
        Ok(())
    }

    fn claims(&self) -> MutexGuard<'_, Vec<Option<Range<u64>>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Waits, but not past a stop.
    fn wait(&self, delay: Duration) -> Result<(), Fault> {
        let end = Instant::now() + delay;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.is_stopped.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            thread::sleep(left.min(TICK));
        }
        Ok(())
    }
}
