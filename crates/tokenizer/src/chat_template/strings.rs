//! Python's methods of strings, and the filters of strings, for strings with marks.
//!
//! Each works on the text as if it had no marks and puts them back into what it cuts out.

use super::marks::{self, Marked};
use super::python;
use super::values::charge;
use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State};
use std::ops::Range;

/// A new form of a text.
type Change = fn(&str) -> String;

/// Adds the filters.
pub(super) fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter(
        "trim",
        |state: &State<'_, '_>, value: Value, chars: Option<Value>| -> Result<String, Error> {
            Ok(strip(&text_of(state, &value)?, chars.as_ref(), (true, true)))
        },
    );
    environment.add_filter("string", |state: &State<'_, '_>, value: Value| text_of(state, &value));
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter(
        "replace",
        |state: &State<'_, '_>, value: Value, old: Value, new: Value, count: Option<i64>| -> Result<String, Error> {
            replace(state, &text_of(state, &value)?, &text_of(state, &old)?, &text_of(state, &new)?, count)
        },
    );
    let changes: [(&str, Change); 4] = [
        ("lower", |text| Marked::read(text).map(str::to_lowercase)),
        ("upper", |text| Marked::read(text).map(str::to_uppercase)),
        ("capitalize", capitalize),
        ("title", |text| title(text, |before| before.is_none_or(|c| c.is_whitespace() || "-({[<".contains(c)))),
    ];
    for (name, change) in changes {
        environment.add_filter(name, move |state: &State<'_, '_>, value: Value| {
            text_of(state, &value).map(|text| change(&text))
        });
    }
}

/// What a filter takes as text: a string as it is, everything else as `str` writes it.
pub(super) fn text_of(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    charge(state, value)?;
    Ok(python::text(value))
}

/// The characters of a string, each marked as it was.
pub(super) fn chars(text: &str) -> Vec<String> {
    let text = Marked::read(text);
    text.text().char_indices().map(|(start, c)| text.slice(start..start + c.len_utf8())).collect()
}

/// A method of a string; `None` if there is none of that name.
pub(super) fn method(state: &State<'_, '_>, text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    if let Err(error) = state.consume_fuel(text.len() as u64 / 64) {
        return Some(Err(error));
    }
    let no_args = || from_args::<()>(args);
    Some(match name {
        "strip" => strip_method(text, args, (true, true)),
        "lstrip" => strip_method(text, args, (true, false)),
        "rstrip" => strip_method(text, args, (false, true)),
        "lower" | "casefold" => no_args().map(|()| Marked::read(text).map(str::to_lowercase).into()),
        "upper" => no_args().map(|()| Marked::read(text).map(str::to_uppercase).into()),
        "capitalize" => no_args().map(|()| capitalize(text).into()),
        "title" => no_args().map(|()| title(text, |before| !before.is_some_and(char::is_alphabetic)).into()),
        "split" => split(text, args, Side::Left),
        "rsplit" => split(text, args, Side::Right),
        "splitlines" => split_lines(text, args),
        "partition" => partition(text, args, Side::Left),
        "rpartition" => partition(text, args, Side::Right),
        "removeprefix" => remove(text, args, Side::Left),
        "removesuffix" => remove(text, args, Side::Right),
        "startswith" => affix(text, args, |text, affix| text.starts_with(affix)),
        "endswith" => affix(text, args, |text, affix| text.ends_with(affix)),
        "replace" => from_args(args).and_then(|(old, new, count): (Value, Value, Option<i64>)| {
            let new = new.as_str().ok_or_else(|| invalid("expected a string"))?;
            replace(state, text, &plain_argument(&old)?, new, count).map(Value::from)
        }),
        "find" => found(text, args, Side::Left),
        "rfind" => found(text, args, Side::Right),
        "index" => found(text, args, Side::Left).and_then(|place| match place.as_i64() {
            Some(-1) => Err(invalid("substring not found")),
            _ => Ok(place),
        }),
        "count" => from_args(args).and_then(|(wanted,): (Value,)| {
            Ok(Value::from(marks::plain(text).matches(plain_argument(&wanted)?.as_str()).count()))
        }),
        "join" => from_args(args).and_then(|(items,): (Value,)| join(state, text, &items)),
        _ => return predicate(text, name).map(|holds| no_args().map(|()| Value::from(holds))),
    })
}

