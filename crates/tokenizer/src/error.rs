//! What can be wrong with the tokenizer that a model file describes.
//!
//! Encoding and decoding cannot fail: every rule that they rely on is checked when the tokenizer is made.

/// An error of the tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key is missing, has another type, or the file is unreadable.
    #[error(transparent)]
    Gguf(#[from] zinc_gguf::Error),
    /// The kind of tokenizer is not one of ours.
    #[error("tokenizer.ggml.model is {model:?}, which is not supported; known are {}", known.join(", "))]
    UnknownModel {
        /// The value found.
        model: String,
        /// The values understood.
        known: &'static [&'static str],
    },
    /// The rule that cuts text into words is not one of ours. Guessing would give other tokens than the model learned.
    #[error("tokenizer.ggml.pre is {pre:?}, which is not supported; known are {}", known.join(", "))]
    UnknownPreTokenizer {
        /// The value found.
        pre: String,
        /// The values understood.
        known: Vec<&'static str>,
    },
    /// An array with one entry for each token has another length.
    #[error("{key} has {got} entries, but tokenizer.ggml.tokens has {expected}")]
    ArrayLength {
        /// The array's key.
        key: &'static str,
        /// The number of tokens.
        expected: usize,
        /// The array's length.
        got: usize,
    },
    /// More tokens, or more text in them, than this crate takes.
    #[error("{what} is {got}, the limit is {limit}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The count found.
        got: usize,
        /// The largest accepted.
        limit: usize,
    },
    /// A vocabulary without tokens.
    #[error("tokenizer.ggml.tokens is empty")]
    NoTokens,
    /// A token type that the format does not have.
    #[error("tokenizer.ggml.token_type says {got} for token {id} ({token:?}), expected 0 to 6")]
    TokenType {
        /// The token.
        id: u32,
        /// Its text.
        token: String,
        /// The type found.
        got: i32,
    },
    /// Two tokens have the same text.
    #[error("tokenizer.ggml.tokens has {token:?} twice: ids {first} and {second}")]
    DuplicateToken {
        /// The text.
        token: String,
        /// The first token with it.
        first: u32,
        /// The second.
        second: u32,
    },
    /// A token of type byte whose text is not `<0x00>` to `<0xFF>`.
    #[error("token {id} is of type byte, but its text is {token:?}, expected <0x00> to <0xFF>")]
    ByteToken {
        /// The token.
        id: u32,
        /// Its text.
        token: String,
    },
    /// A score that cannot be ordered.
    #[error("tokenizer.ggml.scores has no number for token {id} ({token:?})")]
    Score {
        /// The token.
        id: u32,
        /// Its text.
        token: String,
    },
    /// A key names a token beyond the vocabulary.
    #[error("{key} is {id}, but the vocabulary has {n_vocab} tokens")]
    TokenId {
        /// The key.
        key: &'static str,
        /// The id found.
        id: u32,
        /// The size of the vocabulary.
        n_vocab: u32,
    },
    /// A merge that is not two texts with a space between.
    #[error("tokenizer.ggml.merges[{index}] is {merge:?}, expected two tokens with a space between them")]
    MergeForm {
        /// The merge's place.
        index: usize,
        /// The merge.
        merge: String,
    },
    /// A merge of, or into, something that is not in the vocabulary.
    #[error("tokenizer.ggml.merges[{index}] is {merge:?}, but the vocabulary has no token {missing:?}")]
    MergeToken {
        /// The merge's place.
        index: usize,
        /// The merge.
        merge: String,
        /// The token that is missing.
        missing: String,
    },
    /// Some text could not be encoded at all: there is neither a byte token nor an unknown token for it.
    #[error("the vocabulary has no token <0x{byte:02X}>, and tokenizer.ggml.unknown_token_id is not set")]
    NoFallback {
        /// The byte without a token.
        byte: u8,
    },
}
