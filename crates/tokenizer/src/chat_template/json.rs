//! The filter `tojson`, as transformers defines it: Python's `json.dumps` without escapes for HTML.
//!
//! Keys keep their order unless sorted, text stays readable unless `ensure_ascii` is set, and marks around text from outside
//! pass through.

use super::marks::Marked;
use super::python;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use std::fmt::Write;

/// How deep a value may nest to be written.
const DEPTH_MAX: usize = 400;
/// Fuel for each value written, besides what its text costs.
const VALUE_FUEL: u64 = 2;

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let ensure_ascii = named.get::<Option<bool>>("ensure_ascii")?.or(ensure_ascii).unwrap_or(false);
    let indent = named.get::<Option<Value>>("indent")?.or(indent).filter(|indent| !indent.is_none());
    let separators = named.get::<Option<Value>>("separators")?.filter(|separators| !separators.is_none());
    let sort_keys = named.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    named.assert_all_used()?;
    let indent = indent.map(|indent| indentation(&indent)).transpose()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => (separator(&pair, 0)?, separator(&pair, 1)?),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let mut writer = Writer {
        state,
        ensure_ascii,
        indent,
        item_separator,
        key_separator,
        sort_keys,
        out: String::new(),
        charged: 0,
    };
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// One level of indentation: so many spaces, or a text.
fn indentation(indent: &Value) -> Result<String, Error> {
    match (indent.as_str(), indent.as_usize()) {
        (Some(text), _) if text.len() <= 64 => Ok(text.to_owned()),
        (None, Some(width @ 0..=64)) => Ok(" ".repeat(width)),
        _ => Err(invalid("tojson takes an indent of 64 at most".to_owned())),
    }
}

fn separator(pair: &Value, place: usize) -> Result<String, Error> {
    let text = pair.get_item_by_index(place)?;
    text.as_str().map(str::to_owned).ok_or_else(|| invalid("tojson takes two texts as separators".to_owned()))
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

struct Writer<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    out: String,
    /// The length of `out` that is paid for.
    charged: usize,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.charge()?;
        if let Some(text) = value.as_str() {
            self.string(text);
            return Ok(());
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, self.deeper(depth)?)?,
            ValueKind::Map => self.map(value, self.deeper(depth)?)?,
            kind => return Err(invalid(format!("a value of type {kind} cannot be written as JSON"))),
        }
        Ok(())
    }

    fn deeper(&self, depth: usize) -> Result<usize, Error> {
        if depth == DEPTH_MAX { Err(invalid("too deeply nested for JSON".to_owned())) } else { Ok(depth + 1) }
    }

    fn list(&mut self, list: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut is_empty = true;
        for item in list.try_iter()?.checked() {
            self.next_item(is_empty, depth);
            is_empty = false;
            self.value(&item?, depth)?;
        }
        self.end(is_empty, depth, ']');
        Ok(())
    }

    fn map(&mut self, map: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('{');
        let mut is_empty = true;
        let mut keys = map.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.sort_keys {
            keys.sort_by(|a, b| Marked::read(&python::text(a)).text().cmp(Marked::read(&python::text(b)).text()));
        }
        for key in keys {
            self.next_item(is_empty, depth);
            is_empty = false;
            match (key.as_str(), key.kind()) {
                (Some(text), _) => self.string(text),
                (None, ValueKind::None) => self.out.push_str("\"null\""),
                (None, ValueKind::Bool) => self.out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
                (None, ValueKind::Number) => self.string(&number(&key)),
                (None, kind) => return Err(invalid(format!("a key of type {kind} cannot be written as JSON"))),
            }
            self.out.push_str(&self.key_separator);
            self.value(&map.get_item(&key)?, depth)?;
        }
        self.end(is_empty, depth, '}');
        Ok(())
    }

    fn next_item(&mut self, is_first: bool, depth: usize) {
        if !is_first {
            self.out.push_str(&self.item_separator);
        }
        self.line(depth);
    }

    fn end(&mut self, is_empty: bool, depth: usize, close: char) {
        if !is_empty {
            self.line(depth - 1);
        }
        self.out.push(close);
    }

    /// A new line, if there is an indentation.
    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let ensure_ascii = self.ensure_ascii;
        self.out.push_str(&Marked::read(text).map(|stretch| escaped(stretch, ensure_ascii)));
        self.out.push('"');
    }

    /// Pays for what was written since the last time, so that the text cannot outgrow the budget before it is done.
    fn charge(&mut self) -> Result<(), Error> {
        let bytes = (self.out.len() - self.charged) as u64;
        self.charged = self.out.len();
        self.state.consume_fuel(VALUE_FUEL + bytes / 64)
    }
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => match python::float(number).as_str() {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            digits => digits.to_owned(),
        },
        _ => value.to_string(),
    }
}

fn escaped(text: &str, ensure_ascii: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            _ if c < ' ' || (ensure_ascii && c > '~') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let written = write!(out, "\\u{unit:04x}");
                    debug_assert!(written.is_ok(), "a string takes every write");
                }
            }
            _ => out.push(c),
        }
    }
    out
}
