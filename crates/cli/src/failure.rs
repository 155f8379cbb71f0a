//! How the program fails: one sentence, its remedy, and an exit code a script can test.

use std::fmt;

/// A failure that ends the program.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What kind, which is the exit code.
    pub(crate) kind: Kind,
    /// One sentence that names what was wrong.
    pub(crate) message: String,
    /// What to do about it, if we know.
    pub(crate) remedy: Option<String>,
}

/// Kinds of failure, by exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something failed while running.
    Failed = 1,
    /// The command line asks for something that cannot be.
    Usage = 2,
    /// There is no such model or file.
    ModelNotFound = 3,
    /// The model file is broken or not supported.
    ModelUnusable = 4,
    /// The model could not be fetched.
    Download = 5,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
}

impl Failure {
    /// A failure without a remedy.
    pub(crate) fn new(kind: Kind, message: impl fmt::Display) -> Failure {
        Failure { kind, message: message.to_string(), remedy: None }
    }

    /// Adds what to do.
    pub(crate) fn remedy(mut self, remedy: impl fmt::Display) -> Failure {
        self.remedy = Some(remedy.to_string());
        self
    }

    /// For `map_err`: any error while running.
    pub(crate) fn failed(error: impl fmt::Display) -> Failure {
        Failure::new(Kind::Failed, error)
    }

    /// For `map_err`: anything wrong with the model file.
    pub(crate) fn model(error: impl fmt::Display) -> Failure {
        Failure::new(Kind::ModelUnusable, error)
    }

    /// For `map_err`: a flag with a value that cannot be.
    pub(crate) fn usage(error: impl fmt::Display) -> Failure {
        Failure::new(Kind::Usage, error)
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<(), Failure>;
