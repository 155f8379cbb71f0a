//! Structured output: what an answer has to match, as sets of tokens that may come next.
//!
//! The grammars are the crate `llguidance`'s; here a request's grammar is bounded, compiled before
//! anything runs, and followed token by token. The set for the next token is computed by a thread
//! of its own ([`masks`]) while the device computes the step.

pub(crate) mod masks;

use std::sync::Arc;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

/// Most bytes of a grammar, schema or regular expression.
pub const CONSTRAINT_BYTES_MAX: usize = 256 << 10;
/// Most bytes of a message about a grammar that is handed on.
const MESSAGE_BYTES_MAX: usize = 2000;

/// Bounds on the work that a grammar may cause: tens of milliseconds to compile, as many at most for a token, and tens
/// of megabytes.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 20_000,
        max_grammar_size: 300_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// What every answer to a request has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// JSON that a schema describes. `{"type":"object"}` is any object.
    JsonSchema(String),
    /// A regular expression over the whole answer, in the syntax of Rust's `regex`.
    Regex(String),
    /// A context-free grammar in llguidance's variant of Lark.
    Lark(String),
}

/// What tokens stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// By id. The model may have more rows; those are never allowed.
    pub tokens: Vec<VocabularyToken>,
    /// Ids that end an answer: allowed where the grammar is complete.
    pub end_ids: Vec<u32>,
}

/// A token of a [`Vocabulary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VocabularyToken {
    /// The bytes it adds to a text; for a control token how it is spelled.
    pub bytes: Vec<u8>,
    /// It steers the model and is no text.
    pub is_control: bool,
}

/// Why a constraint cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The engine was started without one.
    #[error("this engine was started without a vocabulary, so answers cannot be constrained")]
    NoVocabulary,
    /// The vocabulary cannot be that of the model.
    #[error("the vocabulary has {n_tokens} tokens and ends with {end_ids:?}; the model has {n_vocab}")]
    Vocabulary {
        /// Tokens of the vocabulary.
        n_tokens: usize,
        /// Its ids that end an answer.
        end_ids: Vec<u32>,
        /// Entries of the model's.
        n_vocab: u32,
    },
    /// The text of the grammar is too long.
    #[error("the grammar has {n_bytes} bytes, at most {CONSTRAINT_BYTES_MAX} are taken")]
    TooLong {
        /// Its bytes.
        n_bytes: usize,
    },
    /// It is no grammar, or one that is too large.
    #[error("the grammar cannot be used: {message}")]
    Grammar {
        /// What is wrong with it.
        message: String,
    },
    /// Following it took more work than is allowed, or failed.
    #[error("the grammar could not be followed: {message}")]
    Failed {
        /// What happened.
        message: String,
    },
}

/// Makes grammars for one vocabulary; shared by whoever submits.
pub struct Grammars {
    factory: ParserFactory,
}

/// A grammar at the beginning of an answer.
#[derive(Clone)]
pub struct Grammar {
    matcher: Box<Matcher>,
}

impl Grammars {
    /// Grammars over the vocabulary of a model with `n_vocab` entries.
    ///
    /// # Errors
    /// A vocabulary that cannot be that of the model.
    pub fn new(vocabulary: Vocabulary, n_vocab: u32) -> Result<Grammars, ConstraintError> {
        let Vocabulary { tokens, end_ids } = vocabulary;
        let fits = tokens.len() <= n_vocab as usize && end_ids.iter().all(|&id| (id as usize) < tokens.len());
        let first_end = match end_ids.first() {
            Some(&id) if fits => id,
            _ => return Err(ConstraintError::Vocabulary { n_tokens: tokens.len(), end_ids, n_vocab }),
        };
        let mut words: Vec<Vec<u8>> = tokens.into_iter().map(word).collect();
        words.resize(n_vocab as usize, Vec::new());
        let trie = TokTrie::from(&TokRxInfo::new(n_vocab, first_end), &words).with_eos_tokens(&end_ids);
        let environment: llguidance::toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|e| grammar_error(&e.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Grammars { factory })
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    /// A text that is too long or no grammar, or a grammar that is too large.
    pub fn compile(&self, constraint: &Constraint) -> Result<Grammar, ConstraintError> {
        let (Constraint::JsonSchema(text) | Constraint::Regex(text) | Constraint::Lark(text)) = constraint;
        if text.len() > CONSTRAINT_BYTES_MAX {
            return Err(ConstraintError::TooLong { n_bytes: text.len() });
        }
        let grammar = match constraint {
            Constraint::JsonSchema(text) => {
                let schema = serde_json::from_str(text).map_err(|e| grammar_error(&e.to_string()))?;
                TopLevelGrammar::from_json_schema(schema)
            }
            Constraint::Regex(text) => TopLevelGrammar::from_regex(text),
            Constraint::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        };
        let matcher = Matcher::new(self.factory.create_parser(grammar));
        match matcher.get_error() {
            Some(message) => Err(grammar_error(&message)),
            None => Ok(Grammar { matcher: Box::new(matcher) }),
        }
    }
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}

/// Control tokens are marked, so that no text can ask for one.
fn word(token: VocabularyToken) -> Vec<u8> {
    match token.is_control {
        true if token.bytes.is_empty() => Vec::new(),
        true => [&[TokTrie::SPECIAL_TOKEN_MARKER], token.bytes.as_slice()].concat(),
        false => token.bytes,
    }
}

fn grammar_error(message: &str) -> ConstraintError {
    ConstraintError::Grammar { message: shortened(message) }
}

fn shortened(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

#[cfg(test)]
mod tests;
