//! What can be wrong with a chat template, or with a conversation that it is to render.

/// An error of a chat template.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file's metadata cannot be read.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// The file brings no template.
    #[error("the model brings no chat template ({key} is absent)")]
    Absent {
        /// The key that was looked for.
        key: &'static str,
    },
    /// The template is not the language that we read.
    #[error("chat template, line {line}: {reason}")]
    Syntax {
        /// Where, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// The template did something that fails, such as a division by zero.
    #[error("chat template, line {line}: {reason}")]
    Render {
        /// Where, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// The template itself refuses the conversation, by `raise_exception`.
    #[error("the model's chat template refuses the conversation: {message}")]
    Refused {
        /// Where, from 1.
        line: usize,
        /// The template's own words.
        message: String,
    },
    /// The template, or the conversation, takes more than it may.
    #[error("chat template{}: {what}, the limit is {limit}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Limit {
        /// Where, from 1, if a place in the template is to blame.
        line: Option<usize>,
        /// What is limited.
        what: Limit,
        /// The largest accepted.
        limit: u64,
    },
    /// A part of a message is not text, and the template knows no other parts.
    #[error("message {message}: the model's chat template takes no content of type {kind:?}")]
    Content {
        /// The message's place, from 0.
        message: usize,
        /// The part's type.
        kind: String,
    },
    /// It cannot be told which of the rendered text came from the messages, so control tokens in them would be obeyed.
    #[error(
        "the model's chat template rewrites messages in a way that hides where their text went, and they contain text \
         that reads like one of its control tokens"
    )]
    Untraceable,
}

/// What a template or a conversation can have too much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of the template.
    TemplateBytes,
    /// Tokens between one pair of braces.
    TagTokens,
    /// Brackets within brackets.
    Brackets,
    /// `elif` tags.
    Branches,
    /// Steps taken and bytes made while rendering.
    Work,
    /// Bytes of the rendered text.
    OutputBytes,
    /// Calls within calls.
    Recursion,
    /// Lists within lists that the template makes.
    Nesting,
    /// Lists within lists that the conversation brings.
    InputNesting,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::TemplateBytes => "too long in bytes",
            Limit::TagTokens => "too many tokens between one pair of braces",
            Limit::Brackets => "too many open brackets",
            Limit::Branches => "too many elif branches",
            Limit::Work => "too much work",
            Limit::OutputBytes => "too much output in bytes",
            Limit::Recursion => "calls nested too deep",
            Limit::Nesting => "values nested too deep",
            Limit::InputNesting => "messages or tools nested too deep",
        })
    }
}
