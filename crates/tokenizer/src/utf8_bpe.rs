//! BPE over characters with byte fallback (`tokenizer.ggml.model = gemma4`).
//!
//! Between the other two: a list of merges as in byte-level BPE, but over the characters themselves, with spaces written
//! `▁` and missing characters in bytes as SentencePiece has it. Text is cut only where newlines begin and end, and a run
//! of newlines that is a token stays whole.

use crate::Error;
use crate::byte_fallback::ByteFallback;
use crate::merge::{Row, Symbol};
use crate::merges::Merges;
use crate::sentencepiece::{for_each_character, with_visible_spaces};
use crate::vocab::{NO_TOKEN, Vocab};
use zinc_gguf::Metadata;

/// Merges and byte tokens.
#[derive(Debug)]
pub(crate) struct Utf8Bpe {
    merges: Merges,
    fallback: ByteFallback,
}

impl Utf8Bpe {
    /// Reads merges and byte tokens.
    pub(crate) fn read(metadata: &Metadata, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        Ok(Self { merges: Merges::read(metadata, vocab)?, fallback: ByteFallback::new(vocab, unknown)? })
    }

    /// Appends the ids of `text`, which need not be UTF-8.
    pub(crate) fn encode(&self, vocab: &Vocab, text: &[u8], row: &mut Row, ids: &mut Vec<u32>) {
        let text = with_visible_spaces(text, false);
        for piece in text.chunk_by(|&a, &b| (a == b'\n') == (b == b'\n')) {
            let newlines = if piece[0] == b'\n' { vocab.text_token(piece) } else { None };
            match newlines {
                Some(token) => ids.push(token),
                None => self.encode_piece(vocab, piece, row, ids),
            }
        }
    }

    fn encode_piece(&self, vocab: &Vocab, piece: &[u8], row: &mut Row, ids: &mut Vec<u32>) {
        row.clear();
        for_each_character(piece, |start, end| {
            row.push(Symbol { start, end, token: vocab.text_token(&piece[start..end]).unwrap_or(NO_TOKEN) });
        });
        row.merge(|left, right| self.merges.find(left, right));
        for symbol in row.symbols() {
            match symbol.token() {
                Some(token) => ids.push(token),
                None => self.fallback.push(&piece[symbol.start..symbol.end], ids),
            }
        }
    }
}
