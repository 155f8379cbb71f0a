//! The tokenizer of a model: text to ids and back.
//!
//! [`Tokenizer::from_gguf`] reads and checks everything that the file says; afterwards nothing can fail. Encoding first
//! finds added tokens (`added.rs`), then hands the text between them to the model's algorithm (`byte_level.rs`,
//! `sentencepiece.rs`, `utf8_bpe.rs`). No text is normalised: Qwen's own tokenizer applies NFC first, llama.cpp does not,
//! and we do as it does, so that ids decode to the text that was given.

use crate::Error;
use crate::added::{AddedTokens, Fragment};
use crate::byte_level::ByteLevel;
use crate::control::{self, Control};
use crate::decode::DecodeOptions;
use crate::merge::Row;
use crate::piece::{self, Spelling};
use crate::sentencepiece::SentencePiece;
use crate::utf8_bpe::Utf8Bpe;
use crate::vocab::{TokenKind, Vocab};
use std::ops::Range;
use zinc_gguf::{Gguf, Metadata, Strings};

/// The values of `tokenizer.ggml.model` that are understood.
const MODELS: [&str; 3] = ["gpt2", "llama", "gemma4"];

/// How to encode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encode {
    /// Add the tokens that the model expects at the beginning and the end of a text, as the file says.
    pub add_special: bool,
    /// Read control tokens that are spelled out, such as `<|im_end|>`. Never for text from outside: such text could then
    /// end its turn and speak for others.
    pub parse_special: bool,
}

/// A part of a text of mixed origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// The text.
    pub text: &'a str,
    /// Whether control tokens spelled in it are meant, as in a chat template's own text.
    pub trusted: bool,
}

/// A model's tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    pieces: Strings,
    added: AddedTokens,
    algorithm: Algorithm,
    control: Control,
}

#[derive(Debug)]
enum Algorithm {
    ByteLevel(ByteLevel),
    SentencePiece(SentencePiece),
    Utf8Bpe(Utf8Bpe),
}

