//! A template's source, made ready for the engine: what the engine lacks is put in, what it does not bound is bounded.
//!
//! The source is cut into tags by the engine's own rules and copied, except that
//! - `{% generation %}`, a mark for training that the reference knows, becomes `{% with %}`, which has the same scope;
//! - the value of `{% set … = … %}` passes through a filter of `keep`. Values live from one turn of a loop to the next only
//!   in variables, so this is where nesting can grow without a bound on the stack that it takes to drop them.
//!
//! Two things that the engine would follow by recursion are counted: the tokens of a tag, and `elif` branches. Lines stay
//! where they are, so that the engine's errors name the author's lines.

use super::keep;
use super::{Error, Limit};
use std::collections::HashSet;
use std::ops::Range;

/// The most tokens in one tag. The longest known in published templates is 45.
const TAG_TOKENS_MAX: usize = 500;
/// The most `elif` tags.
const BRANCHES_MAX: usize = 250;

/// A source that the engine may read.
pub(super) struct Prepared {
    /// The rewritten source.
    pub(super) text: String,
    /// The words among the template's string literals, in lower case: those that it may compare with what it is given.
    pub(super) words: HashSet<String>,
}

/// Rewrites `source`. Errors of syntax inside of tags are left for the engine to find, if the tags themselves are whole.
pub(super) fn prepare(source: &str) -> Result<Prepared, Error> {
    let mut scanner = Scanner { source, copied: 0, text: String::with_capacity(source.len()), words: HashSet::new(), n_branches: 0 };
    let mut at = 0;
    while let Some((begin, marker)) = next_marker(source, at) {
        at = scanner.construct(begin, marker)?;
    }
    scanner.copy_to(source.len());
    Ok(Prepared { text: scanner.text, words: scanner.words })
}

/// Whether a text is one plain word, as identifiers and the fixed values of a protocol are.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

struct Scanner<'a> {
    source: &'a str,
    /// The bytes of `source` that `text` has already.
    copied: usize,
    text: String,
    words: HashSet<String>,
    n_branches: usize,
}

/// What of a tag matters here.
#[derive(Default)]
struct Tag {
    /// Its first token.
    name: Range<usize>,
    /// The place of the first `=` outside of brackets.
    assign: Option<usize>,
    /// Whether a `.` stands before that.
    dotted: bool,
    n_tokens: usize,
    /// The place of the end marker, with its `-` or `+`.
    end: usize,
    /// The place behind the end marker.
    after: usize,
}

