//! The operators that `expression` takes from the engine: sums, products, joined texts, comparisons, items and slices.
//!
//! They do what Python's do. Strings are compared without regard to marks and cut with the marks put back, and everything that
//! goes through values within values is paid for.

use super::marks::{self, Marked};
use super::python;
use super::values::{self, List, Map, charge, list};
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::cmp::Ordering;

/// Adds the filters, and the tests that do the same.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_filter("__add", add);
    environment.add_filter("__multiply", multiply);
    environment.add_filter("__join", join);
    environment.add_filter("__compare", compare);
    environment.add_filter("__item", item);
    environment.add_filter("__slice", slice);
    for (operator, names) in [
        ("==", &["eq", "equalto", "=="][..]),
        ("!=", &["ne", "!="]),
        ("<", &["lt", "lessthan", "<"]),
        ("<=", &["le", "<="]),
        (">", &["gt", "greaterthan", ">"]),
        (">=", &["ge", ">="]),
        ("in", &["in"]),
    ] {
        for &name in names {
            environment.add_test(name, move |state: &State<'_, '_>, left: Value, right: Value| {
                holds(state, operator, &left, &right)
            });
        }
    }
}

/// Whether two values are equal.
pub(super) fn is_equal(state: &State<'_, '_>, left: &Value, right: &Value) -> Result<bool, Error> {
    state.consume_fuel(1)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        state.consume_fuel(left.len().min(right.len()) as u64 / 64)?;
        return Ok(marks::plain(left) == marks::plain(right));
    }
    match (left.as_object(), right.as_object()) {
        (Some(_), Some(_)) if minijinja::tests::is_sameas(left, right) => Ok(true),
        (Some(a), Some(b)) => {
            if let (Some(a), Some(b)) = (a.downcast_ref::<List>(), b.downcast_ref::<List>()) {
                return all_equal(state, a, b);
            }
            let (Some(a), Some(b)) = (a.downcast_ref::<Map>(), b.downcast_ref::<Map>()) else { return Ok(false) };
            if a.entries.len() != b.entries.len() {
                return Ok(false);
            }
            for (key, (_, value)) in &a.entries {
                match b.entries.get(key) {
                    Some((_, other)) if is_equal(state, value, other)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (None, None) => Ok(left == right),
        _ => Ok(false),
    }
}

fn all_equal(state: &State<'_, '_>, a: &List, b: &List) -> Result<bool, Error> {
    if a.is_tuple != b.is_tuple || a.items.len() != b.items.len() {
        return Ok(false);
    }
    for (a, b) in a.items.iter().zip(&b.items) {
        if !is_equal(state, a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which of two values comes first; `None` for numbers without an order.
fn order(state: &State<'_, '_>, left: &Value, right: &Value) -> Result<Option<Ordering>, Error> {
    state.consume_fuel(1)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        state.consume_fuel(left.len().min(right.len()) as u64 / 64)?;
        return Ok(Some(marks::plain(left).cmp(&marks::plain(right))));
    }
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return Ok(left.order(right));
    }
    let lists = (left.downcast_object_ref::<List>(), right.downcast_object_ref::<List>());
    let (Some(a), Some(b)) = lists else { return Err(unsupported("<", left, right)) };
    for (a, b) in a.items.iter().zip(&b.items) {
        if !is_equal(state, a, b)? {
            return order(state, a, b);
        }
    }
    Ok(Some(a.items.len().cmp(&b.items.len())))
}

fn holds(state: &State<'_, '_>, operator: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    let ordered = |accepts: fn(Ordering) -> bool| Ok(order(state, left, right)?.is_some_and(accepts));
    match operator {
        "==" => is_equal(state, left, right),
        "!=" => is_equal(state, left, right).map(|equal| !equal),
        "<" => ordered(Ordering::is_lt),
        "<=" => ordered(Ordering::is_le),
        ">" => ordered(Ordering::is_gt),
        ">=" => ordered(Ordering::is_ge),
        "in" => contains(state, right, left),
        _ => contains(state, right, left).map(|contained| !contained),
    }
}

fn contains(state: &State<'_, '_>, container: &Value, wanted: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        charge(state, container)?;
        let Some(wanted) = wanted.as_str() else { return Err(unsupported("in", wanted, container)) };
        return Ok(marks::plain(text).contains(marks::plain(wanted).as_ref()));
    }
    if let Some(map) = container.downcast_object_ref::<Map>() {
        return Ok(values::key_of(wanted).is_some_and(|key| map.entries.contains_key(&key)));
    }
    if let Some(list) = container.downcast_object_ref::<List>() {
        for item in &list.items {
            if is_equal(state, item, wanted)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        // A namespace.
        ValueKind::Map => Ok(!container.get_item(wanted)?.is_undefined()),
        _ => Err(unsupported("in", wanted, container)),
    }
}

/// `left operator value operator value …`; each holds.
fn compare(state: &State<'_, '_>, left: Value, rest: Rest<Value>) -> Result<bool, Error> {
    let mut left = &left;
    for pair in rest.chunks_exact(2) {
        if !holds(state, pair[0].as_str().unwrap_or_default(), left, &pair[1])? {
            return Ok(false);
        }
        left = &pair[1];
    }
    Ok(true)
}

#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            // Python rounds to the nearest as well.
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }

    fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

fn number(value: &Value) -> Option<Number> {
    match value.kind() {
        ValueKind::Bool => Some(Number::Integer(i128::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Integer),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
        _ => None,
    }
}

fn arithmetic(
    operator: &str,
    (left, right): (&Value, &Value),
    integers: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    match (number(left), number(right)) {
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => {
            let result =
                integers(a, b).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the number is too large"))?;
            Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from))
        }
        (Some(a), Some(b)) => Ok(Value::from(floats(a.float(), b.float()))),
        _ => Err(unsupported(operator, left, right)),
    }
}

fn add(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        state.consume_fuel((a.len() + b.len()) as u64 / 64)?;
        return Ok(Value::from([a, b].concat()));
    }
    if let (Some(a), Some(b)) = (left.downcast_object_ref::<List>(), right.downcast_object_ref::<List>())
        && a.is_tuple == b.is_tuple
    {
        state.consume_fuel((a.items.len() + b.items.len()) as u64)?;
        return list([&a.items[..], &b.items[..]].concat(), a.is_tuple);
    }
    arithmetic("+", (&left, &right), i128::checked_add, |a, b| a + b)
}

