//! Values written as Python writes them: `str`, `repr` and the digits of a float.
//!
//! Templates were made for an engine in Python, and `{{ value }}` shows it: `True`, `None`, `{'a': [1.0, 'b']}`. Marks around
//! text from outside pass through unharmed. Whoever lets a template cause this pays for the value first.

use super::marks::Marked;
use super::values::List;
use minijinja::value::{Value, ValueKind};
use std::fmt::Write;

/// `str(value)`.
pub(super) fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The shortest digits that read back as the same number, as `repr(float)` writes them.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

/// `repr`, but undefined is nothing.
fn write(value: &Value, out: &mut String) {
    if let Some(text) = value.as_str() {
        return quote(text, out);
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            let is_tuple = value.is_tuple() || value.downcast_object_ref::<List>().is_some_and(|list| list.is_tuple);
            let (open, close) = if is_tuple { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut n_items = 0;
            for item in value.try_iter().into_iter().flatten() {
                if n_items > 0 {
                    out.push_str(", ");
                }
                write(&item, out);
                n_items += 1;
            }
            if n_items == 1 && is_tuple {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (place, key) in value.try_iter().into_iter().flatten().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                write(&key, out);
                out.push_str(": ");
                write(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// `repr(str)`.
fn quote(text: &str, out: &mut String) {
    let text = Marked::read(text);
    let quote = if text.text().contains('\'') && !text.text().contains('"') { '"' } else { '\'' };
    out.push(quote);
    out.push_str(&text.map(|stretch| {
        let mut escaped = String::with_capacity(stretch.len());
        for c in stretch.chars() {
            match c {
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\t' => escaped.push_str("\\t"),
                '\\' => escaped.push_str("\\\\"),
                _ if c == quote => escaped.extend(['\\', c]),
                _ if c.is_control() || (c.is_whitespace() && c != ' ') => push_escape(c, &mut escaped),
                _ => escaped.push(c),
            }
        }
        escaped
    }));
    out.push(quote);
}

fn push_escape(c: char, out: &mut String) {
    let code = u32::from(c);
    let written = match code {
        0..=0xFF => write!(out, "\\x{code:02x}"),
        0x100..=0xFFFF => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    debug_assert!(written.is_ok(), "a string takes every write");
}

#[cfg(test)]
mod tests {
    use super::{float, text};
    use minijinja::value::{Tuple, Value};

    #[test]
    fn floats_have_pythons_digits() {
        for (value, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (5e-324, "5e-324"),
            (123_456_789.125, "123456789.125"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn containers_show_what_is_in_them() {
        let list = Value::from(vec![
            Value::from(true),
            Value::from(()),
            Value::from(2.0),
            Value::from("a'b"),
            Value::from("'\"\n\u{1}\u{2028}é"),
            Value::from_object(Tuple::from([Value::from(1)])),
        ]);
        assert_eq!(text(&list), r#"[True, None, 2.0, "a'b", '\'"\n\x01\u2028é', (1,)]"#);
        assert_eq!(text(&Value::from_pairs([("k", 1)])), "{'k': 1}");
        assert_eq!(text(&Value::from("plain")), "plain");
        assert_eq!(text(&Value::UNDEFINED), "");
    }
}
