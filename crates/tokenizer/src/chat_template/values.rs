//! The values that a template handles: what it is given, and what it makes of that.
//!
//! [`Map`] and [`List`] behave like Python's `dict`, `list` and `tuple`. Every one knows how deep it nests and how much is in
//! it, so that no template can build values that cost more to drop, print or compare than it has paid for. The engine's own
//! containers become these as soon as an expression has made them ([`own`]; `expression` sees to it).
//!
//! Text from outside is marked here ([`Marking`]), keys included. When a key is looked up marks do not matter, so
//! `tool.parameters` and `arguments[name]` both find theirs.

use super::{Error as TemplateError, Limit, marks, operators, python};
use aho_corasick::AhoCorasick;
use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Kwargs, Object, ObjectRepr, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State};
use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;

/// How deep the data of a conversation may nest; serde_json stops there too when it reads.
const INPUT_NESTING_MAX: usize = 128;
/// How deep a value may nest that a template makes.
const NESTING_MAX: usize = 200;
/// The greatest [`weight`] of a value that a template makes.
const WEIGHT_MAX: u64 = 1 << 20;
/// The roles of the protocol. A template may make control tokens of them, so they are its words.
const ROLES: [&str; 7] = ["system", "developer", "user", "assistant", "tool", "function", "ipython"];

/// Adds the filters that `expression` puts behind values.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter("__own", own);
    environment.add_filter("__kept", own_item);
    environment.add_function("namespace", namespace);
}

/// Which text is marked as text from outside.
#[derive(Clone, Copy)]
pub(super) enum Marking<'a> {
    /// None.
    Off,
    /// Every string and every key, except the roles of messages.
    Strings,
    /// Every occurrence of a control token in a string or a key.
    Tokens(&'a AhoCorasick),
}

impl Marking<'_> {
    /// Makes the messages of a conversation.
    pub(super) fn messages(self, messages: &[Json]) -> Result<Value, TemplateError> {
        let mut items = Vec::with_capacity(messages.len());
        for message in messages {
            let value = self.value(message)?;
            let role = message["role"].as_str().filter(|role| ROLES.contains(role));
            items.push(match (role, value.downcast_object_ref::<Map>()) {
                (Some(role), Some(map)) => {
                    let mut entries = map.entries.clone();
                    if let Some((_, value)) = entries.get_mut("role") {
                        *value = Value::from(role);
                    }
                    Value::from_object(Map::new(entries))
                }
                _ => value,
            });
        }
        Ok(Value::from_object(List::new(items, false)))
    }

    /// Makes a value of `json`.
    pub(super) fn value(self, json: &Json) -> Result<Value, TemplateError> {
        self.nested(json, INPUT_NESTING_MAX)
    }

    fn nested(self, json: &Json, depth: usize) -> Result<Value, TemplateError> {
        let deeper = || {
            let limit = INPUT_NESTING_MAX as u64;
            depth.checked_sub(1).ok_or(TemplateError::Limit { line: None, what: Limit::InputNesting, limit })
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
                let items = items.iter().map(|item| self.nested(item, depth)).collect::<Result<_, _>>()?;
                Value::from_object(List::new(items, false))
            }
            Json::Object(fields) => {
                let depth = deeper()?;
                let entry = |(key, value): (&String, &Json)| {
                    let entry = (Value::from(self.text(key)), self.nested(value, depth)?);
                    Ok((marks::cleaned(key).into_owned(), entry))
                };
                Value::from_object(Map::new(fields.iter().map(entry).collect::<Result<_, TemplateError>>()?))
            }
        })
    }

    /// Marks a string.
    fn text(self, text: &str) -> String {
        let text = marks::cleaned(text);
        match self {
            Marking::Off => text.into_owned(),
            Marking::Strings => marks::enclosed(&text),
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
}

/// A mapping in order.
#[derive(Debug)]
pub(super) struct Map {
    /// Key as [`key_of`] gives it -> the key as a template sees it, and the value.
    pub(super) entries: IndexMap<String, (Value, Value)>,
    nesting: usize,
    weight: u64,
}

impl Map {
    pub(super) fn new(entries: IndexMap<String, (Value, Value)>) -> Map {
        let (nesting, weight) = measure(entries.values().flat_map(|(key, value)| [key, value]));
        Map { entries, nesting, weight }
    }
}

impl Object for Map {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.entries.get(&key_of(key)?).map(|(_, value)| value.clone())
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.entries.get(marks::plain(key).as_ref()).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries.values().map(|(key, _)| key.clone()).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

/// A sequence.
#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    pub(super) is_tuple: bool,
    nesting: usize,
    weight: u64,
}

impl List {
    pub(super) fn new(items: Vec<Value>, is_tuple: bool) -> List {
        let (nesting, weight) = measure(items.iter());
        List { items, is_tuple, nesting, weight }
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

/// How much is in a value: each value within counts, and 64 bytes of text count as one.
pub(super) fn weight(value: &Value) -> u64 {
    match (value.as_str(), value.as_object()) {
        (Some(text), _) => 1 + text.len() as u64 / 64,
        (None, Some(object)) => match (object.downcast_ref::<List>(), object.downcast_ref::<Map>()) {
            (Some(list), _) => list.weight,
            (_, Some(map)) => map.weight,
            _ => 1,
        },
        (None, None) => 1,
    }
}

/// Pays for going through all of a value.
pub(super) fn charge(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    state.consume_fuel(weight(value))
}

/// The text by which a map finds a key; `None` for what cannot be one. Numbers that are equal are one key.
pub(super) fn key_of(key: &Value) -> Option<String> {
    if let Some(text) = key.as_str() {
        return Some(marks::plain(text).into_owned());
    }
    match key.kind() {
        ValueKind::None => Some("\0none".to_owned()),
        ValueKind::Bool | ValueKind::Number => Some(match i128::try_from(key.clone()) {
            Ok(number) => format!("\0{number}"),
            Err(_) => format!("\0{key}"),
        }),
        _ => None,
    }
}

/// A value that an expression has made, with the engine's containers replaced by ours.
pub(super) fn own(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value) };
    if object.is::<Map>() || object.is::<List>() || is_engine_object(&value, "Namespace") {
        return Ok(value);
    }
    match object.repr() {
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                state.consume_fuel(1)?;
                items.push(own_item(state, item?)?);
            }
            list(items, value.is_tuple())
        }
        ObjectRepr::Map if !object.type_name().starts_with("minijinja::vm::") => {
            let mut entries = IndexMap::new();
            for key in value.try_iter()?.checked() {
                state.consume_fuel(1)?;
                let key = key?;
                let item = own_item(state, value.get_item(&key)?)?;
                let Some(text) = key_of(&key) else {
                    return Err(Error::new(ErrorKind::NonKey, format!("a {} cannot be a key", key.kind())));
                };
                // As in Python, a key that is equal to an earlier one keeps the earlier one's form and place.
                entries.entry(text).and_modify(|(_, value)| *value = item.clone()).or_insert((key, item));
            }
            let map = Map::new(entries);
            check(map.nesting, map.weight)?;
            Ok(Value::from_object(map))
        }
        _ => Ok(value),
    }
}

