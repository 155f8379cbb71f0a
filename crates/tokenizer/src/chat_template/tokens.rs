//! The tokens between a pair of braces.
//!
//! The rules are Jinja's, which the engine shares. A tag ends at its end marker outside of brackets.

use super::{Error, Limit};
use std::ops::Range;

/// The most tokens in one tag. The longest known in published templates has 45.
const TAG_TOKENS_MAX: usize = 500;
/// The most brackets open at once in a tag.
const BRACKETS_MAX: usize = 40;

/// The operators of two characters.
const PAIRS: [&str; 6] = ["//", "**", "==", "!=", ">=", "<="];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Name,
    Number,
    Text,
    Operator,
}

/// A token: a place in the source, and what stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

/// The inside of a tag.
pub(super) struct Tag {
    pub(super) tokens: Vec<Token>,
    /// The place of the end marker, with its `-` or `+`.
    pub(super) end: usize,
    /// The place behind the end marker.
    pub(super) after: usize,
}

/// Reads the tag whose inside begins at `inner`.
pub(super) fn read(source: &str, inner: usize, end_marker: &str) -> Result<Tag, Error> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut n_open = 0_usize;
    let mut at = inner;
    loop {
        let Some(&byte) = source.as_bytes().get(at) else { return Err(syntax(source, inner, "this tag does not end")) };
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if n_open == 0 {
            let marker = at + usize::from(matches!(byte, b'-' | b'+'));
            if source.get(marker..).is_some_and(|rest| rest.starts_with(end_marker)) {
                return Ok(Tag { tokens, end: at, after: marker + end_marker.len() });
            }
        }
        let after_dot = tokens.last().is_some_and(|token| &source[token.range.clone()] == ".");
        let Some((kind, length)) = token(&source[at..], after_dot) else {
            return Err(syntax(source, at, "this is no token"));
        };
        match byte {
            b'(' | b'[' | b'{' => n_open += 1,
            b')' | b']' | b'}' if n_open == 0 => return Err(syntax(source, at, "this bracket was not opened")),
            b')' | b']' | b'}' => n_open -= 1,
            _ => {}
        }
        tokens.push(Token { kind, range: at..at + length });
        for (count, what, max) in
            [(tokens.len(), Limit::TagTokens, TAG_TOKENS_MAX), (n_open, Limit::Brackets, BRACKETS_MAX)]
        {
            if count > max {
                return Err(Error::Limit { line: Some(line(source, at)), what, limit: max as u64 });
            }
        }
        at += length;
    }
}

/// The line of a place, from 1.
pub(super) fn line(source: &str, at: usize) -> usize {
    1 + source[..at].matches('\n').count()
}

pub(super) fn syntax(source: &str, at: usize, reason: &str) -> Error {
    Error::Syntax { line: line(source, at), reason: reason.to_owned() }
}

/// The kind and length of the token that `rest` begins with.
fn token(rest: &str, after_dot: bool) -> Option<(Kind, usize)> {
    let bytes = rest.as_bytes();
    let word = |from: usize| {
        from + bytes[from..].iter().take_while(|&&byte| byte == b'_' || byte.is_ascii_alphanumeric()).count()
    };
    Some(match bytes[0] {
        b'\'' | b'"' => (Kind::Text, string_length(bytes)?),
        b'0'..=b'9' => (Kind::Number, number_length(bytes, after_dot)),
        b'_' | b'a'..=b'z' | b'A'..=b'Z' => (Kind::Name, word(0)),
        _ if PAIRS.iter().any(|pair| rest.starts_with(pair)) => (Kind::Operator, 2),
        b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b',' | b':' | b'~' | b'|' | b'=' | b'<' | b'>' => (Kind::Operator, 1),
        b'(' | b')' | b'[' | b']' | b'{' | b'}' => (Kind::Operator, 1),
        _ => return None,
    })
}

/// The length of a number: digits, then, unless it stands behind a dot, a fraction and an exponent.
fn number_length(bytes: &[u8], after_dot: bool) -> usize {
    let digits =
        |from: usize| from + bytes[from..].iter().take_while(|&&byte| byte == b'_' || byte.is_ascii_digit()).count();
    if bytes[0] == b'0' && matches!(bytes.get(1), Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B')) {
        return 2 + bytes[2..].iter().take_while(|&&byte| byte == b'_' || byte.is_ascii_hexdigit()).count();
    }
    let mut length = digits(0);
    if after_dot {
        return length;
    }
    if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length = digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        if bytes.get(length + 1 + sign).is_some_and(u8::is_ascii_digit) {
            length = digits(length + 1 + sign);
        }
    }
    length
}

/// The length of the string literal that `bytes` begin with, quotes included; `None` if it does not end.
fn string_length(bytes: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    for (place, &byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            _ if byte == bytes[0] => return Some(place + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{TAG_TOKENS_MAX, read};
    use crate::chat_template::{Error, Limit};

    #[test]
    fn a_tag_ends_outside_of_brackets_and_texts() {
        for (source, end_marker, expected) in [
            (" a.b|c('}}') }}x", "}}", vec!["a", ".", "b", "|", "c", "(", "'}}'", ")"]),
            (" {'a': {}}-}}", "}}", vec!["{", "'a'", ":", "{", "}", "}"]),
            ("if 1.5e3 >= x.0.1 ** 0x1F +%}", "%}", vec!["if", "1.5e3", ">=", "x", ".", "0", ".", "1", "**", "0x1F"]),
            ("set x = 1_0 % 2%}", "%}", vec!["set", "x", "=", "1_0", "%", "2"]),
            ("\"a\\\"b\"~'\n'}}", "}}", vec!["\"a\\\"b\"", "~", "'\n'"]),
            ("1.a}}", "}}", vec!["1", ".", "a"]),
        ] {
            let tag = read(source, 0, end_marker).unwrap();
            let tokens: Vec<_> = tag.tokens.iter().map(|token| &source[token.range.clone()]).collect();
            assert_eq!(tokens, expected, "{source}");
            assert!(source[..tag.after].ends_with(end_marker));
        }
    }

    #[test]
    fn a_broken_tag_is_named() {
        for source in ["\n'a' }", "\na) }}", "\n'a }}", "\nü }}", "\nx = (", "\n(}}", "\n!"] {
            let result = read(source, 0, "}}");
            assert!(matches!(result, Err(Error::Syntax { line: 1 | 2, .. })), "{source}");
        }
    }

    #[test]
    fn tokens_and_brackets_are_counted() {
        let sum = |n: usize| format!("\n1{}}}}}", "+1".repeat(n));
        assert!(read(&sum(TAG_TOKENS_MAX / 2 - 1), 0, "}}").is_ok());
        assert!(matches!(
            read(&sum(TAG_TOKENS_MAX), 0, "}}"),
            Err(Error::Limit { line: Some(2), what: Limit::TagTokens, .. })
        ));
        assert!(matches!(read(&"[".repeat(99), 0, "}}"), Err(Error::Limit { what: Limit::Brackets, .. })));
    }
}
