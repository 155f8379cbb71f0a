//! The vocabulary of a model file: each token's text and kind, and the way from a text back to its id.
//!
//! Texts are kept as the file spells them, which for byte-level vocabularies is not the text that a token stands for;
//! what a token decodes to is in `piece.rs`.

use crate::Error;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use zinc_gguf::{Metadata, Strings};

const TOKENS_KEY: &str = "tokenizer.ggml.tokens";
const TYPES_KEY: &str = "tokenizer.ggml.token_type";

/// The id that no token has. Vocabularies are smaller than this.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

/// What a token is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Stands for text that has no tokens.
    Unknown,
    /// Steers the model (turns, beginning, end) and is no text.
    Control,
    /// A piece of text that is never cut into smaller ones, wherever it stands.
    UserDefined,
    /// Fills the vocabulary up; no model produces it.
    Unused,
    /// One byte.
    Byte,
}

/// Texts, kinds, and ids by text.
#[derive(Debug)]
pub(crate) struct Vocab {
    texts: Strings,
    kinds: Vec<TokenKind>,
    by_text: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Bytes of the longest text.
    longest_text: usize,
}

impl Vocab {
    /// Reads the vocabulary. Types are optional by the format; without them every token is normal.
    pub(crate) fn read(metadata: &Metadata) -> Result<Self, Error> {
        let tokens = metadata.require_strings(TOKENS_KEY)?;
        let n_vocab = u32::try_from(tokens.len()).ok().filter(|&n| n < NO_TOKEN).ok_or(Error::Limit {
            what: "the number of tokens",
            got: tokens.len(),
            limit: NO_TOKEN as usize - 1,
        })?;
        if n_vocab == 0 {
            return Err(Error::NoTokens);
        }
        let kinds = match metadata.i32s(TYPES_KEY)? {
            None => vec![TokenKind::Normal; tokens.len()],
            Some(types) => kinds(&tokens, &types)?,
        };
        let mut vocab = Self {
            texts: tokens.iter().collect(),
            kinds,
            by_text: HashTable::with_capacity(tokens.len()),
            hasher: DefaultHashBuilder::default(),
            longest_text: tokens.iter().map(|token| token.len()).max().unwrap_or(0),
        };
        for id in 0..n_vocab {
            vocab.index(id)?;
        }
        Ok(vocab)
    }

    /// Enters token `id` into the index. Files leave the texts of unused places empty, several times; those have no
    /// entry, since an empty text is found nowhere.
    fn index(&mut self, id: u32) -> Result<(), Error> {
        let text = self.text(id);
        if text.is_empty() {
            return Ok(());
        }
        if let Some(first) = self.id(text) {
            return Err(Error::DuplicateToken { token: text.to_owned(), first, second: id });
        }
        let hash = self.hasher.hash_one(text.as_bytes());
        let Self { texts, by_text, hasher, .. } = self;
        by_text.insert_unique(hash, id, |&id| hasher.hash_one(texts.get_bytes(id as usize).unwrap_or_default()));
        Ok(())
    }

    /// The number of tokens.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.kinds.len()).expect("bounded when the vocabulary was read")
    }

    /// All ids.
    pub(crate) fn ids(&self) -> std::ops::Range<u32> {
        0..self.len()
    }

    /// The text of a token as the file spells it; empty beyond the vocabulary.
    pub(crate) fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).unwrap_or_default()
    }

    /// What a token is for; unused beyond the vocabulary.
    pub(crate) fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// Overrides what the file says of a token in the vocabulary.
    pub(crate) fn set_kind(&mut self, id: u32, kind: TokenKind) {
        self.kinds[id as usize] = kind;
    }

    /// The token with this text.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        self.id_of_bytes(text.as_bytes())
    }

    /// Whether a token stands for text, so that merging may arrive at it. Never true of a control token: no text can be
    /// made to spell one.
    pub(crate) fn is_text(&self, id: u32) -> bool {
        matches!(self.kind(id), TokenKind::Normal | TokenKind::UserDefined)
    }

    /// The token with this text, if it stands for text.
    pub(crate) fn text_token(&self, text: &[u8]) -> Option<u32> {
        self.id_of_bytes(text).filter(|&id| self.is_text(id))
    }

    /// The token of each byte (`<0x00>` to `<0xFF>`), [`NO_TOKEN`] where there is none.
    pub(crate) fn byte_tokens(&self) -> Result<Box<[u32; 256]>, Error> {
        let mut tokens = Box::new([NO_TOKEN; 256]);
        for id in self.ids().filter(|&id| self.kind(id) == TokenKind::Byte) {
            tokens[usize::from(self.byte(id)?)] = id;
        }
        Ok(tokens)
    }

    /// The byte that a byte token stands for.
    pub(crate) fn byte(&self, id: u32) -> Result<u8, Error> {
        let text = self.text(id);
        parse_byte(text).ok_or_else(|| Error::ByteToken { id, token: text.to_owned() })
    }

    fn id_of_bytes(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest_text {
            return None;
        }
        let same = |&id: &u32| self.texts.get_bytes(id as usize) == Some(text);
        self.by_text.find(self.hasher.hash_one(text), same).copied()
    }
}

fn kinds(tokens: &[&str], types: &[i32]) -> Result<Vec<TokenKind>, Error> {
    if types.len() != tokens.len() {
        return Err(Error::ArrayLength { key: TYPES_KEY, expected: tokens.len(), got: types.len() });
    }
    let kind = |(id, (token, &got)): (u32, (&&str, &i32))| match got {
        1 => Ok(TokenKind::Normal),
        2 => Ok(TokenKind::Unknown),
        3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::UserDefined),
        // Type 0 is "undefined": a place in the vocabulary that nothing was said about.
        0 | 5 => Ok(TokenKind::Unused),
        6 => Ok(TokenKind::Byte),
        _ => Err(Error::TokenType { id, token: (*token).to_owned(), got }),
    };
    (0u32..).zip(tokens.iter().zip(types)).map(kind).collect()
}

/// `<0x00>` to `<0xFF>`, two upper-case digits exactly: a number parser would take a sign.
fn parse_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    match *digits {
        [high, low] => Some(value(high)? << 4 | value(low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse_byte;

    #[test]
    fn byte_tokens_are_two_upper_case_digits() {
        for byte in 0..=255u8 {
            assert_eq!(parse_byte(&format!("<0x{byte:02X}>")), Some(byte));
        }
        for text in ["<0x-1>", "<0x+1>", "<0x1>", "<0x001>", "<0xG0>", "<0xab>", "0x41", "<0x41", "", "<0x>"] {
            assert_eq!(parse_byte(text), None, "{text}");
        }
    }
}
