//! The engine, set up as transformers sets up Jinja for chat templates.
//!
//! Blocks swallow the newline behind and the space before them, `break` and `continue` exist, undefined values print as
//! nothing, values print as in Python (`python`), strings have Python's methods (`strings`), operators are Python's
//! (`operators`), `tojson` is `json`. The work of a render and the depth of its calls are bounded. There is no clock, no file
//! and no other template to reach: `strftime_now` is given to each render with its time.

use super::clock::LocalTime;
use super::{Error as TemplateError, Limit, Limits, json, marks, operators, strings, values};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use std::cmp::Ordering;
use std::error::Error as _;

/// What sorting pays for each value in a sequence, as a multiple of going through it once.
const SORTING_FUEL: u64 = 16;

/// A filter of the engine that compares the values in a sequence.
type Sorting = fn(&State<'_, '_>, Value, Kwargs) -> Result<Value, Error>;

/// What `raise_exception` throws.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// An engine without templates.
pub(super) fn environment(limits: &Limits) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the default delimiters differ from each other"));
    environment.set_recursion_limit(limits.call_depth_max);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&strings::text_of(state, value)?).map_err(Error::from),
    });
    environment.set_unknown_method_callback(method);
    // What Jinja does not have, and what would go through values without paying.
    environment.remove_global("debug");
    for filter in ["bool", "chain", "groupby", "lines", "pprint", "split", "zip"] {
        environment.remove_filter(filter);
    }
    values::add_to(&mut environment);
    operators::add_to(&mut environment);
    strings::add_filters(&mut environment);
    add_sequence_filters(&mut environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_test("iterable", |value: Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: Value| {
        matches!(
            value.kind(),
            ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
        )
    });
    environment.add_function(
        "raise_exception",
        |state: &State<'_, '_>, message: Option<Value>| -> Result<Value, Error> {
            let message = strings::text_of(state, &message.unwrap_or_default())?;
            let source = Raised(marks::plain(&message).into_owned());
            Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(source))
        },
    );
    environment
}

/// Adds the filters of sequences that have to know about marks, or to pay for what the engine's do.
fn add_sequence_filters(environment: &mut Environment<'_>) {
    environment.add_filter("dictsort", dictsort);
    environment
        .add_filter("__each", |state: &State<'_, '_>, value: Value| by_chars(state, value, |_, value| Ok(value)));
    environment
        .add_filter("__weighed", |state: &State<'_, '_>, value: Value| values::charge(state, &value).map(|()| value));
    environment.add_filter("list", |state: &State<'_, '_>, value: Value| by_chars(state, value, filters::list));
    environment.add_filter("first", |state: &State<'_, '_>, value: Value| {
        by_chars(state, value, |_, value| filters::first(&value))
    });
    environment.add_filter("last", |state: &State<'_, '_>, value: Value| {
        by_chars(state, value, |_, value| filters::last(value))
    });
    environment.add_filter("reverse", |state: &State<'_, '_>, value: Value| -> Result<Value, Error> {
        let is_text = value.as_str().is_some();
        let reversed = by_chars(state, value, |_, value| filters::reverse(&value))?;
        if is_text {
            Ok(Value::from(reversed.try_iter()?.map(|c| c.to_string()).collect::<String>()))
        } else {
            Ok(reversed)
        }
    });
    environment.add_filter(
        "int",
        |state: &State<'_, '_>, value: Value, default: Option<Value>, base: Option<u32>, named: Kwargs| {
            filters::int(state, &without_marks(value), default, base, named)
        },
    );
    environment.add_filter("float", |state: &State<'_, '_>, value: Value, default: Option<Value>, named: Kwargs| {
        filters::float(state, &without_marks(value), default, named)
    });
    environment.add_filter("join", |state: &mut State<'_, '_>, value: Value, joiner: Option<Value>, named: Kwargs| {
        join(state, &value, joiner, &named)
    });
    let sorting: [(&str, Sorting); 4] =
        [("sort", filters::sort), ("unique", filters::unique), ("min", filters::min), ("max", filters::max)];
    for (name, filter) in sorting {
        environment.add_filter(name, move |state: &State<'_, '_>, value: Value, named: Kwargs| {
            state.consume_fuel(values::weight(&value).saturating_mul(SORTING_FUEL))?;
            filter(state, value, named)
        });
    }
}

fn without_marks(value: Value) -> Value {
    value.as_str().map(|text| Value::from(marks::plain(text).as_ref())).unwrap_or(value)
}

