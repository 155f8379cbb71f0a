//! Why a file is not a model that this crate can run.
//!
//! Names that come from a file are printed escaped. Faults inside the file format itself are `zinc_gguf`'s.

use zinc_gguf::DType;
use zinc_graph::graph::GraphError;

use crate::rules::Broken;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or a key is missing or of the wrong type.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// The file's architecture is not one of [`crate::ARCHITECTURES`].
    #[error("general.architecture is {got:?}, which is not supported; supported are {known}")]
    UnknownArchitecture {
        /// The value found.
        got: String,
        /// The names of those that are, separated by commas.
        known: String,
    },
    /// A hyperparameter is out of bounds or does not go with the others.
    #[error("metadata key {key:?}: {broken}")]
    Hparam {
        /// The key as it stands in the file.
        key: String,
        /// The value and the rule that it breaks.
        broken: Broken,
    },
    /// A hyperparameter names a variant that is not supported.
    #[error("metadata key {key:?} is {got:?}, which is not supported; supported are {known}")]
    Unsupported {
        /// The key.
        key: String,
        /// The value found.
        got: String,
        /// The values that are.
        known: &'static str,
    },
    /// The declared sections do not make a graph.
    #[error("{architecture}: {error}")]
    Graph {
        /// The architecture.
        architecture: &'static str,
        /// The rule that is broken.
        error: GraphError,
    },
    /// A tensor that the forward pass reads is not in the file.
    #[error("tensor {tensor:?} is missing, expected one of shape {expected:?}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// Its shape, fastest axis first.
        expected: Vec<u64>,
    },
    /// A tensor of the file has no use in this architecture.
    #[error(
        "tensor {tensor:?} has no use in the architecture {architecture:?}: the file is of a variant that is not supported"
    )]
    SurplusTensor {
        /// The tensor.
        tensor: String,
        /// The architecture.
        architecture: &'static str,
    },
    /// A tensor's shape is not the one that the hyperparameters ask for.
    #[error("tensor {tensor:?} has shape {got:?}, expected {expected:?} by the file's metadata")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// The shape asked for, fastest axis first.
        expected: Vec<u64>,
        /// The shape found.
        got: Vec<u64>,
    },
    /// A tensor is stored in a type that its use does not allow.
    #[error("tensor {tensor:?} is stored as {got}, expected F32")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The type found.
        got: DType,
    },
}
