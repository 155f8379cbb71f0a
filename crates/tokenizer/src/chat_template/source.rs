//! A template's source, written anew for the engine.
//!
//! Text between tags stays as it is. In tags, statements keep their form and expressions are written by `expression`, so that
//! every value a template makes passes through our functions. What the engine lacks is put in: `{% generation %}`, a mark for
//! training that the reference knows, becomes `{% with %}`, which has the same scope. `elif` branches are counted, because
//! the engine follows them by recursion. Lines stay where they are, so that the engine's errors name the author's lines.

use super::expression::Writer;
use super::tokens::{self, line, syntax};
use super::{Error, Limit};

/// The most `elif` tags.
const BRANCHES_MAX: usize = 250;

/// Writes `source` for the engine, with line breaks of one kind, as Jinja reads them.
pub(super) fn rewrite(source: &str) -> Result<String, Error> {
    if source.contains('\r') {
        return rewrite(&source.replace("\r\n", "\n").replace('\r', "\n"));
    }
    let mut text = String::with_capacity(2 * source.len());
    let mut n_branches = 0;
    let mut at = 0;
    while let Some((begin, marker)) = next_marker(source, at) {
        text.push_str(&source[at..begin]);
        let inner = begin + 2 + usize::from(matches!(source.as_bytes().get(begin + 2), Some(b'-' | b'+')));
        at = match marker {
            b'#' => {
                let length =
                    source[inner..].find("#}").ok_or_else(|| syntax(source, begin, "this comment does not end"))?;
                text.push_str(&source[begin..inner + length + 2]);
                inner + length + 2
            }
            b'%' if let Some(after) = bare_tag(source, inner, "raw", false) => {
                let end =
                    end_of_raw(source, after).ok_or_else(|| syntax(source, begin, "this raw block does not end"))?;
                text.push_str(&source[begin..end]);
                end
            }
            _ => {
                let tag = tokens::read(source, inner, if marker == b'{' { "}}" } else { "%}" })?;
                let mut writer = Writer::new(source, &tag.tokens, inner, tag.end);
                text.push_str(&source[begin..inner]);
                text.push(' ');
                if marker == b'{' {
                    text.push_str(&writer.tuple()?);
                } else {
                    n_branches += usize::from(writer.is_next("elif"));
                    if n_branches > BRANCHES_MAX {
                        let limit = BRANCHES_MAX as u64;
                        return Err(Error::Limit { line: Some(line(source, begin)), what: Limit::Branches, limit });
                    }
                    text.push_str(&statement(&mut writer)?);
                }
                text.push_str(&writer.finish()?);
                text.push(' ');
                text.push_str(&source[tag.end..tag.after]);
                tag.after
            }
        };
    }
    text.push_str(&source[at..]);
    Ok(text)
}

/// Writes the inside of a block tag.
fn statement(writer: &mut Writer<'_>) -> Result<String, Error> {
    let keyword = writer.name()?;
    let name = keyword.trim_start().to_owned();
    Ok(match name.as_str() {
        "if" | "elif" => keyword + " " + &writer.tuple()?,
        "else" | "endif" | "endfor" | "endset" | "endwith" | "endmacro" | "endcall" | "endfilter" | "endautoescape"
        | "break" | "continue" => keyword,
        "generation" => keyword.replace("generation", "with"),
        "endgeneration" => keyword.replace("endgeneration", "endwith"),
        "for" => keyword + " " + &for_loop(writer)?,
        "set" => keyword + " " + &set(writer)?,
        "with" => keyword + " " + &assignments(writer)?,
        "macro" => keyword + " " + &writer.name()? + &parameters(writer)?,
        "call" => {
            let parameters = if writer.is_next("(") { parameters(writer)? } else { String::new() };
            keyword + &parameters + " " + &writer.bare_call()?
        }
        "filter" => keyword + " " + &writer.filters()?,
        "autoescape" => keyword + " " + &writer.single()?,
        "do" => keyword + " " + &writer.bare_call()?,
        _ => return Err(writer.error(&format!("there is no statement {name:?}"))),
    })
}

fn for_loop(writer: &mut Writer<'_>) -> Result<String, Error> {
    let mut text = targets(writer, "in")?;
    text += &format!(" {} ", writer.expect("in")?);
    text += &format!("({})|__each", writer.tuple_without_if()?);
    if let Some(keyword) = writer.take_if("if")? {
        text += &format!(" {keyword} {}", writer.single()?);
    }
    if let Some(keyword) = writer.take_if("recursive")? {
        text += &format!(" {keyword}");
    }
    Ok(text)
}

fn set(writer: &mut Writer<'_>) -> Result<String, Error> {
    let mut text = targets(writer, "=")?;
    if let Some(equals) = writer.take_if("=")? {
        let in_namespace = text.contains('.');
        text += &format!("{equals} ({})", writer.tuple()?);
        text += if in_namespace { "|__kept" } else { "" };
    } else if let Some(bar) = writer.take_if("|")? {
        text += &bar;
        text += &writer.filters()?;
    }
    Ok(text)
}