impl Scanner<'_> {
    /// Handles what begins at `begin`; the place behind it.
    fn construct(&mut self, begin: usize, marker: u8) -> Result<usize, Error> {
        let inner = begin + 2 + usize::from(matches!(self.source.as_bytes().get(begin + 2), Some(b'-' | b'+')));
        match marker {
            b'#' => match self.source[inner..].find("#}") {
                Some(length) => Ok(inner + length + 2),
                None => Err(self.syntax(begin, "this comment does not end")),
            },
            b'{' => Ok(self.tag(inner, "}}")?.after),
            _ => match bare_tag(self.source, inner, "raw", false) {
                Some(after) => self.raw(after).ok_or_else(|| self.syntax(begin, "this raw block does not end")),
                None => self.block(inner),
            },
        }
    }

    /// The place behind the end of a raw block, whose text is no code.
    fn raw(&self, mut at: usize) -> Option<usize> {
        loop {
            at += self.source[at..].find("{%")? + 2;
            if let Some(after) = bare_tag(self.source, at, "endraw", true) {
                return Some(after);
            }
        }
    }

    /// Handles a block tag whose inside begins at `inner`.
    fn block(&mut self, inner: usize) -> Result<usize, Error> {
        let tag = self.tag(inner, "%}")?;
        match &self.source[tag.name.clone()] {
            "set" => self.keep_value(&tag),
            "generation" if tag.n_tokens == 1 => self.replace(tag.name, "with"),
            "endgeneration" if tag.n_tokens == 1 => self.replace(tag.name, "endwith"),
            "elif" => {
                self.n_branches += 1;
                if self.n_branches > BRANCHES_MAX {
                    return Err(self.limit(inner, Limit::Branches, BRANCHES_MAX));
                }
            }
            _ => {}
        }
        Ok(tag.after)
    }

    /// Puts the filter that bounds it behind the value of an assignment.
    fn keep_value(&mut self, tag: &Tag) {
        let Some(assign) = tag.assign else { return };
        self.copy_to(assign + 1);
        self.text.push('(');
        self.copy_to(tag.end);
        self.text.push_str(")|");
        self.text.push_str(if tag.dotted { keep::IN_NAMESPACE } else { keep::IN_VARIABLE });
        self.text.push(' ');
    }

    fn replace(&mut self, range: Range<usize>, with: &str) {
        self.copy_to(range.start);
        self.text.push_str(with);
        self.copied = range.end;
    }

    fn copy_to(&mut self, end: usize) {
        self.text.push_str(&self.source[self.copied..end]);
        self.copied = end;
    }

    fn limit(&self, at: usize, what: Limit, limit: usize) -> Error {
        Error::Limit { line: Some(self.line(at)), what, limit: limit as u64 }
    }

    fn syntax(&self, at: usize, reason: &str) -> Error {
        Error::Syntax { line: self.line(at), reason: reason.to_owned() }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.source[..at].matches('\n').count()
    }

    /// Reads a tag up to `end_marker`, which counts only outside of brackets.
    fn tag(&mut self, inner: usize, end_marker: &str) -> Result<Tag, Error> {
        let bytes = self.source.as_bytes();
        let mut tag = Tag::default();
        let mut n_open = 0_usize;
        let mut at = inner;
        loop {
            let Some(&byte) = bytes.get(at) else { return Err(self.syntax(inner, "this tag does not end")) };
            if byte.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            if n_open == 0 {
                let marker = at + usize::from(matches!(byte, b'-' | b'+'));
                if self.source.get(marker..).is_some_and(|rest| rest.starts_with(end_marker)) {
                    (tag.end, tag.after) = (at, marker + end_marker.len());
                    return Ok(tag);
                }
            }
            let Some(token) = self.token(at) else { return Err(self.syntax(at, "this is no token")) };
            match byte {
                b'(' | b'[' | b'{' => n_open += 1,
                b')' | b']' | b'}' if n_open == 0 => return Err(self.syntax(at, "this bracket was not opened")),
                b')' | b']' | b'}' => n_open -= 1,
                b'=' if token.len() == 1 && n_open == 0 => tag.assign = tag.assign.or(Some(at)),
                b'.' => tag.dotted |= tag.assign.is_none(),
                _ => {}
            }
            if tag.n_tokens == 0 {
                tag.name = token.clone();
            }
            tag.n_tokens += 1;
            if tag.n_tokens > TAG_TOKENS_MAX {
                return Err(self.limit(at, Limit::TagTokens, TAG_TOKENS_MAX));
            }
            at = token.end;
        }
    }

    /// The token at `at`; the words among string literals are noted. `None` for what no token begins with.
    fn token(&mut self, at: usize) -> Option<Range<usize>> {
        let rest = &self.source[at..];
        let first = rest.as_bytes()[0];
        let length = match first {
            _ if ["//", "**", "==", "!=", ">=", "<="].iter().any(|operator| rest.starts_with(operator)) => 2,
            b'\'' | b'"' => {
                let length = string_length(rest.as_bytes())?;
                let literal = &rest[1..length - 1];
                if is_word(literal) {
                    self.words.insert(literal.to_ascii_lowercase());
                }
                length
            }
            b'0'..=b'9' => rest.bytes().take_while(u8::is_ascii_digit).count(),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                rest.bytes().take_while(|&byte| byte == b'_' || byte.is_ascii_alphanumeric()).count()
            }
            _ if first.is_ascii() => 1,
            _ => return None,
        };
        Some(at..at + length)
    }
}