/// `namespace(mapping, name=value, …)`
fn namespace(state: &State<'_, '_>, first: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(first) = first {
        let first = own(state, first)?;
        let Some(map) = first.downcast_object_ref::<Map>() else {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("expected a mapping, got {}", first.kind())));
        };
        pairs.extend(map.entries.iter().map(|(key, (_, value))| (key.clone(), value.clone())));
    }
    for name in named.args() {
        pairs.push((name.to_owned(), own_item(state, named.get(name)?)?));
    }
    minijinja::functions::namespace(Some(Value::from_pairs(pairs).into()))
}

/// A list that a template made.
pub(super) fn list(items: Vec<Value>, is_tuple: bool) -> Result<Value, Error> {
    let list = List::new(items, is_tuple);
    check(list.nesting, list.weight)?;
    Ok(Value::from_object(list))
}

/// A value inside of a container, which must be data: a namespace could contain itself.
fn own_item(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let value = own(state, value)?;
    match value.as_object() {
        Some(object) if !object.is::<Map>() && !object.is::<List>() => Err(no_data()),
        _ => Ok(value),
    }
}

fn no_data() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "only data can be kept in another value: no namespace, no macro, no function",
    )
}

fn check(nesting: usize, weight: u64) -> Result<(), Error> {
    for (measured, max, what) in
        [(nesting as u64, NESTING_MAX as u64, Limit::Nesting), (weight, WEIGHT_MAX, Limit::Work)]
    {
        if measured > max {
            let source = TemplateError::Limit { line: None, what, limit: max };
            return Err(Error::new(ErrorKind::InvalidOperation, "too much in one value").with_source(source));
        }
    }
    Ok(())
}

/// How deep a container of these values nests, and how much is in it.
fn measure<'a>(values: impl Iterator<Item = &'a Value>) -> (usize, u64) {
    let (mut nesting, mut sum) = (0, 1_u64);
    for value in values {
        sum = sum.saturating_add(weight(value));
        if let Some(object) = value.as_object() {
            let list = object.downcast_ref::<List>().map(|list| list.nesting);
            nesting = nesting.max(list.or_else(|| object.downcast_ref::<Map>().map(|map| map.nesting)).unwrap_or(0));
        }
    }
    (nesting + 1, sum)
}

/// Whether a value is one of the engine's own objects, by the name of its type.
fn is_engine_object(value: &Value, name: &str) -> bool {
    let path = value.as_object().and_then(|object: &DynObject| object.type_name().strip_prefix("minijinja::"));
    path.is_some_and(|path| path.rsplit("::").next() == Some(name))
}

/// The methods of Python's `dict` and `list` that leave them as they are; `None` if there is none of that name.
pub(super) fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let no_args = || from_args::<()>(args);
    if let Some(map) = value.downcast_object_ref::<Map>() {
        if let Err(error) = state.consume_fuel(map.entries.len() as u64) {
            return Some(Err(error));
        }
        let pair = |(key, value): &(Value, Value)| list(vec![key.clone(), value.clone()], true);
        let pairs = map.entries.values();
        return Some(match name {
            "items" => no_args().and_then(|()| list(pairs.map(pair).collect::<Result<_, _>>()?, false)),
            "keys" => no_args().and_then(|()| list(pairs.map(|(key, _)| key.clone()).collect(), false)),
            "values" => no_args().and_then(|()| list(pairs.map(|(_, value)| value.clone()).collect(), false)),
            "get" => from_args(args).map(|(key, default): (Value, Option<Value>)| {
                let found = key_of(&key).and_then(|key| map.entries.get(&key));
                found.map_or_else(|| default.unwrap_or_else(|| Value::from(())), |(_, value)| value.clone())
            }),
            _ => return None,
        });
    }
    let items = value.downcast_object_ref::<List>().filter(|_| ["count", "index"].contains(&name))?;
    Some(from_args(args).and_then(|(wanted,): (Value,)| {
        let mut places = Vec::new();
        for (place, item) in items.items.iter().enumerate() {
            if operators::is_equal(state, item, &wanted)? {
                places.push(place);
            }
        }
        match (name, places.first()) {
            ("count", _) => Ok(Value::from(places.len())),
            (_, Some(&place)) => Ok(Value::from(place)),
            (_, None) => Err(Error::new(ErrorKind::InvalidOperation, "the value is not in the list")),
        }
    }))
}
