//! Reading a JSON object field by field: types and ranges are checked, and what nobody asked for is refused by name.
//!
//! `null` counts as absent, as the APIs have it. Every error names the field with its path.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::ApiError;

/// The fields of an object that were not yet taken.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The object in the body of a request.
    pub(crate) fn parse(body: &[u8]) -> Result<Fields, ApiError> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::bad("invalid_json", format!("the body is not valid JSON: {error}")))?;
        Fields::of(String::new(), value)
    }

    /// The object at `path`.
    pub(crate) fn of(path: String, value: Value) -> Result<Fields, ApiError> {
        match value {
            Value::Object(map) => Ok(Fields { path, map }),
            other => Err(wrong_type(if path.is_empty() { "the body" } else { &path }, "an object", &other)),
        }
    }

    /// The path of a field of this object.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A field that stays.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// Takes a field whatever it is.
    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(&self.at(name), "a string", &other)),
        }
    }

    /// Takes true or false.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong_type(&self.at(name), "a boolean", &other)),
        }
    }

    /// Takes a number in a range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.any(name) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| wrong_type(&self.at(name), "a number", &value))?;
        if !range.contains(&number) {
            return Err(self.out_of_range(name, number, &range));
        }
        #[allow(clippy::cast_possible_truncation, reason = "the range bounds it; f32 is what sampling computes in")]
        Ok(Some(number as f32))
    }

    /// Takes a whole number in a range.
    pub(crate) fn count(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.any(name) else { return Ok(None) };
        if !value.is_number() {
            return Err(wrong_type(&self.at(name), "an integer", &value));
        }
        match value.as_u64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(self.out_of_range(name, &value, &range)),
        }
    }

    /// As [`Fields::count`], in 32 bits.
    pub(crate) fn count32(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, ApiError> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        Ok(self.count(name, wide)?.and_then(|number| u32::try_from(number).ok()))
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong_type(&self.at(name), "an array", &other)),
        }
    }

    /// Takes an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Fields>, ApiError> {
        let path = self.at(name);
        self.any(name).map(|value| Fields::of(path, value)).transpose()
    }

    /// Takes one of a few words.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        let known = || words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let path = self.at(name);
        let message = || format!("`{path}` is {}; it must be one of {}", quoted(&text), known());
        found.map(Some).ok_or_else(|| ApiError::field(path.clone(), message()))
    }

    /// Refuses a field unless it is absent or has the value that asks for nothing.
    pub(crate) fn refuse(&mut self, name: &str, harmless: &[Value], why: &str) -> Result<(), ApiError> {
        match self.any(name) {
            Some(value) if !harmless.contains(&value) => {
                let path = self.at(name);
                Err(ApiError::bad("unsupported_parameter", format!("`{path}` is not supported: {why}")).about(path))
            }
            _ => Ok(()),
        }
    }

    /// Takes fields that change nothing here, whatever they hold.
    pub(crate) fn pass(&mut self, names: &[&str]) {
        for name in names {
            self.map.shift_remove(*name);
        }
    }

    /// A field that must be there.
    pub(crate) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, ApiError> {
        let path = self.at(name);
        value.ok_or_else(|| {
            ApiError::bad("missing_required_parameter", format!("`{path}` is missing")).about(path.clone())
        })
    }

    /// The rest, for an object that passes on what it does not know.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.map.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => {
                let path = self.at(&name.chars().take(100).collect::<String>());
                Err(ApiError::bad("unknown_parameter", format!("`{path}` is not a parameter that this server knows"))
                    .about(path))
            }
        }
    }

    fn out_of_range<T: Display>(&self, name: &str, value: impl Display, range: &RangeInclusive<T>) -> ApiError {
        let path = self.at(name);
        let message = format!("`{path}` is {value}; it must be {} to {}", range.start(), range.end());
        ApiError::field(path, message)
    }
}

/// The error of a value that is of another type.
pub(crate) fn wrong_type(path: &str, wanted: &str, got: &Value) -> ApiError {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let error = ApiError::bad("invalid_type", format!("`{path}` is {got}; it must be {wanted}"));
    if path == "the body" { error } else { error.about(path) }
}

/// A text of a client, shortened for a message.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::Fields;
    use serde_json::json;

    fn message(result: Result<impl std::fmt::Debug, crate::error::ApiError>) -> (String, Option<String>) {
        let error = result.unwrap_err();
        (error.message, error.param)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut fields =
            Fields::of(String::new(), json!({"a": "x", "b": 3, "c": -1, "d": {"e": 1.5}, "w": "up"})).unwrap();
        assert_eq!(message(fields.number("a", 0.0..=1.0)).0, "`a` is a string; it must be a number");
        assert_eq!(message(fields.number("b", 0.0..=2.0)).0, "`b` is 3; it must be 0 to 2");
        assert_eq!(message(fields.count("c", 0..=9)).0, "`c` is -1; it must be 0 to 9");
        let mut inner = fields.object("d").unwrap().unwrap();
        assert_eq!(message(inner.count("e", 0..=9)), ("`d.e` is 1.5; it must be 0 to 9".into(), Some("d.e".into())));
        assert_eq!(
            message(fields.word("w", &[("left", 1), ("right", 2)])).0,
            "`w` is \"up\"; it must be one of \"left\", \"right\""
        );
        assert_eq!(message(Fields::parse(b"[1]")).0, "`the body` is an array; it must be an object");
        assert!(message(Fields::parse(b"{\"a\":")).0.starts_with("the body is not valid JSON"));
        assert!(Fields::parse("[".repeat(100_000).as_bytes()).is_err(), "deep nesting is refused, not followed");
    }

    #[test]
    fn null_is_absent_and_leftovers_are_refused() {
        let mut fields = Fields::of(String::new(), json!({"a": null, "b": true, "store": false, "more": 1})).unwrap();
        assert_eq!(fields.text("a").unwrap(), None);
        assert_eq!(fields.flag("b").unwrap(), Some(true));
        fields.refuse("store", &[json!(false)], "nothing is kept").unwrap();
        let error = fields.finish().unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), ("unknown_parameter", Some("more")));
        let mut fields = Fields::of(String::new(), json!({"store": true})).unwrap();
        assert_eq!(
            message(fields.refuse("store", &[json!(false)], "nothing is kept")).0,
            "`store` is not supported: nothing is kept"
        );
    }
}