fn multiply(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    for (repeated, count) in [(&left, &right), (&right, &left)] {
        let Some(Number::Integer(count)) = number(count) else { continue };
        let times = u64::try_from(count.max(0)).unwrap_or(u64::MAX);
        if let Some(text) = repeated.as_str() {
            state.consume_fuel(times.saturating_mul(text.len() as u64) / 64)?;
            return Ok(Value::from(text.repeat(usize::try_from(times).unwrap_or(usize::MAX))));
        }
        if let Some(items) = repeated.downcast_object_ref::<List>() {
            state.consume_fuel(times.saturating_mul(items.items.len() as u64))?;
            let times = if items.items.is_empty() { 0 } else { times };
            return list((0..times).flat_map(|_| items.items.iter().cloned()).collect(), items.is_tuple);
        }
    }
    arithmetic("*", (&left, &right), i128::checked_mul, |a, b| a * b)
}

/// `left ~ right`: both as text.
fn join(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    charge(state, &left)?;
    charge(state, &right)?;
    Ok(Value::from(python::text(&left) + &python::text(&right)))
}

fn item(value: Value, key: Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let Some(text) = value.as_str() else { return value.get_item(&key) };
    let text = Marked::read(text);
    let Some(index) = key.as_i64() else { return Ok(Value::UNDEFINED) };
    let mut chars = text.text().char_indices();
    let place = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let found = if index < 0 { chars.nth_back(place - 1) } else { chars.nth(place) };
    Ok(found.map_or(Value::UNDEFINED, |(start, c)| Value::from(text.slice(start..start + c.len_utf8()))))
}