/// The next place from `at` where a tag or a comment begins, and the second byte of its marker.
fn next_marker(source: &str, at: usize) -> Option<(usize, u8)> {
    let bytes = source.as_bytes();
    let rest = bytes.get(at..)?.windows(2);
    let begin = at + rest.into_iter().position(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'))?;
    Some((begin, bytes[begin + 1]))
}

/// The place behind a tag that is nothing but `name`, if its inside begins at `inner`.
fn bare_tag(source: &str, inner: usize, name: &str, has_sign: bool) -> Option<usize> {
    let mut rest = &source[inner..];
    if has_sign {
        rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    }
    let is_space = |c: char| c.is_ascii_whitespace();
    rest = rest.trim_start_matches(is_space).strip_prefix(name)?.trim_start_matches(is_space);
    rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).strip_prefix("%}")?;
    Some(source.len() - rest.len())
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
    use super::{BRANCHES_MAX, TAG_TOKENS_MAX, prepare};
    use crate::chat_template::{Error, Limit};

    #[test]
    fn assignments_pass_through_a_filter_and_the_rest_stays() {
        for (source, expected) in [
            ("a{% set x = 1 %}b", "a{% set x =( 1 )|__kept %}b"),
            ("{%- set n.x = a == b -%}", "{%- set n.x =( a == b )|__kept_in_namespace -%}"),
            ("{% set a, b = {'c': '%}'}, 2\n+%}", "{% set a, b =( {'c': '%}'}, 2\n)|__kept +%}"),
            ("{% set x %}{{ {'a': {}} }}{% endset %}", "{% set x %}{{ {'a': {}} }}{% endset %}"),
            ("{# {% set x = 1 %} #}{% raw %}{% set x = 1 %}{%- endraw %}", "{# {% set x = 1 %} #}{% raw %}{% set x = 1 %}{%- endraw %}"),
            ("{%- generation -%}x{% endgeneration %}", "{%- with -%}x{% endwith %}"),
            ("{% if generation %}{% endif %} { { {{ 'a' }}", "{% if generation %}{% endif %} { { {{ 'a' }}"),
        ] {
            assert_eq!(prepare(source).unwrap().text, expected);
        }
    }

    #[test]
    fn a_broken_tag_is_named() {
        for source in ["\n{{ 'a' }", "\n{{ a) }}", "\n{# a", "\n{% raw %}{% endraw", "\n{{ 'a }}", "\n{{ ü }}", "\n{% set x = ("] {
            assert!(matches!(prepare(source), Err(Error::Syntax { line: 2, .. })), "{source}");
        }
    }

    #[test]
    fn words_are_those_of_string_literals() {
        let words = prepare("{{ a['Role'] == \"<x>\" or 'two words' }}{# 'c' #}{% if 'STRING' in b %}'d'").unwrap().words;
        let mut words: Vec<_> = words.iter().map(String::as_str).collect();
        words.sort_unstable();
        assert_eq!(words, ["role", "string"]);
    }

    #[test]
    fn what_the_engine_follows_by_recursion_is_counted() {
        let sum = |n: usize| format!("\n{{{{ 1{} }}}}", "+1".repeat(n));
        assert!(prepare(&sum(TAG_TOKENS_MAX / 2 - 1)).is_ok());
        let result = prepare(&sum(TAG_TOKENS_MAX));
        assert!(matches!(result, Err(Error::Limit { line: Some(2), what: Limit::TagTokens, .. })));
        let branches = |n: usize| format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(n));
        assert!(prepare(&branches(BRANCHES_MAX)).is_ok());
        let result = prepare(&branches(BRANCHES_MAX + 1));
        assert!(matches!(result, Err(Error::Limit { what: Limit::Branches, .. })));
    }
}
