//! Ids to text, all at once or one by one.
//!
//! A token may end inside a character. [`DecodeStream`] holds such bytes back until the character is whole, so that what it
//! gives out is always text, and all of it together is what [`Tokenizer::decode`] gives.

use crate::Tokenizer;
use std::borrow::Borrow;

/// How to decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeOptions {
    /// Write control tokens as they are spelled instead of leaving them out.
    pub render_special: bool,
    /// The ids go on from a text before them. Otherwise, in vocabularies where encoding puts a space before a text, that
    /// space is taken away again.
    pub continues: bool,
}

/// Decodes ids one by one. `T` is a tokenizer by reference or in an `Arc`.
#[derive(Debug)]
pub struct DecodeStream<T> {
    tokenizer: T,
    options: DecodeOptions,
    leading_space: LeadingSpace,
    /// The beginning of a character, at most three bytes between two pushes.
    pending: Vec<u8>,
    /// What the last push gave out.
    text: String,
}

/// The space that encoding put before a text.
#[derive(Debug)]
struct LeadingSpace {
    /// It may still come.
    awaited: bool,
}

impl Tokenizer {
    /// The text of ids. Bytes that are no UTF-8 become U+FFFD; ids beyond the vocabulary are no text.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut leading_space = LeadingSpace::new(self, options);
        for &id in ids {
            bytes.extend_from_slice(leading_space.strip(self.shown_piece(id, options)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// Decodes ids one by one, as they are generated.
    pub fn decode_stream(&self, options: DecodeOptions) -> DecodeStream<&Self> {
        DecodeStream::new(self, options)
    }
}

impl<T: Borrow<Tokenizer>> DecodeStream<T> {
    /// A stream at its beginning.
    pub fn new(tokenizer: T, options: DecodeOptions) -> Self {
        let leading_space = LeadingSpace::new(tokenizer.borrow(), options);
        Self { tokenizer, options, leading_space, pending: Vec::new(), text: String::new() }
    }

    /// Takes the next id and gives out the text that it completes: `None` for a control token, or inside a character.
    pub fn push(&mut self, id: u32) -> Option<&str> {
        let piece = self.tokenizer.borrow().shown_piece(id, self.options);
        self.pending.extend_from_slice(self.leading_space.strip(piece));
        self.text.clear();
        take_text(&mut self.pending, &mut self.text);
        (!self.text.is_empty()).then_some(self.text.as_str())
    }

    /// Ends the stream. A character that never became whole is given out as U+FFFD.
    pub fn finish(self) -> Option<&'static str> {
        (!self.pending.is_empty()).then_some("\u{FFFD}")
    }
}

impl LeadingSpace {
    fn new(tokenizer: &Tokenizer, options: DecodeOptions) -> Self {
        Self { awaited: tokenizer.adds_space_prefix() && !options.continues }
    }

    /// Takes the space off the first piece that is not empty.
    fn strip<'p>(&mut self, piece: &'p [u8]) -> &'p [u8] {
        if !self.awaited || piece.is_empty() {
            return piece;
        }
        self.awaited = false;
        piece.strip_prefix(b" ").unwrap_or(piece)
    }
}

/// Moves whole characters from the front of `bytes` to `text`, with U+FFFD for what can be none. What remains in `bytes`
/// is the beginning of a character.
fn take_text(bytes: &mut Vec<u8>, text: &mut String) {
    let mut done = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        done += chunk.valid().len();
        let invalid = chunk.invalid();
        let unfinished = done + invalid.len() == bytes.len()
            && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if !invalid.is_empty() && !unfinished {
            text.push('\u{FFFD}');
            done += invalid.len();
        }
    }
    bytes.drain(..done);
}

#[cfg(test)]
mod tests {
    use super::take_text;

    /// Feeds bytes in the given portions and gives back what came out after each.
    fn feed(portions: &[&[u8]]) -> Vec<String> {
        let mut pending = Vec::new();
        let take = |portion: &&[u8]| {
            pending.extend_from_slice(portion);
            let mut text = String::new();
            take_text(&mut pending, &mut text);
            text
        };
        portions.iter().map(take).collect()
    }

    #[test]
    fn characters_come_out_whole() {
        assert_eq!(feed(&[b"a\xf0", b"\x9f", b"\x98", b"\x80b"]), ["a", "", "", "😀b"]);
        assert_eq!(feed(&[b"\xc3", b"\xa9\xc3", b"\xa9"]), ["", "é", "é"]);
    }

    #[test]
    fn what_can_be_no_character_is_replaced_at_once() {
        assert_eq!(feed(&[b"\xff", b"a"]), ["\u{fffd}", "a"]);
        assert_eq!(feed(&[b"\xe2\x82", b"a"]), ["", "\u{fffd}a"]);
        assert_eq!(feed(&[b"\xe2", b"\xe2\x82", b"\xac"]), ["", "\u{fffd}", "€"]);
        // A surrogate's second byte already cannot follow its first.
        assert_eq!(feed(&[b"\xed", b"\xa0", b"\x80"]), ["", "\u{fffd}\u{fffd}", "\u{fffd}"]);
    }
}