/// What is assigned to: names, dots, commas and brackets up to `end`, a bar, or the tag's end.
fn targets(writer: &mut Writer<'_>, end: &str) -> Result<String, Error> {
    let mut text = String::new();
    while let Some(next) = writer.peek().filter(|&next| next != end && next != "|") {
        text += &if [".", ",", "(", ")"].contains(&next) { writer.take()? } else { writer.name()? };
    }
    if text.is_empty() { Err(writer.error("expected a name")) } else { Ok(text) }
}

fn assignments(writer: &mut Writer<'_>) -> Result<String, Error> {
    let mut text = String::new();
    while writer.peek().is_some() {
        text += &targets(writer, "=")?;
        text += &writer.expect("=")?;
        text += &writer.single()?;
        text += &writer.take_if(",")?.unwrap_or_default();
    }
    Ok(text)
}

/// Names in brackets, with or without defaults.
fn parameters(writer: &mut Writer<'_>) -> Result<String, Error> {
    let mut text = writer.expect("(")?;
    while !writer.is_next(")") {
        text += &writer.name()?;
        if let Some(equals) = writer.take_if("=")? {
            text += &equals;
            text += &writer.single()?;
        }
        if !writer.is_next(")") {
            text += &writer.expect(",")?;
        }
    }
    Ok(text + &writer.take()?)
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

/// The place behind the end of a raw block, whose text is no code.
fn end_of_raw(source: &str, mut at: usize) -> Option<usize> {
    loop {
        at += source[at..].find("{%")? + 2;
        if let Some(after) = bare_tag(source, at, "endraw", true) {
            return Some(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BRANCHES_MAX, rewrite};
    use crate::chat_template::{Error, Limit};

    #[test]
    fn statements_keep_their_form() {
        for (source, expected) in [
            ("a{{- b -}} c", "a{{- b -}} c"),
            ("a\n{{\nb }}\n{{ '\n' }}", "a\n{{ \nb }}\n{{ '\n' }}"),
            ("{% set x = a + 1 %}", "{% set x= (a|__add(1)) %}"),
            ("{%- set n.x = a, b -%}", "{%- set n.x= ((a,b)|__own)|__kept -%}"),
            ("{% set a, b = c %}", "{% set a,b= (c) %}"),
            ("{% set x %}y{% endset %}", "{% set x %}y{% endset %}"),
            ("{% set x | f(a ~ b) %}", "{% set x|f(a|__join(b))|__own %}"),
            (
                "{% for a, b in c[1:] if d == e recursive %}",
                "{% for a,b in (c|__slice(1, none))|__each if d|__compare('==', e) recursive %}",
            ),
            ("{% for a in 1, 2 %}{% else %}{% endfor %}", "{% for a in ((1,2)|__own)|__each %}{% else %}{% endfor %}"),
            ("{% macro m(a, b=[c]) %}{% endmacro %}", "{% macro m(a,b=[c]|__own) %}{% endmacro %}"),
            ("{% call(x) m(a) %}{% endcall %}{% call m.n() %}", "{% call(x) m(a) %}{% endcall %}{% call m.n() %}"),
            ("{% filter f(a)|g %}{% endfilter %}", "{% filter f(a)|g|__own %}{% endfilter %}"),
            ("{% with a = b + c, d = e %}{% endwith %}", "{% with a=b|__add(c),d=e %}{% endwith %}"),
            ("{%- generation -%}x{% endgeneration %}", "{%- with -%}x{% endwith %}"),
            (
                "{# {{ a + b }} #}{% raw %}{{ a + b }}{%- endraw %}",
                "{# {{ a + b }} #}{% raw %}{{ a + b }}{%- endraw %}",
            ),
            ("{{ {'a': {'b': c}} }}{ { {x", "{{ {'a':{'b':c }|__own }|__own }}{ { {x"),
            ("{% if a\n  == b %}\n{% endif\n%}", "{% if a|__compare(\n'==', b) %}\n{% endif\n %}"),
        ] {
            let text = rewrite(source).unwrap();
            assert_eq!(text.replace("{{-  ", "{{- "), expected.replace("{{-  ", "{{- "), "{source}");
            assert_eq!(text.matches('\n').count(), source.matches('\n').count(), "{source}");
            assert_eq!(rewrite(&source.replace('\n', "\r\n")).unwrap(), text, "{source}");
        }
    }

    #[test]
    fn what_is_no_statement_is_named() {
        for source in [
            "\n{% %}",
            "\n{% include 'x' %}",
            "\n{% extends x %}",
            "\n{% import x as y %}",
            "\n{% block b %}",
            "\n{% set %}",
            "\n{% set x = %}",
            "\n{% set x['a'] = 1 %}",
            "\n{% for x y %}",
            "\n{% for x in y z %}",
            "\n{% macro m(1) %}",
            "\n{% else x %}",
            "\n{% call m %}",
            "\n{# x",
            "\n{% raw %}{% endraw",
            "\n{{ }}",
        ] {
            assert!(matches!(rewrite(source), Err(Error::Syntax { line: 2, .. })), "{source}");
        }
    }

    #[test]
    fn branches_are_counted() {
        let branches = |n: usize| format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(n));
        assert!(rewrite(&branches(BRANCHES_MAX)).is_ok());
        assert!(matches!(rewrite(&branches(BRANCHES_MAX + 1)), Err(Error::Limit { what: Limit::Branches, .. })));
    }
}
