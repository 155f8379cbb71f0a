//! A conversation's data as a template sees it: JSON as values of the engine, marked as text from outside.
//!
//! [`Map`] and [`List`] behave like Python's `dict` and `list`. The keys of a map are marked as well, when a template goes
//! through them; when it looks one up, marks do not matter, so `tool.parameters` and `arguments[name]` both find theirs.
//!
//! Not everything is marked. A template compares values with words of its own (`role == 'user'`, `type == "string"`), and a
//! mark would hide that they are equal, so a value or key that is one word and among the template's own string literals is
//! left bare. It is a word that the template's author wrote as well.

use super::python;
use super::{Error, Limit, marks, source};
use indexmap::IndexMap;
use minijinja::State;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// How deep a conversation's data may nest; serde_json stops there too when it reads.
const DEPTH_MAX: usize = 128;

/// Which text is marked as text from outside.
#[derive(Clone, Copy)]
pub(super) enum Marking<'a> {
    /// None.
    Off,
    /// Every string, except the words given.
    Strings(&'a HashSet<String>),
    /// Every occurrence of a control token in a string.
    Tokens(&'a aho_corasick::AhoCorasick),
}

impl Marking<'_> {
    /// Marks a string from outside.
    fn text(self, text: &str) -> String {
        let text = marks::cleaned(text);
        match self {
            Marking::Off => text.into_owned(),
            Marking::Strings(words) if source::is_word(&text) && words.contains(&text.to_ascii_lowercase()) => text.into_owned(),
            Marking::Strings(_) => marks::enclosed(&text),
            Marking::Tokens(tokens) => {
                let mut marked = String::with_capacity(text.len());
                let mut at = 0;
                for found in tokens.find_iter(text.as_ref()) {
                    marked.push_str(&text[at..found.start()]);
                    marks::push_enclosed(&text[found.range()], &mut marked);
                    at = found.end();
                }
                marked.push_str(&text[at..]);
                marked
            }
        }
    }

    /// Makes values of `json`.
    pub(super) fn value(self, json: &Json) -> Result<Value, Error> {
        self.nested(json, DEPTH_MAX)
    }

    fn nested(self, json: &Json, depth: usize) -> Result<Value, Error> {
        let deeper = || {
            let limit = DEPTH_MAX as u64;
            depth.checked_sub(1).ok_or(Error::Limit { line: None, what: Limit::InputNesting, limit })
        };
        Ok(match json {
            Json::Null => Value::from(()),
            Json::Bool(value) => Value::from(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::from(value),
                (None, Some(value)) => Value::from(value),
                (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::from(self.text(text)),
            Json::Array(items) => {
                let depth = deeper()?;
                Value::from_object(List(items.iter().map(|item| self.nested(item, depth)).collect::<Result<_, _>>()?))
            }
            Json::Object(fields) => {
                let depth = deeper()?;
                let entry = |(key, value): (&String, &Json)| {
                    let entry = (Value::from(self.text(key)), self.nested(value, depth)?);
                    Ok((marks::cleaned(key).into_owned(), entry))
                };
                Value::from_object(Map(fields.iter().map(entry).collect::<Result<_, Error>>()?))
            }
        })
    }
}

/// A mapping in order: bare key -> the key as a template sees it, and the value.
#[derive(Debug)]
pub(super) struct Map(IndexMap<String, (Value, Value)>);

impl Object for Map {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.get(marks::plain(key).as_ref()).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.values().map(|(key, _)| key.clone()).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

/// A sequence.
#[derive(Debug)]
pub(super) struct List(Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

/// The methods of Python's `dict` and `list` that leave them as they are.
pub(super) fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Option<Result<Value, minijinja::Error>> {
    use minijinja::value::{Tuple, ValueKind, from_args};
    let no_args = || from_args::<()>(args);
    let pairs = || -> Result<Vec<(Value, Value)>, minijinja::Error> {
        no_args()?;
        value
            .try_iter()?
            .checked()
            .map(|key| {
                state.consume_fuel(1)?;
                let key = key?;
                Ok((key.clone(), value.get_item(&key)?))
            })
            .collect()
    };
    let is_list = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    match name {
        "items" if value.kind() == ValueKind::Map => {
            Some(pairs().map(|pairs| pairs.into_iter().map(|(key, value)| Value::from_object(Tuple::from([key, value]))).collect()))
        }
        "keys" if value.kind() == ValueKind::Map => Some(pairs().map(|pairs| pairs.into_iter().map(|(key, _)| key).collect())),
        "values" if value.kind() == ValueKind::Map => {
            Some(pairs().map(|pairs| pairs.into_iter().map(|(_, value)| value).collect()))
        }
        "get" if value.kind() == ValueKind::Map => Some(from_args(args).and_then(|(key, default): (Value, Option<Value>)| {
            let found = value.get_item(&key)?;
            Ok(if found.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { found })
        })),
        "count" | "index" if is_list => Some(from_args(args).and_then(|(wanted,): (Value,)| {
            let mut places = Vec::new();
            for (place, item) in value.try_iter()?.checked().enumerate() {
                state.consume_fuel(1)?;
                if item? == wanted {
                    places.push(place);
                }
            }
            match (name, places.first()) {
                ("count", _) => Ok(Value::from(places.len())),
                (_, Some(&place)) => Ok(Value::from(place)),
                (_, None) => Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, "the value is not in the list")),
            }
        })),
        _ => None,
    }
}
