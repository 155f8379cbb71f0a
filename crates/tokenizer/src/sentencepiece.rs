//! SentencePiece's BPE (`tokenizer.ggml.model = llama`): Llama 2, Gemma 3 and their like.
//!
//! There is no list of merges: two neighbours may merge if their joint text is a token, and the token with the highest
//! score goes first. Spaces are written `▁`, there is no cutting into words, and what has no token is written in bytes.
//! SentencePiece's other model, Unigram, is not here; llama.cpp calls it `t5`.

use crate::Error;
use crate::byte_fallback::ByteFallback;
use crate::merge::{Merge, Row, Symbol};
use crate::vocab::{NO_TOKEN, Vocab};
use zinc_gguf::Metadata;

const SCORES_KEY: &str = "tokenizer.ggml.scores";

/// How spaces are written in tokens.
pub(crate) const SPACE: &str = "\u{2581}";

/// Ranks of the tokens, and what goes around them.
#[derive(Debug)]
pub(crate) struct SentencePiece {
    /// For each token the place of its score, highest first; equal scores share a place.
    ranks: Vec<u32>,
    fallback: ByteFallback,
    /// Whether text at the start, or after an added token, gets a space before it.
    pub(crate) add_space_prefix: bool,
}

impl SentencePiece {
    /// Reads scores and options.
    pub(crate) fn read(metadata: &Metadata, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let scores = metadata.require_f32s(SCORES_KEY)?;
        if scores.len() != vocab.len() as usize {
            return Err(Error::ArrayLength { key: SCORES_KEY, expected: vocab.len() as usize, got: scores.len() });
        }
        Ok(Self {
            ranks: ranks(&scores, vocab)?,
            fallback: ByteFallback::new(vocab, unknown)?,
            add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        })
    }

    /// Appends the ids of `text`, which need not be UTF-8: bytes that are not are written as byte tokens.
    pub(crate) fn encode(&self, vocab: &Vocab, text: &[u8], space_prefix: bool, row: &mut Row, ids: &mut Vec<u32>) {
        let text = with_visible_spaces(text, space_prefix);
        row.clear();
        for_each_character(&text, |start, end| {
            row.push(Symbol { start, end, token: vocab.text_token(&text[start..end]).unwrap_or(NO_TOKEN) });
        });
        row.merge(|left, right| {
            let token = vocab.text_token(&text[left.start..right.end])?;
            Some(Merge { rank: self.ranks[token as usize], token })
        });
        for symbol in row.symbols() {
            match symbol.token() {
                Some(token) => ids.push(token),
                None => self.fallback.push(&text[symbol.start..symbol.end], ids),
            }
        }
    }
}

fn ranks(scores: &[f32], vocab: &Vocab) -> Result<Vec<u32>, Error> {
    if let Some((id, _)) = (0u32..).zip(scores).find(|(_, score)| score.is_nan()) {
        return Err(Error::Score { id, token: vocab.text(id).to_owned() });
    }
    let mut ids: Vec<u32> = vocab.ids().collect();
    ids.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
    let mut ranks = vec![0; scores.len()];
    let mut rank = 0;
    for pair in ids.windows(2) {
        let (before, id) = (pair[0] as usize, pair[1] as usize);
        // `-0.0` and `0.0` are one score here although `total_cmp` tells them apart.
        rank += u32::from(scores[before] != scores[id]);
        ranks[id] = rank;
    }
    Ok(ranks)
}

/// Spaces as `▁`, and one more at the front if `prefix`.
pub(crate) fn with_visible_spaces(text: &[u8], prefix: bool) -> Vec<u8> {
    let n_spaces = text.iter().filter(|&&byte| byte == b' ').count() + usize::from(prefix);
    let mut visible = Vec::with_capacity(text.len() + n_spaces * (SPACE.len() - 1) + usize::from(prefix));
    if prefix {
        visible.extend_from_slice(SPACE.as_bytes());
    }
    for &byte in text {
        match byte {
            b' ' => visible.extend_from_slice(SPACE.as_bytes()),
            _ => visible.push(byte),
        }
    }
    visible
}

/// Visits start and end of each character; a byte that belongs to none stands alone.
pub(crate) fn for_each_character(text: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut start = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            visit(start, start + c.len_utf8());
            start += c.len_utf8();
        }
        for _ in chunk.invalid() {
            visit(start, start + 1);
            start += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{for_each_character, with_visible_spaces};

    #[test]
    fn spaces_become_visible() {
        assert_eq!(with_visible_spaces(b"a b  c", false), "a▁b▁▁c".as_bytes());
        assert_eq!(with_visible_spaces(b"a b", true), "▁a▁b".as_bytes());
        assert_eq!(with_visible_spaces(b"", true), "▁".as_bytes());
    }

    #[test]
    fn bytes_outside_characters_stand_alone() {
        let mut seen = Vec::new();
        for_each_character(b"a\xe2\x82b\xc3\xa9\xff", |start, end| seen.push((start, end)));
        assert_eq!(seen, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7)]);
    }
}
