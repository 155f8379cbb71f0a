//! Text that has no token of its own, written byte by byte: `é` as `<0xC3>` `<0xA9>`.

use crate::Error;
use crate::vocab::{NO_TOKEN, Vocab};

/// The token of each byte, and the token for what cannot be written in bytes.
#[derive(Debug)]
pub(crate) struct ByteFallback {
    tokens: Box<[u32; 256]>,
    unknown: Option<u32>,
}

impl ByteFallback {
    /// Takes the byte tokens of a vocabulary. Either they are complete or there is an unknown token; so every text has ids.
    pub(crate) fn new(vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let tokens = vocab.byte_tokens()?;
        match (0..=255u8).find(|&byte| tokens[usize::from(byte)] == NO_TOKEN) {
            Some(byte) if unknown.is_none() => Err(Error::NoFallback { byte }),
            _ => Ok(Self { tokens, unknown }),
        }
    }

    /// Appends the ids of a character: its bytes, all of them or none; then the unknown token stands for it.
    pub(crate) fn push(&self, character: &[u8], ids: &mut Vec<u32>) {
        let tokens = || character.iter().map(|&byte| self.tokens[usize::from(byte)]);
        if tokens().all(|token| token != NO_TOKEN) {
            ids.extend(tokens());
        } else {
            ids.extend(self.unknown);
        }
    }
}
