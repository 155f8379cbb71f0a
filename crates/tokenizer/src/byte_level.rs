//! Byte-level BPE (`tokenizer.ggml.model = gpt2`): GPT-2, Llama 3, Qwen, SmolLM, gpt-oss.
//!
//! Text is cut into words by the family's pre-tokenizer, and the bytes of each word are merged by the list of merges.
//! The vocabulary spells each byte as a printable character (a space as `Ġ`), so that any bytes can stand in a text file.

use crate::Error;
use crate::merge::{Row, Symbol};
use crate::merges::Merges;
use crate::pretokenizer::PreTokenizer;
use crate::vocab::{NO_TOKEN, Vocab};
use zinc_gguf::Metadata;

/// Pre-tokenizer, byte tokens and merges.
#[derive(Debug)]
pub(crate) struct ByteLevel {
    pre_tokenizer: PreTokenizer,
    /// The token of each byte; [`NO_TOKEN`] where the vocabulary lacks it, as trained ones do for bytes that no UTF-8 has.
    bytes: Box<[u32; 256]>,
    merges: Merges,
}

impl ByteLevel {
    /// Reads the name of the pre-tokenizer and the merges.
    pub(crate) fn read(metadata: &Metadata, vocab: &Vocab) -> Result<Self, Error> {
        let pre_tokenizer = PreTokenizer::new(metadata.require_str("tokenizer.ggml.pre")?)?;
        let mut bytes = Box::new([NO_TOKEN; 256]);
        for byte in 0..=255u8 {
            let token = vocab.text_token(spell(byte).encode_utf8(&mut [0; 4]).as_bytes());
            bytes[usize::from(byte)] = token.unwrap_or(NO_TOKEN);
        }
        Ok(Self { pre_tokenizer, bytes, merges: Merges::read(metadata, vocab)? })
    }

    /// Whether the family's models expect a beginning token when the file does not say.
    pub(crate) fn adds_bos(&self) -> bool {
        self.pre_tokenizer.adds_bos()
    }

    /// Appends the ids of `text`. A byte without a token is left out, and its neighbours may merge, as in the models' own
    /// tokenizers; an unknown token in its place would be a control token in most of these vocabularies.
    pub(crate) fn encode(&self, vocab: &Vocab, text: &str, row: &mut Row, ids: &mut Vec<u32>) {
        let mut spelled = String::new();
        self.pre_tokenizer.split(text, &mut |word| {
            if self.pre_tokenizer.keeps_whole_words() {
                spelled.clear();
                spelled.extend(word.bytes().map(spell));
                if let Some(token) = vocab.text_token(spelled.as_bytes()) {
                    ids.push(token);
                    return;
                }
            }
            row.clear();
            for (start, byte) in word.bytes().enumerate() {
                let token = self.bytes[usize::from(byte)];
                if token != NO_TOKEN {
                    row.push(Symbol { start, end: start + 1, token });
                }
            }
            row.merge(|left, right| self.merges.find(left, right));
            ids.extend(row.symbols().map(|symbol| symbol.token));
        });
    }
}

/// The printable character that stands for a byte: itself where Latin-1 has a visible one, else the next character from
/// U+0100 on. This is GPT-2's table.
pub(crate) fn spell(byte: u8) -> char {
    let offset = match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => return char::from(byte),
        0..=0x20 => byte,
        0x7F..=0xA0 => byte - 0x7F + 33,
        0xAD => 67,
    };
    char::from_u32(0x100 + u32::from(offset)).expect("U+0100 to U+0143 are characters")
}

/// The byte that a character stands for.
pub(crate) fn unspell(c: char) -> Option<u8> {
    let offset = match u32::from(c) {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => return u8::try_from(code).ok(),
        code => u8::try_from(code.checked_sub(0x100)?).ok()?,
    };
    match offset {
        0..=0x20 => Some(offset),
        0x21..=0x42 => Some(offset - 33 + 0x7F),
        0x43 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{spell, unspell};

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255 {
            assert_eq!(unspell(spell(byte)), Some(byte));
        }
        let known =
            [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'\t', 'ĉ'), (b'a', 'a'), (0, 'Ā'), (0x7F, 'ġ'), (0xAD, 'Ń'), (0xFF, 'ÿ')];
        for (byte, c) in known {
            assert_eq!(spell(byte), c);
        }
        for c in [' ', '\n', '\u{7f}', '\u{a0}', '\u{ad}', '\u{144}', '語'] {
            assert_eq!(unspell(c), None, "{c:?}");
        }
    }
}
