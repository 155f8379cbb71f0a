//! Marks around text from outside: two private characters that travel through a template with the text they enclose.
//!
//! [`OPEN`] and [`CLOSE`] are Unicode noncharacters, which no text that is meant for exchange contains; what a client
//! sends is cleaned of them first. [`Marked`] is a string seen as a template should see it, without marks, that can be cut
//! with the marks put back. Where strings are cut is decided in `strings`; which strings are marked, in `values`.

use crate::Part;
use std::borrow::Cow;
use std::ops::Range;

/// Begins text from outside.
pub(super) const OPEN: char = '\u{FDD0}';
/// Ends it.
pub(super) const CLOSE: char = '\u{FDD1}';

const MARKS: [char; 2] = [OPEN, CLOSE];

/// The text without marks.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(MARKS) { Cow::Owned(text.replace(MARKS, "")) } else { Cow::Borrowed(text) }
}

/// The text with any mark in it made visible as the replacement character, so that nobody can forge a mark.
pub(super) fn cleaned(text: &str) -> Cow<'_, str> {
    if text.contains(MARKS) { Cow::Owned(text.replace(MARKS, "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

/// The text between marks; nothing stays nothing, so that a template finds an empty string empty.
pub(super) fn enclosed(text: &str) -> String {
    let mut marked = String::with_capacity(text.len() + OPEN.len_utf8() + CLOSE.len_utf8());
    push_enclosed(text, &mut marked);
    marked
}

/// Appends the text between marks.
pub(super) fn push_enclosed(text: &str, out: &mut String) {
    if !text.is_empty() {
        out.push(OPEN);
        out.push_str(text);
        out.push(CLOSE);
    }
}

/// A string without its marks, and where they stood.
pub(super) struct Marked<'a> {
    text: Cow<'a, str>,
    /// Byte ranges of `text` from outside: in order, apart from each other, not empty.
    outside: Vec<Range<usize>>,
}

impl<'a> Marked<'a> {
    /// Takes the marks out. A mark without its partner reaches to the string's end, or from its beginning, so that a string
    /// that was cut by other means than ours rather counts too much than too little as from outside.
    pub(super) fn read(marked: &'a str) -> Marked<'a> {
        if !marked.contains(MARKS) {
            return Marked { text: Cow::Borrowed(marked), outside: Vec::new() };
        }
        let mut text = String::with_capacity(marked.len());
        let mut outside = Vec::new();
        let mut begin = if first_mark(marked) == Some(CLOSE) { Some(0) } else { None };
        for piece in marked.split_inclusive(MARKS) {
            text.push_str(piece.trim_end_matches(MARKS));
            if piece.ends_with(OPEN) {
                begin = begin.or(Some(text.len()));
            } else if piece.ends_with(CLOSE) {
                push_range(&mut outside, begin.take(), text.len());
            }
        }
        push_range(&mut outside, begin, text.len());
        Marked { text: Cow::Owned(text), outside }
    }

    /// The text without marks.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A part of the text, marked as it was.
    pub(super) fn slice(&self, range: Range<usize>) -> String {
        let mut out = String::with_capacity(range.len() + 8);
        let mut at = range.start;
        let first = self.outside.partition_point(|span| span.end <= range.start);
        for span in self.outside[first..].iter().take_while(|span| span.start < range.end) {
            let (start, end) = (span.start.max(range.start), span.end.min(range.end));
            out.push_str(&self.text[at..start]);
            push_enclosed(&self.text[start..end], &mut out);
            at = end;
        }
        out.push_str(&self.text[at..range.end]);
        out
    }

    /// Every stretch of one origin through `change`, marked as it was.
    pub(super) fn map(&self, mut change: impl FnMut(&str) -> String) -> String {
        let mut out = String::with_capacity(self.text.len());
        let mut at = 0;
        for span in &self.outside {
            out.push_str(&change(&self.text[at..span.start]));
            push_enclosed(&change(&self.text[span.clone()]), &mut out);
            at = span.end;
        }
        out.push_str(&change(&self.text[at..]));
        out
    }

    /// The text and the ranges of it that came from outside, if every mark has its partner; `None` if some were lost.
    pub(super) fn read_strictly(marked: &'a str) -> Option<(String, Vec<Range<usize>>)> {
        let mut inside = false;
        for mark in marked.matches(MARKS) {
            if mark.starts_with(OPEN) == inside {
                return None;
            }
            inside = !inside;
        }
        let read = Self::read(marked);
        (!inside).then(|| (read.text.into_owned(), read.outside))
    }
}

/// Cuts `text` at the bounds of `outside`.
pub(super) fn parts<'a>(text: &'a str, outside: &'a [Range<usize>]) -> impl Iterator<Item = Part<'a>> {
    let mut at = 0;
    let last = text.len()..text.len();
    outside
        .iter()
        .cloned()
        .chain([last])
        .flat_map(move |span| {
            let trusted = Part { text: &text[at..span.start], trusted: true };
            at = span.end;
            [trusted, Part { text: &text[span], trusted: false }]
        })
        .filter(|part| !part.text.is_empty())
}

fn first_mark(text: &str) -> Option<char> {
    text.chars().find(|c| MARKS.contains(c))
}

/// Adds a range, joined with the one before where they touch.
fn push_range(ranges: &mut Vec<Range<usize>>, begin: Option<usize>, end: usize) {
    let Some(begin) = begin.filter(|&begin| begin < end) else { return };
    match ranges.last_mut() {
        Some(last) if last.end == begin => last.end = end,
        _ => ranges.push(begin..end),
    }
}

#[cfg(test)]
mod tests {
    use super::{CLOSE, Marked, OPEN, cleaned, enclosed, parts, plain};

    /// Marks written as brackets.
    fn marked(text: &str) -> String {
        text.replace('[', &OPEN.to_string()).replace(']', &CLOSE.to_string())
    }

    #[test]
    fn slices_keep_their_marks() {
        let source = marked("ab[cd]ef[gh]");
        let read = Marked::read(&source);
        assert_eq!(read.text(), "abcdefgh");
        for (range, expected) in [(0..8, "ab[cd]ef[gh]"), (3..7, "[d]ef[g]"), (0..2, "ab"), (2..4, "[cd]"), (4..4, "")]
        {
            assert_eq!(read.slice(range), marked(expected));
        }
    }

    #[test]
    fn a_lost_partner_widens_what_is_from_outside() {
        for (source, expected) in
            [("ab[cd", "ab[cd]"), ("ab]cd", "[ab]cd"), ("][", ""), ("[a[b]c", "[ab]c"), ("[a][b]", "[ab]")]
        {
            let source = marked(source);
            let read = Marked::read(&source);
            assert_eq!(read.slice(0..read.text().len()), marked(expected), "{source:?}");
        }
    }

    #[test]
    fn only_whole_marks_are_accepted_in_the_end() {
        for source in ["a[b", "a]b", "[[a]]", "]a[", "[a][", "[a]]"] {
            assert!(Marked::read_strictly(&marked(source)).is_none(), "{source}");
        }
        let (text, outside) = Marked::read_strictly(&marked("a[b]c[]d[e]")).unwrap();
        assert_eq!((text.as_str(), &outside[..]), ("abcde", &[1..2, 4..5][..]));
        let parts: Vec<_> = parts(&text, &outside).map(|part| (part.text, part.trusted)).collect();
        assert_eq!(parts, [("a", true), ("b", false), ("cd", true), ("e", false)]);
    }

    #[test]
    fn marks_cannot_be_forged_and_nothing_stays_nothing() {
        assert_eq!(cleaned(&marked("a]b[")), "a\u{FFFD}b\u{FFFD}");
        assert_eq!(enclosed(""), "");
        assert_eq!(plain(&enclosed("x")), "x");
    }
}
