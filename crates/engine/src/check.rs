//! What a request has to be before it is taken: looked at where it is submitted, on the thread of
//! whoever submits it, so that the engine's loop is not held up by a large prompt or grammar.

use std::sync::Arc;

use crate::constraint::{ConstraintError, Grammar, Grammars};
use crate::error::Error;
use crate::kv::{OutOfPages, pages_for};
use crate::request::{CHOICES_MAX, Request, TOP_LOGPROBS_MAX};
use crate::scheduler::Refusal;

/// The bounds of one engine.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    pub(crate) context_tokens: u32,
    pub(crate) n_vocab: u32,
    pub(crate) n_pages: u32,
    pub(crate) grammars: Option<Arc<Grammars>>,
}

/// A request that makes sense, with its compiled grammar.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) request: Request,
    pub(crate) grammar: Option<Grammar>,
}

impl Checker {
    pub(crate) fn check(&self, mut request: Request) -> Result<Checked, Error> {
        self.check_ids(&request.prompt)?;
        let (n_tokens, context_tokens) = (request.prompt.len(), self.context_tokens);
        let n_prompt = match u32::try_from(n_tokens) {
            Ok(n) if n < context_tokens => n,
            _ => return Err(Error::PromptTooLong { n_tokens, context_tokens }),
        };
        if request.max_tokens == 0 {
            return Err(Error::NoTokensWanted);
        }
        if let Some(n) = request.logprobs.filter(|&n| n > TOP_LOGPROBS_MAX) {
            return Err(Error::TooManyLogprobs { n });
        }
        if request.n_choices == 0 || request.n_choices > CHOICES_MAX {
            return Err(Error::Choices { n: request.n_choices });
        }
        if let Some(&position) = request.boundaries.iter().find(|&&end| end > n_prompt) {
            return Err(Error::Boundary { position, n_prompt });
        }
        let needed = pages_for(n_prompt.saturating_add(request.max_tokens).min(context_tokens)) as usize;
        let n_pages = self.n_pages as usize;
        if needed > n_pages {
            return Err(Refusal::NeverFits(OutOfPages { needed, free: n_pages, n_pages }).into());
        }
        request.sampling.check(self.n_vocab)?;
        let grammar = match (request.constraint.take(), &self.grammars) {
            (None, _) => None,
            (Some(_), None) => return Err(ConstraintError::NoVocabulary.into()),
            (Some(constraint), Some(grammars)) => Some(grammars.compile(&constraint)?),
        };
        Ok(Checked { request, grammar })
    }

    /// Tokens there are, and the model knows them.
    pub(crate) fn check_ids(&self, ids: &[u32]) -> Result<(), Error> {
        let n_vocab = self.n_vocab;
        match ids.iter().position(|&id| id >= n_vocab) {
            Some(index) => Err(Error::TokenOutOfRange { index, id: ids[index], n_vocab }),
            None if ids.is_empty() => Err(Error::PromptEmpty),
            None => Ok(()),
        }
    }
}
