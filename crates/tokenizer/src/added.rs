//! Tokens that are found in text before anything else: user-defined ones always, control tokens where they are trusted.
//!
//! At each place the longest token is taken, as in the models' own tokenizers. Whether a control token counts depends on
//! where it stands: text that a user typed must not be able to end the user's turn.

use crate::Error;
use crate::control;
use crate::vocab::{TokenKind, Vocab};
use aho_corasick::{AhoCorasick, Input, MatchKind};
use std::ops::Range;

/// Bytes of all added tokens of one kind together. Real vocabularies have some 100 KB; the matcher takes about 30 times as much memory.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// Finds added tokens in text.
#[derive(Debug)]
pub(crate) struct AddedTokens {
    user_defined: Matcher,
    control: Matcher,
}

/// A stretch of text between added tokens, or one of them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fragment {
    /// Bytes of the text.
    Text(Range<usize>),
    /// An added token.
    Token(u32),
}

#[derive(Debug)]
struct Matcher {
    /// `None` when there is nothing to find.
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

/// An added token at a place.
#[derive(Clone, Debug)]
struct Found {
    range: Range<usize>,
    id: u32,
}

impl AddedTokens {
    /// Takes the user-defined, control and unknown tokens of a vocabulary.
    pub(crate) fn new(vocab: &Vocab) -> Result<Self, Error> {
        Ok(Self {
            user_defined: Matcher::new(vocab, |id| vocab.kind(id) == TokenKind::UserDefined)?,
            control: Matcher::new(vocab, |id| control::needs_trust(vocab, id))?,
        })
    }

    /// Cuts `text` into fragments. Control tokens count only where they lie within one of the `trusted` ranges, which are
    /// sorted and apart from each other.
    pub(crate) fn split(&self, text: &[u8], trusted: &[Range<usize>], mut visit: impl FnMut(Fragment)) {
        let mut at = 0;
        let mut user_defined = self.user_defined.find(text, at..text.len());
        let mut control = self.control.find_within(text, at, trusted);
        while let Some(found) = first_and_longest(&user_defined, &control) {
            if at < found.range.start {
                visit(Fragment::Text(at..found.range.start));
            }
            visit(Fragment::Token(found.id));
            at = found.range.end;
            if user_defined.as_ref().is_some_and(|found| found.range.start < at) {
                user_defined = self.user_defined.find(text, at..text.len());
            }
            if control.as_ref().is_some_and(|found| found.range.start < at) {
                control = self.control.find_within(text, at, trusted);
            }
        }
        if at < text.len() {
            visit(Fragment::Text(at..text.len()));
        }
    }
}

fn first_and_longest(a: &Option<Found>, b: &Option<Found>) -> Option<Found> {
    let order = |found: &&Found| (found.range.start, std::cmp::Reverse(found.range.end));
    a.iter().chain(b).min_by_key(order).cloned()
}

impl Matcher {
    fn new(vocab: &Vocab, found: impl Fn(u32) -> bool) -> Result<Self, Error> {
        let ids: Vec<u32> = vocab.ids().filter(|&id| found(id) && !vocab.text(id).is_empty()).collect();
        let bytes = ids.iter().map(|&id| vocab.text(id).len()).sum();
        if bytes > TEXT_BYTES_MAX {
            let what = "the size of all added tokens in bytes";
            return Err(Error::Limit { what, got: bytes, limit: TEXT_BYTES_MAX });
        }
        if ids.is_empty() {
            return Ok(Self { automaton: None, ids });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(ids.iter().map(|&id| vocab.text(id)))
            .expect("the limit on their size keeps the number of states in range");
        Ok(Self { automaton: Some(automaton), ids })
    }

    /// The first token that lies within `range`, and the longest there.
    fn find(&self, text: &[u8], range: Range<usize>) -> Option<Found> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(range))?;
        Some(Found { range: found.range(), id: self.ids[found.pattern().as_usize()] })
    }

    /// The same within any of `ranges`, from `at` on.
    fn find_within(&self, text: &[u8], at: usize, ranges: &[Range<usize>]) -> Option<Found> {
        let later = &ranges[ranges.partition_point(|range| range.end <= at)..];
        later.iter().find_map(|range| self.find(text, range.start.max(at)..range.end))
    }
}
