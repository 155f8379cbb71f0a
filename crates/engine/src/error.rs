//! What can go wrong in an engine.

use std::sync::Arc;

use zinc_graph::backend::BackendError;

use crate::config::ConfigError;
use crate::constraint::ConstraintError;
use crate::kv::KvError;
use crate::request::{CHOICES_MAX, TOP_LOGPROBS_MAX};
use crate::sampler::{NonFinite, SamplingError};
use crate::scheduler::Refusal;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration asks for something that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device failed or refused.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A request with no prompt.
    #[error("the prompt is empty; at least one token is needed")]
    PromptEmpty,
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {n_tokens} tokens, which leaves no room in a context of {context_tokens}")]
    PromptTooLong {
        /// Tokens of the prompt.
        n_tokens: usize,
        /// Tokens of the context.
        context_tokens: u32,
    },
    /// A token id outside the vocabulary.
    #[error("token {index} of the prompt is {id}, the vocabulary has {n_vocab}")]
    TokenOutOfRange {
        /// Its place in the prompt.
        index: usize,
        /// The id.
        id: u32,
        /// Entries of the vocabulary.
        n_vocab: u32,
    },
    /// A request for no tokens.
    #[error("`max_tokens` is 0; it must be at least 1")]
    NoTokensWanted,
    /// Too many log probabilities wanted.
    #[error("{n} top log probabilities are wanted, at most {TOP_LOGPROBS_MAX} are given")]
    TooManyLogprobs {
        /// How many are wanted.
        n: u32,
    },
    /// No choice is wanted, or too many.
    #[error("{n} choices are wanted; it must be 1 to {CHOICES_MAX}")]
    Choices {
        /// How many are wanted.
        n: u32,
    },
    /// A message that ends after the prompt.
    #[error("a message ends at position {position}, the prompt has {n_prompt} tokens")]
    Boundary {
        /// Where it ends.
        position: u32,
        /// Tokens of the prompt.
        n_prompt: u32,
    },
    /// The answer cannot be constrained as asked, or no longer.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A sampling parameter makes no sense.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The scheduler does not take the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Tokens that belong to no request find no room beside those that run.
    #[error("no room to evaluate: {0}")]
    NoRoom(#[from] KvError),
    /// The model gave a row that no token can be chosen from.
    #[error("after {n_tokens} tokens the model gave no usable distribution: {cause}")]
    NonFinite {
        /// Length of the sequence at that point.
        n_tokens: u32,
        /// What is wrong with the row.
        cause: NonFinite,
    },
    /// An earlier failure stopped the engine; the model has to be loaded again.
    #[error("the engine has stopped: {0}")]
    Broken(Arc<Error>),
    /// More requests are on their way to the engine's thread than it may hold.
    #[error("{inbox_max} requests are on their way to the engine already, no more are taken")]
    InboxFull {
        /// The most that may be on their way.
        inbox_max: usize,
    },
    /// The engine's thread has ended.
    #[error("the engine's thread has ended")]
    Stopped,
    /// The engine's thread could not be made.
    #[error("the engine's thread could not be started: {0}")]
    Thread(#[source] std::io::Error),
}

impl Error {
    /// The request is at fault: the same request will never be taken.
    #[must_use]
    pub fn is_client_fault(&self) -> bool {
        match self {
            Error::PromptEmpty
            | Error::PromptTooLong { .. }
            | Error::TokenOutOfRange { .. }
            | Error::NoTokensWanted
            | Error::TooManyLogprobs { .. }
            | Error::Choices { .. }
            | Error::Boundary { .. }
            | Error::Constraint(_)
            | Error::Sampling(_)
            | Error::Refused(Refusal::NeverFits(_)) => true,
            Error::Config(_)
            | Error::Backend(_)
            | Error::Refused(Refusal::QueueFull { .. })
            | Error::NoRoom(_)
            | Error::NonFinite { .. }
            | Error::Broken(_)
            | Error::InboxFull { .. }
            | Error::Stopped
            | Error::Thread(_) => false,
        }
    }

    /// There is too much to do; later there may be room.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Refused(Refusal::QueueFull { .. }) | Error::InboxFull { .. })
    }
}