/// Applies a filter of sequences, to the characters of a string.
fn by_chars(
    state: &State<'_, '_>,
    value: Value,
    filter: impl FnOnce(&State<'_, '_>, Value) -> Result<Value, Error>,
) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => {
            state.consume_fuel(text.len() as u64)?;
            filter(state, strings::chars(text).into_iter().map(Value::from).collect())
        }
        None => filter(state, value),
    }
}

/// `join(value, d='', attribute=None)`
fn join(state: &State<'_, '_>, value: &Value, joiner: Option<Value>, named: &Kwargs) -> Result<String, Error> {
    let joiner = named.get::<Option<Value>>("d")?.or(joiner).unwrap_or_default();
    let attribute = named.get::<Option<Value>>("attribute")?;
    named.assert_all_used()?;
    let joiner = strings::text_of(state, &joiner)?;
    let mut text = String::new();
    for (place, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        for name in attribute.iter().filter_map(Value::as_str).flat_map(|path| path.split('.')) {
            item = item.get_attr(name)?;
        }
        state.consume_fuel(1 + joiner.len() as u64 / 64)?;
        if place > 0 {
            text.push_str(&joiner);
        }
        text.push_str(&strings::text_of(state, &item)?);
    }
    Ok(text)
}

/// The function `strftime_now` of a render at `now`.
pub(super) fn strftime_now(now: LocalTime) -> Value {
    Value::from_function(move |format: &str| {
        now.format(format).map_err(|directive| {
            Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know {directive}"))
        })
    })
}

/// An error of the engine as one of ours.
pub(super) fn error(error: &Error, limits: &Limits) -> TemplateError {
    let line = error.line().unwrap_or(1);
    let limit = |what, limit| TemplateError::Limit { line: error.line(), what, limit };
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(Raised(message)) = source.downcast_ref() {
            return TemplateError::Refused { line, message: message.clone() };
        }
        if let Some(&TemplateError::Limit { what, limit: max, .. }) = source.downcast_ref() {
            return limit(what, max);
        }
        cause = source.source();
    }
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => limit(Limit::Work, limits.work_max),
        (ErrorKind::WriteFailure, _) => limit(Limit::OutputBytes, limits.output_bytes_max),
        (ErrorKind::InvalidOperation, Some("recursion limit exceeded")) => {
            limit(Limit::Recursion, limits.call_depth_max as u64)
        }
        (ErrorKind::SyntaxError, detail) => {
            TemplateError::Syntax { line, reason: detail.unwrap_or("syntax error").to_owned() }
        }
        (kind, Some(detail)) => {
            TemplateError::Render { line, reason: marks::plain(&format!("{kind}: {detail}")).into_owned() }
        }
        (kind, None) => TemplateError::Render { line, reason: kind.to_string() },
    }
}

fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let result = match value.as_str() {
        Some(text) => strings::method(state, text, name, args),
        None => values::method(state, value, name, args),
    };
    result.unwrap_or_else(|| Err(Error::from(ErrorKind::UnknownMethod)))
}

/// `dictsort(value, case_sensitive=False, by='key', reverse=False)`: pairs, sorted without regard to marks.
fn dictsort(
    state: &State<'_, '_>,
    value: Value,
    case_sensitive: Option<bool>,
    by: Option<&str>,
    named: Kwargs,
) -> Result<Value, Error> {
    let case_sensitive = named.get::<Option<bool>>("case_sensitive")?.or(case_sensitive).unwrap_or(false);
    let by_value = named.get::<Option<&str>>("by")?.or(by).unwrap_or("key") == "value";
    let reverse = named.get::<Option<bool>>("reverse")?.unwrap_or(false);
    named.assert_all_used()?;
    if value.kind() != ValueKind::Map {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("dictsort takes a mapping, not {}", value.kind())));
    }
    let mut pairs = Vec::new();
    for key in value.try_iter()?.checked() {
        let key = key?;
        let item = value.get_item(&key)?;
        let by = if by_value { &item } else { &key };
        let text = by.as_str().map(|text| marks::plain(text).into_owned());
        let text = text.map(|text| if case_sensitive { text } else { text.to_lowercase() });
        state.consume_fuel(8 + text.as_ref().map_or(0, |text| text.len() as u64 / 8))?;
        pairs.push((text, by.clone(), values::list(vec![key, item], true)?));
    }
    pairs.sort_by(|(text_a, a, _), (text_b, b, _)| {
        let order = match (text_a, text_b) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        };
        if reverse { order.reverse() } else { order }
    });
    Ok(pairs.into_iter().map(|(_, _, pair)| pair).collect())
}
