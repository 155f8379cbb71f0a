//! Why a test that goes through this crate does not hold.

use std::io;
use std::path::PathBuf;

use zinc_graph::backend::BackendError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A fixture cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A fixture is not what it should be.
    #[error("{}: {what}", path.display())]
    Fixture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The model file cannot be read.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// The model cannot be made of the file.
    #[error(transparent)]
    Model(#[from] zinc_models::Error),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A value of that name is not in the graph.
    #[error("the graph has no value {name:?}")]
    NoValue {
        /// The name.
        name: String,
    },
    /// The backend's numbers are not the expected ones.
    #[error("{what}: {difference}")]
    Differs {
        /// Model, prompt, chunking, position.
        what: String,
        /// Expected and got.
        difference: String,
    },
}
