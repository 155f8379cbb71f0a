//! What a template may keep in variables: plain data, nested no deeper than a bound.
//!
//! The engine drops, prints and compares nested values by recursion, and a template can nest values as deep as it has loop
//! turns. It can also put a namespace into itself. Either would end the process, so every value that is assigned passes
//! through here (`source` sees to that). Lazy sequences are made into lists on the way, since they nest as well.

use super::values::{List, Map};
use super::{Error as TemplateError, Limit};
use minijinja::value::{DynObject, Kwargs, ObjectRepr, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

/// The filter for `{% set name = … %}`.
pub(super) const IN_VARIABLE: &str = "__kept";
/// The filter for `{% set namespace.name = … %}`.
pub(super) const IN_NAMESPACE: &str = "__kept_in_namespace";

/// How deep lists and maps that a template builds may nest.
const DEPTH_MAX: usize = 64;

/// Adds the filters, and a `namespace` whose first values pass through one.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter(IN_VARIABLE, in_variable);
    environment.add_filter(IN_NAMESPACE, in_namespace);
    environment.add_function("namespace", namespace);
}

fn in_variable(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match value.as_object() {
        // These two cannot nest through a variable, because nothing that is kept may contain one.
        Some(object) if is_engine_object(object, "Namespace") || is_engine_object(object, "Loop") => Ok(value.clone()),
        _ => kept(state, value, DEPTH_MAX),
    }
}

fn in_namespace(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    kept(state, value, DEPTH_MAX)
}

fn namespace(state: &State<'_, '_>, first: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(first) = first {
        if first.kind() != ValueKind::Map {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("expected a mapping, got {}", first.kind())));
        }
        for key in first.try_iter()?.checked() {
            let key = key?;
            pairs.push((key.clone(), kept(state, &first.get_item(&key)?, DEPTH_MAX)?));
        }
    }
    for name in named.args() {
        pairs.push((Value::from(name), kept(state, &named.get::<Value>(name)?, DEPTH_MAX)?));
    }
    minijinja::functions::namespace(Some(Value::from_pairs(pairs).into()))
}

/// A value with nothing in it but data, `depth` levels at most.
fn kept(state: &State<'_, '_>, value: &Value, depth: usize) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    if object.is::<Map>() || object.is::<List>() {
        return Ok(value.clone());
    }
    let Some(depth) = depth.checked_sub(1) else {
        let source = TemplateError::Limit { line: None, what: Limit::Nesting, limit: DEPTH_MAX as u64 };
        return Err(Error::new(ErrorKind::InvalidOperation, "values nested too deep").with_source(source));
    };
    match object.repr() {
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                state.consume_fuel(1)?;
                items.push(kept(state, &item?, depth)?);
            }
            Ok(if value.is_tuple() { Value::from_object(Tuple::from(items)) } else { Value::from(items) })
        }
        ObjectRepr::Map if !object.type_name().starts_with("minijinja::vm::") && !is_engine_object(object, "Namespace") => {
            let mut pairs = Vec::new();
            for key in value.try_iter()?.checked() {
                state.consume_fuel(1)?;
                let key = key?;
                pairs.push((key.clone(), kept(state, &value.get_item(&key)?, depth)?));
            }
            Ok(Value::from_pairs(pairs))
        }
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "only data can be kept here: no macro, no function, and no namespace inside of another value",
        )),
    }
}

/// Whether an object is one of the engine's own, by the name of its type.
fn is_engine_object(object: &DynObject, name: &str) -> bool {
    object.type_name().strip_prefix("minijinja::").is_some_and(|path| path.rsplit("::").next() == Some(name))
}
