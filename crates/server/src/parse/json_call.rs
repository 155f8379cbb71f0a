//! A call as a JSON object, `{"name": …, "arguments": {…}}`, whose arguments are given out as they come.

use serde_json::Value;

use super::text::Nesting;

/// Names of the field that holds the arguments.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// Reads one object.
#[derive(Debug, Default)]
pub(super) struct JsonCall {
    text: String,
    outer: Nesting,
    form: Form,
    is_closed: bool,
}

#[derive(Debug, Default)]
enum Form {
    /// The beginning is not decided.
    #[default]
    Undecided,
    /// The name is known and the arguments, an object, are being given out.
    Streaming { inner: Nesting, sent: usize, inner_closed: bool },
    /// In an order or form that needs the whole object.
    Whole,
}

/// What came of a push.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The function's name.
    Name(String),
    /// More of the arguments.
    Arguments(String),
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It goes on.
    Open,
    /// The object is complete.
    Closed,
    /// It is no call; the text is in [`JsonCall::text`].
    NotACall,
}

impl JsonCall {
    /// Everything taken so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Takes text from the front of `buffer`, up to the end of the object.
    pub(super) fn take(&mut self, buffer: &mut String, found: &mut Vec<Found>) -> Status {
        let mut end = buffer.len();
        for (at, c) in buffer.char_indices() {
            if self.text.is_empty() && at == 0 && c != '{' {
                return Status::NotACall;
            }
            if self.outer.closes(c) {
                end = at + c.len_utf8();
                self.is_closed = true;
                break;
            }
        }
        self.text.push_str(&buffer[..end]);
        buffer.drain(..end);
        if let Form::Undecided = self.form {
            self.decide(found);
        }
        self.stream(found);
        match (&self.form, self.is_closed) {
            (_, false) => Status::Open,
            (Form::Streaming { .. }, true) => Status::Closed,
            (_, true) => self.whole(found),
        }
    }

    fn decide(&mut self, found: &mut Vec<Found>) {
        match head(&self.text) {
            Head::Undecided => {}
            Head::Other => self.form = Form::Whole,
            Head::Call { name, arguments_at } => {
                found.push(Found::Name(name));
                self.form = Form::Streaming { inner: Nesting::default(), sent: arguments_at, inner_closed: false };
            }
        }
    }

    fn stream(&mut self, found: &mut Vec<Found>) {
        let Form::Streaming { inner, sent, inner_closed } = &mut self.form else { return };
        if *inner_closed {
            return;
        }
        let start = *sent;
        for c in self.text[start..].chars() {
            *sent += c.len_utf8();
            if inner.closes(c) {
                *inner_closed = true;
                break;
            }
        }
        if *sent > start {
            found.push(Found::Arguments(self.text[start..*sent].to_owned()));
        }
    }

    fn whole(&self, found: &mut Vec<Found>) -> Status {
        let Ok(Value::Object(fields)) = serde_json::from_str(&self.text) else { return Status::NotACall };
        let Some(Value::String(name)) = fields.get("name") else { return Status::NotACall };
        let arguments = match ARGUMENTS.iter().find_map(|key| fields.get(*key)) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "{}".to_owned(),
        };
        found.push(Found::Name(name.clone()));
        found.push(Found::Arguments(arguments));
        Status::Closed
    }
}

enum Head {
    Undecided,
    Call { name: String, arguments_at: usize },
    Other,
}

/// Reads `{"name": "…", "arguments": {`.
fn head(text: &str) -> Head {
    let mut at = 0;
    let mut name = None;
    if let Some(end) = literal(text, &mut at, "{") {
        return end;
    }
    loop {
        let key = match string(text, &mut at) {
            Ok(key) => key,
            Err(end) => return end,
        };
        if let Some(end) = literal(text, &mut at, ":") {
            return end;
        }
        match (key.as_str(), name.take()) {
            ("name", None) => match string(text, &mut at) {
                Ok(value) => name = Some(value),
                Err(end) => return end,
            },
            (key, Some(name)) if ARGUMENTS.contains(&key) => {
                blank(text, &mut at);
                return match text[at..].chars().next() {
                    None => Head::Undecided,
                    Some('{') => Head::Call { name, arguments_at: at },
                    Some(_) => Head::Other,
                };
            }
            _ => return Head::Other,
        }
        if let Some(end) = literal(text, &mut at, ",") {
            return end;
        }
    }
}

fn blank(text: &str, at: &mut usize) {
    *at += text[*at..].len() - text[*at..].trim_start().len();
}

/// Skips white space and `wanted`; something if that is not there.
fn literal(text: &str, at: &mut usize, wanted: &str) -> Option<Head> {
    blank(text, at);
    if text[*at..].starts_with(wanted) {
        *at += wanted.len();
        return None;
    }
    Some(if text[*at..].is_empty() { Head::Undecided } else { Head::Other })
}

/// Reads a JSON string.
fn string(text: &str, at: &mut usize) -> Result<String, Head> {
    if let Some(end) = literal(text, at, "\"") {
        return Err(end);
    }
    let start = *at - 1;
    let mut escaped = false;
    for (offset, c) in text[*at..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let end = *at + offset + 1;
                *at = end;
                return serde_json::from_str(&text[start..end]).map_err(|_| Head::Other);
            }
            _ => {}
        }
    }
    Err(Head::Undecided)
}