impl Tokenizer {
    /// Makes the tokenizer that the file's metadata describes.
    ///
    /// # Errors
    /// A key that is missing or of another type, a kind of tokenizer or pre-tokenizer that is not known, or a vocabulary
    /// that contradicts itself; see [`Error`].
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        let metadata = gguf.metadata();
        let model = metadata.require_str("tokenizer.ggml.model")?;
        if !MODELS.contains(&model) {
            return Err(Error::UnknownModel { model: model.to_owned(), known: &MODELS });
        }
        let mut vocab = Vocab::read(metadata)?;
        control::mark_well_known(&mut vocab);
        let unknown = control::unknown(metadata, &vocab)?;
        let algorithm = match model {
            "gpt2" => Algorithm::ByteLevel(ByteLevel::read(metadata, &vocab)?),
            "llama" => Algorithm::SentencePiece(SentencePiece::read(metadata, &vocab, unknown)?),
            _ => Algorithm::Utf8Bpe(Utf8Bpe::read(metadata, &vocab, unknown)?),
        };
        Self::assemble(metadata, vocab, algorithm)
    }

    fn assemble(metadata: &Metadata, vocab: Vocab, algorithm: Algorithm) -> Result<Self, Error> {
        let (spelling, adds_bos) = match &algorithm {
            Algorithm::ByteLevel(bpe) => (Spelling::Bytes, bpe.adds_bos()),
            Algorithm::SentencePiece(_) | Algorithm::Utf8Bpe(_) => (Spelling::VisibleSpaces, true),
        };
        let mut control = Control::read(metadata, &vocab, adds_bos)?;
        if let Algorithm::Utf8Bpe(_) = algorithm {
            // Early files say that no beginning token is added; the models are lost without it.
            control.added_bos = control.bos;
        }
        Ok(Self {
            pieces: piece::pieces(&vocab, spelling)?,
            added: AddedTokens::new(&vocab)?,
            vocab,
            algorithm,
            control,
        })
    }

    /// The ids of a text.
    pub fn encode(&self, text: &str, options: Encode) -> Vec<u32> {
        self.encode_bytes(text.as_bytes(), options)
    }

    /// The ids of text that may be broken. Byte-level vocabularies read each broken sequence as U+FFFD, as a lossy
    /// conversion gives it; vocabularies with byte tokens keep the bytes.
    pub fn encode_bytes(&self, text: &[u8], options: Encode) -> Vec<u32> {
        let trusted = if options.parse_special { 0..text.len() } else { 0..0 };
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.control.added_bos.filter(|_| options.add_special));
        self.encode_ranges(text, &[trusted], &mut ids);
        ids.extend(self.control.added_eos.filter(|_| options.add_special));
        ids
    }

    /// The ids of a text made of parts. Control tokens are read only where they lie within neighbouring trusted parts; in
    /// all else the result is that of the whole text, so that where the parts meet does not show. No beginning or end is
    /// added: a chat template writes its own.
    pub fn encode_parts(&self, parts: &[Part<'_>]) -> Vec<u32> {
        let mut text = String::with_capacity(parts.iter().map(|part| part.text.len()).sum());
        let mut trusted: Vec<Range<usize>> = Vec::new();
        for part in parts {
            let range = text.len()..text.len() + part.text.len();
            text.push_str(part.text);
            match trusted.last_mut() {
                Some(last) if part.trusted && last.end == range.start => last.end = range.end,
                _ if part.trusted => trusted.push(range),
                _ => {}
            }
        }
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_ranges(text.as_bytes(), &trusted, &mut ids);
        ids
    }

    fn encode_ranges(&self, text: &[u8], trusted: &[Range<usize>], ids: &mut Vec<u32>) {
        let mut row = Row::default();
        let mut after_token = true;
        self.added.split(text, trusted, |fragment| match fragment {
            Fragment::Token(id) => {
                ids.push(id);
                after_token = true;
            }
            Fragment::Text(range) => {
                let text = &text[range];
                match &self.algorithm {
                    Algorithm::ByteLevel(bpe) => {
                        bpe.encode(&self.vocab, &String::from_utf8_lossy(text), &mut row, ids);
                    }
                    Algorithm::SentencePiece(model) => {
                        let space_prefix = model.add_space_prefix && after_token;
                        model.encode(&self.vocab, text, space_prefix, &mut row, ids);
                    }
                    Algorithm::Utf8Bpe(bpe) => bpe.encode(&self.vocab, text, &mut row, ids),
                }
                after_token = false;
            }
        });
    }

    /// The bytes that `id` adds to a text.
    pub(crate) fn shown_piece(&self, id: u32, options: DecodeOptions) -> &[u8] {
        let is_text = self.vocab.is_text(id) || self.vocab.kind(id) == TokenKind::Byte;
        if is_text || options.render_special { self.piece(id) } else { &[] }
    }

    /// Whether encoding puts a space before a text.
    pub(crate) fn adds_space_prefix(&self) -> bool {
        matches!(&self.algorithm, Algorithm::SentencePiece(model) if model.add_space_prefix)
    }

    /// The bytes that a token stands for; its spelling for a control token, nothing beyond the vocabulary. One token may be
    /// a part of a character.
    pub fn piece(&self, id: u32) -> &[u8] {
        self.pieces.get_bytes(id as usize).unwrap_or_default()
    }

    /// The number of tokens. A model may have more rows than that, which are never text.
    pub fn n_vocab(&self) -> u32 {
        self.vocab.len()
    }

    /// What a token is for; `None` beyond the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        (id < self.n_vocab()).then(|| self.vocab.kind(id))
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.control.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.control.eos
    }

    /// Whether generation ends with this token: the end of a text, of a turn, of a tool call, or of a file.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.control.ends.binary_search(&id).is_ok()
    }

    /// All tokens with which generation ends, sorted.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.control.ends
    }

    /// The token that the file spells `text`: an added token, or an ordinary one in the vocabulary's own spelling.
    pub fn token_to_id(&self, text: &str) -> Option<u32> {
        self.vocab.id(text)
    }

    /// How the file spells a token; `None` beyond the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        (id < self.n_vocab()).then(|| self.vocab.text(id))
    }
}
