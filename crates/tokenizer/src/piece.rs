//! What each token decodes to, computed once when the tokenizer is made.

use crate::Error;
use crate::byte_level::unspell;
use crate::sentencepiece::SPACE;
use crate::vocab::{TokenKind, Vocab};
use std::borrow::Cow;
use zinc_gguf::Strings;

/// How a vocabulary spells text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Spelling {
    /// A printable character for each byte.
    Bytes,
    /// The text itself, with `▁` for a space.
    VisibleSpaces,
}

/// The bytes of each token, in order of their ids.
pub(crate) fn pieces(vocab: &Vocab, spelling: Spelling) -> Result<Strings, Error> {
    let pieces: Result<Vec<_>, _> = vocab.ids().map(|id| piece(vocab, id, spelling)).collect();
    Ok(pieces?.into_iter().collect())
}

fn piece(vocab: &Vocab, id: u32, spelling: Spelling) -> Result<Cow<'_, [u8]>, Error> {
    let text = vocab.text(id);
    Ok(match (vocab.kind(id), spelling) {
        (TokenKind::Byte, _) => vec![vocab.byte(id)?].into(),
        // A normal token with a character outside the table was added by hand and spells itself.
        (TokenKind::Normal, Spelling::Bytes) => {
            text.chars().map(unspell).collect::<Option<Vec<u8>>>().map_or(text.as_bytes().into(), Cow::from)
        }
        (TokenKind::Normal, Spelling::VisibleSpaces) => text.replace(SPACE, " ").into_bytes().into(),
        _ => text.as_bytes().into(),
    })
}
