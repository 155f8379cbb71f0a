//! Text to token ids and back, as the model in a GGUF file was trained, and its chat template.
//!
//! A [`Tokenizer`] is made from the file's metadata alone. Three kinds are known, byte-level BPE (`byte_level`),
//! SentencePiece's BPE (`sentencepiece`) and BPE over characters (`utf8_bpe`); all merge neighbours in `merge`. What a model
//! cannot do without is checked when the file is read, so that encoding and decoding never fail. Text from users is text:
//! a control token that is spelled out in it counts only where the caller says so.
//!
//! Deliberately absent: training, normalisation, and the tokenizers of encoder models (WordPiece, Unigram).

#![forbid(unsafe_code)]

mod added;
mod byte_fallback;
mod byte_level;
pub mod chat_template;
mod control;
mod decode;
mod error;
mod merge;
mod merges;
mod piece;
mod pretokenizer;
mod sentencepiece;
pub mod stop_strings;
mod tokenizer;
mod utf8_bpe;
mod vocab;

pub use crate::decode::{DecodeOptions, DecodeStream};
pub use crate::error::Error;
pub use crate::pretokenizer::PreTokenizer;
pub use crate::tokenizer::{Encode, Part, Tokenizer};
pub use crate::vocab::TokenKind;