fn slice(
    state: &State<'_, '_>,
    value: Value,
    start: Option<Value>,
    stop: Option<Value>,
    step: Option<Value>,
) -> Result<Value, Error> {
    let bound = |bound: Option<Value>| match bound {
        None => Ok(None),
        Some(bound) if bound.is_none() => Ok(None),
        Some(bound) => bound.as_i64().map(Some).ok_or_else(|| invalid("a slice takes integers")),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(invalid("a slice has no step of zero"));
    }
    if let Some(text) = value.as_str() {
        charge(state, &value)?;
        let text = Marked::read(text);
        let starts: Vec<usize> =
            text.text().char_indices().map(|(start, _)| start).chain([text.text().len()]).collect();
        let places = places(starts.len() - 1, start, stop, step);
        if step == 1 {
            let ends = (places.first().copied().unwrap_or(0), places.last().map_or(0, |&last| last + 1));
            return Ok(Value::from(text.slice(starts[ends.0]..starts[ends.1.max(ends.0)])));
        }
        return Ok(Value::from(
            places.into_iter().map(|place| text.slice(starts[place]..starts[place + 1])).collect::<String>(),
        ));
    }
    let Some(items) = value.downcast_object_ref::<List>() else {
        let reason = format!("a value of type {} cannot be sliced", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
    };
    state.consume_fuel(items.items.len() as u64)?;
    list(
        places(items.items.len(), start, stop, step).into_iter().map(|place| items.items[place].clone()).collect(),
        items.is_tuple,
    )
}

/// The places that a slice of `length` things takes, by Python's rules.
fn places(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i64| (if bound < 0 { bound.saturating_add(length) } else { bound }).clamp(low, high.max(low));
    let (start, stop) = if step > 0 {
        (start.map_or(0, clamp), stop.map_or(length, clamp))
    } else {
        (start.map_or(length - 1, clamp), stop.map_or(-1, clamp))
    };
    let mut places = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        places.extend(usize::try_from(at));
        at = at.saturating_add(step);
    }
    places
}

fn invalid(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

fn unsupported(operator: &str, left: &Value, right: &Value) -> Error {
    if left.is_undefined() || right.is_undefined() {
        return Error::new(ErrorKind::UndefinedError, format!("{operator} of an undefined value"));
    }
    Error::new(
        ErrorKind::InvalidOperation,
        format!("{operator} is not defined for {} and {}", left.kind(), right.kind()),
    )
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn slices_take_the_places_of_pythons() {
        // list(range(n))[start:stop:step] in Python.
        for (length, start, stop, step, expected) in [
            (5, None, None, 1, vec![0, 1, 2, 3, 4]),
            (5, Some(1), Some(-1), 1, vec![1, 2, 3]),
            (5, Some(-2), None, 1, vec![3, 4]),
            (5, Some(-9), Some(9), 2, vec![0, 2, 4]),
            (5, None, None, -1, vec![4, 3, 2, 1, 0]),
            (5, Some(3), Some(0), -2, vec![3, 1]),
            (5, Some(9), Some(-9), -2, vec![4, 2, 0]),
            (5, None, Some(-2), -1, vec![4]),
            (5, Some(3), Some(3), 1, vec![]),
            (0, None, None, -1, vec![]),
            (0, Some(1), None, 1, vec![]),
            (3, Some(i64::MIN), Some(i64::MAX), i64::MAX, vec![0]),
            (3, None, None, i64::MIN, vec![2]),
        ] {
            assert_eq!(places(length, start, stop, step), expected, "{length} {start:?} {stop:?} {step}");
        }
    }
}
