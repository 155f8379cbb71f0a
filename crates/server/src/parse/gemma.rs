//! A call as Gemma 4 writes it: `call:name{key:value,…}`, strings between `<|"|>`.

use serde_json::{Map, Value};

/// What stands around a string.
const QUOTE: &str = "<|\"|>";
/// Values within values that are followed.
const DEPTH_MAX: usize = 64;

/// Name and arguments of a complete call.
pub(super) fn call(text: &str) -> Option<(String, Value)> {
    let text = text.trim().strip_prefix("call:")?;
    let at = text.find('{')?;
    let mut rest = &text[at..];
    let arguments = value(&mut rest, 0)?;
    rest.trim().is_empty().then(|| (text[..at].trim().to_owned(), arguments))
}

fn value(rest: &mut &str, depth: usize) -> Option<Value> {
    *rest = rest.trim_start();
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(after) = rest.strip_prefix(QUOTE) {
        let (text, after) = after.split_once(QUOTE)?;
        *rest = after;
        return Some(text.into());
    }
    if let Some(after) = rest.strip_prefix('{') {
        *rest = after;
        return object(rest, depth);
    }
    if let Some(after) = rest.strip_prefix('[') {
        *rest = after;
        return list(rest, depth);
    }
    let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    let word = word.trim();
    // Numbers, true, false and null are as in JSON; a bare word is a string.
    (!word.is_empty()).then(|| serde_json::from_str(word).unwrap_or_else(|_| word.into()))
}

fn object(rest: &mut &str, depth: usize) -> Option<Value> {
    let mut fields = Map::new();
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            *rest = after;
            return Some(fields.into());
        }
        if !fields.is_empty() {
            *rest = rest.strip_prefix(',')?.trim_start();
        }
        let key = match rest.strip_prefix(QUOTE) {
            Some(after) => {
                let (key, after) = after.split_once(QUOTE)?;
                *rest = after.trim_start();
                key.to_owned()
            }
            None => {
                let end = rest.find(':')?;
                let key = rest[..end].trim().to_owned();
                *rest = &rest[end..];
                key
            }
        };
        *rest = rest.strip_prefix(':')?;
        let value = value(rest, depth + 1)?;
        fields.insert(key, value);
    }
}

fn list(rest: &mut &str, depth: usize) -> Option<Value> {
    let mut items = Vec::new();
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(']') {
            *rest = after;
            return Some(items.into());
        }
        if !items.is_empty() {
            *rest = rest.strip_prefix(',')?;
        }
        items.push(value(rest, depth + 1)?);
    }
}

#[cfg(test)]
mod tests {
    use super::call;
    use serde_json::json;

    /// The forms that the family's own template writes.
    #[test]
    fn calls_become_json() {
        let cases = [
            (
                r#"call:look_up{city:<|"|>Bern, CH<|"|>,days:3,now:true}"#,
                json!({"city": "Bern, CH", "days": 3, "now": true}),
            ),
            (r#"call:look_up{a:[1,<|"|>x<|"|>],b:{<|"|>k<|"|>:null}}"#, json!({"a": [1, "x"], "b": {"k": null}})),
            ("call:look_up{}", json!({})),
        ];
        for (text, expected) in cases {
            assert_eq!(call(text), Some(("look_up".to_owned(), expected)), "{text}");
        }
        let deep = format!("call:f{{a:{}", "[".repeat(100_000));
        for broken in ["look_up{}", "call:look_up{a:", "call:f{a:1}x", "call:f{a 1}", deep.as_str()] {
            assert_eq!(call(broken), None);
        }
    }
}