/// One of Python's questions about the characters of a string.
fn predicate(text: &str, name: &str) -> Option<bool> {
    let text = marks::plain(text);
    let all = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    Some(match name {
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isdigit" | "isdecimal" | "isnumeric" => all(char::is_numeric),
        "isspace" => all(is_space),
        "isascii" => text.is_ascii(),
        "islower" => text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        "isupper" => text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn invalid(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// An argument that must be text, without its marks.
fn plain_argument(value: &Value) -> Result<String, Error> {
    value.as_str().map(|text| marks::plain(text).into_owned()).ok_or_else(|| invalid("expected a string"))
}

/// What Python counts as white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}

fn length(value: Value) -> Result<usize, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(marks::plain(text).chars().count()),
        (None, ValueKind::Undefined) => Ok(0),
        (None, kind) => value
            .len()
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("a value of type {kind} has no length"))),
    }
}

fn strip_method(text: &str, args: &[Value], sides: (bool, bool)) -> Result<Value, Error> {
    let (chars,): (Option<Value>,) = from_args(args)?;
    Ok(strip(text, chars.as_ref(), sides).into())
}

/// Takes `chars`, or white space, from the left, the right or both ends.
fn strip(text: &str, chars: Option<&Value>, (left, right): (bool, bool)) -> String {
    let text = Marked::read(text);
    let chars = chars.and_then(|chars| plain_argument(chars).ok());
    let goes = |c: char| chars.as_ref().map_or_else(|| is_space(c), |chars| chars.contains(c));
    let start = if left { text.text().len() - text.text().trim_start_matches(goes).len() } else { 0 };
    let end = if right { text.text().trim_end_matches(goes).len() } else { text.text().len() };
    text.slice(start..end.max(start))
}

fn capitalize(text: &str) -> String {
    let mut is_first = true;
    Marked::read(text).map(|stretch| {
        let mut chars = stretch.chars();
        let first = if is_first { chars.next() } else { None };
        is_first &= first.is_none();
        first.into_iter().flat_map(char::to_uppercase).chain(chars.flat_map(char::to_lowercase)).collect()
    })
}

/// Capitals where a word begins, which `begins` tells by the character before; small letters elsewhere.
fn title(text: &str, begins: impl Fn(Option<char>) -> bool) -> String {
    let mut before = None;
    Marked::read(text).map(|stretch| {
        let mut out = String::with_capacity(stretch.len());
        for c in stretch.chars() {
            if begins(before) {
                out.extend(c.to_uppercase());
            } else {
                out.extend(c.to_lowercase());
            }
            before = Some(c);
        }
        out
    })
}

/// The arguments `sep=None, maxsplit=-1`.
fn split_args(args: &[Value]) -> Result<(Option<String>, usize), Error> {
    let (separator, n_cuts, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = named.get::<Option<Value>>("sep")?.or(separator).filter(|separator| !separator.is_none());
    let n_cuts = named.get::<Option<i64>>("maxsplit")?.or(n_cuts).unwrap_or(-1);
    named.assert_all_used()?;
    let separator = separator.map(|separator| plain_argument(&separator)).transpose()?;
    if separator.as_deref() == Some("") {
        return Err(invalid("empty separator"));
    }
    Ok((separator, usize::try_from(n_cuts).unwrap_or(usize::MAX)))
}

fn split(text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (separator, n_cuts) = split_args(args)?;
    let text = Marked::read(text);
    let whole = text.text();
    let mut pieces: Vec<&str> = match (&separator, side) {
        (Some(separator), Side::Left) => whole.splitn(n_cuts.saturating_add(1), separator.as_str()).collect(),
        (Some(separator), Side::Right) => whole.rsplitn(n_cuts.saturating_add(1), separator.as_str()).collect(),
        (None, Side::Left) => words(whole, n_cuts, |rest| {
            let rest = rest.trim_start_matches(is_space);
            let end = rest.find(is_space).unwrap_or(rest.len());
            (&rest[..end], rest[end..].trim_start_matches(is_space), rest)
        }),
        (None, Side::Right) => words(whole, n_cuts, |rest| {
            let rest = rest.trim_end_matches(is_space);
            let start = rest.trim_end_matches(|c| !is_space(c)).len();
            (&rest[start..], rest[..start].trim_end_matches(is_space), rest)
        }),
    };
    if side == Side::Right {
        pieces.reverse();
    }
    Ok(pieces.into_iter().map(|piece| Value::from(text.slice(place_of(piece, whole)))).collect())
}

/// Cuts words off by `next` (text -> word, rest, text without the outer space), `n_cuts` times at most.
fn words<'a>(text: &'a str, n_cuts: usize, next: impl Fn(&'a str) -> (&'a str, &'a str, &'a str)) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (word, after, trimmed) = next(rest);
        if trimmed.is_empty() {
            return pieces;
        }
        if pieces.len() == n_cuts {
            pieces.push(trimmed);
            return pieces;
        }
        pieces.push(word);
        rest = after;
    }
}

