//! The engine, set up as transformers sets up Jinja for chat templates.
//!
//! Blocks swallow the newline behind and the space before them, `break` and `continue` exist, undefined values print as
//! nothing, values print as in Python (`python`), strings have Python's methods (`strings`), `tojson` is `json`. What a
//! template keeps is bounded (`keep`), as are the work of a render and the depth of its calls. There is no clock, no file and
//! no other template to reach: `strftime_now` is given to each render with its time.

use super::clock::LocalTime;
use super::{Error as TemplateError, Limit, Limits, json, keep, marks, python, strings, values};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::cmp::Ordering;
use std::error::Error as _;

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
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&python::text(value)).map_err(Error::from),
    });
    environment.set_unknown_method_callback(method);
    environment.remove_global("debug");
    strings::add_filters(&mut environment);
    keep::add_to(&mut environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("dictsort", dictsort);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
    });
    environment.add_function("raise_exception", |message: Option<&Value>| -> Result<Value, Error> {
        let message = marks::plain(&message.map(python::text).unwrap_or_default()).into_owned();
        Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
    });
    environment
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
        (ErrorKind::InvalidOperation, Some("recursion limit exceeded")) => limit(Limit::Recursion, limits.call_depth_max as u64),
        (ErrorKind::SyntaxError, detail) => TemplateError::Syntax { line, reason: detail.unwrap_or("syntax error").to_owned() },
        (kind, Some(detail)) => TemplateError::Render { line, reason: marks::plain(&format!("{kind}: {detail}")).into_owned() },
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
    value: &Value,
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
        pairs.push((text, by.clone(), Value::from_object(Tuple::from([key, item]))));
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