/// Where `piece`, a part of `whole`, lies in it.
fn place_of(piece: &str, whole: &str) -> Range<usize> {
    let start = piece.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + piece.len()
}

fn split_lines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keep_ends, named): (Option<bool>, Kwargs) = from_args(args)?;
    let keep_ends = named.get::<Option<bool>>("keepends")?.or(keep_ends).unwrap_or(false);
    named.assert_all_used()?;
    let text = Marked::read(text);
    let mut lines = Vec::new();
    let mut start = 0;
    while start < text.text().len() {
        let rest = &text.text()[start..];
        let ends = ['\n', '\r', '\u{B}', '\u{C}', '\u{1C}', '\u{1D}', '\u{1E}', '\u{85}', '\u{2028}', '\u{2029}'];
        let length = rest.find(ends).unwrap_or(rest.len());
        let end = match rest[length..].chars().next() {
            Some('\r') if rest[length..].starts_with("\r\n") => length + 2,
            Some(c) => length + c.len_utf8(),
            None => length,
        };
        lines.push(Value::from(text.slice(start..start + if keep_ends { end } else { length })));
        start += end;
    }
    Ok(Value::from(lines))
}

fn partition(text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (separator,): (Value,) = from_args(args)?;
    let separator = plain_argument(&separator)?;
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let text = Marked::read(text);
    let length = text.text().len();
    let cut = match side {
        Side::Left => text.text().find(&separator).map_or((length, length), |start| (start, start + separator.len())),
        Side::Right => text.text().rfind(&separator).map_or((0, 0), |start| (start, start + separator.len())),
    };
    let pieces = [0..cut.0, cut.0..cut.1, cut.1..length].map(|piece| Value::from(text.slice(piece)));
    Ok(Value::from_object(Tuple::from(pieces)))
}

fn remove(text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (affix,): (Value,) = from_args(args)?;
    let affix = plain_argument(&affix)?;
    let text = Marked::read(text);
    let rest = match side {
        Side::Left => text.text().strip_prefix(&affix),
        Side::Right => text.text().strip_suffix(&affix),
    };
    let range = place_of(rest.unwrap_or(text.text()), text.text());
    Ok(Value::from(text.slice(range)))
}

/// Whether the text has one of the affixes given, one string or a tuple of them.
fn affix(text: &str, args: &[Value], has: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let (affixes,): (Value,) = from_args(args)?;
    let text = marks::plain(text);
    if let Some(affix) = affixes.as_str() {
        return Ok(Value::from(has(&text, &marks::plain(affix))));
    }
    if !matches!(affixes.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(invalid("expected a string or a tuple of strings"));
    }
    for affix in affixes.try_iter()?.checked() {
        let affix = affix?;
        let affix = affix.as_str().ok_or_else(|| invalid("expected a tuple of strings"))?;
        if has(&text, &marks::plain(affix)) {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

/// The place of a text in characters, or -1.
fn found(text: &str, args: &[Value], side: Side) -> Result<Value, Error> {
    let (wanted,): (Value,) = from_args(args)?;
    let (text, wanted) = (marks::plain(text), plain_argument(&wanted)?);
    let place = if side == Side::Left { text.find(&wanted) } else { text.rfind(&wanted) };
    Ok(place.map_or(Value::from(-1), |place| Value::from(text[..place].chars().count())))
}

fn replace(state: &State<'_, '_>, text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    let (text, old) = (Marked::read(text), marks::plain(old));
    let n_max = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let whole = text.text();
    let n_found = whole.matches(old.as_ref()).take(n_max).count();
    state.consume_fuel((n_found as u64).saturating_mul(new.len() as u64) / 64 + n_found as u64)?;
    let mut out = String::with_capacity(whole.len());
    let mut at = 0;
    for (place, found) in whole.match_indices(old.as_ref()).take(n_max) {
        out.push_str(&text.slice(at..place));
        out.push_str(new);
        at = place + found.len();
    }
    out.push_str(&text.slice(at..whole.len()));
    Ok(out)
}

fn join(state: &State<'_, '_>, separator: &str, items: &Value) -> Result<Value, Error> {
    let mut out = String::new();
    for (place, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let text = item.as_str().ok_or_else(|| invalid("join takes strings"))?;
        state.consume_fuel(1 + (separator.len() + text.len()) as u64 / 64)?;
        if place > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::from(out))
}
