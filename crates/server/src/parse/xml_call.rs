//! A call in tags, as Qwen3-Coder and Qwen3.5 write it: `<function=name>`, then `<parameter=key>`, a value, `</parameter>`
//! for each argument, then `</function>`.
//!
//! A value is text; the schema of the tool says whether it stands for a string or for other JSON.

use serde_json::Value;

use super::Tool;
use super::json_call::{Found, Status};

/// Reads one call.
#[derive(Debug, Default)]
pub(super) struct XmlCall {
    text: String,
    name: Option<String>,
    n_arguments: usize,
}

impl XmlCall {
    /// Everything taken so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Takes complete tags from the front of `buffer`.
    pub(super) fn take(&mut self, buffer: &mut String, tools: &[Tool], found: &mut Vec<Found>) -> Status {
        loop {
            let rest = buffer.trim_start();
            let Some(name) = &self.name else {
                let Some(after) = rest.strip_prefix("<function=") else {
                    return if "<function=".starts_with(rest) { Status::Open } else { Status::NotACall };
                };
                let Some((name, _)) = after.split_once('>') else { return Status::Open };
                let name = name.trim().to_owned();
                found.push(Found::Name(name.clone()));
                self.consume(buffer, '>');
                self.name = Some(name);
                continue;
            };
            if rest.starts_with("</function>") {
                let open = if self.n_arguments == 0 { "{}" } else { "}" };
                found.push(Found::Arguments(open.to_owned()));
                self.consume(buffer, '>');
                return Status::Closed;
            }
            let Some(after) = rest.strip_prefix("<parameter=") else {
                let undecided = ["<parameter=", "</function>"].iter().any(|tag| tag.starts_with(rest));
                return if undecided { Status::Open } else { Status::NotACall };
            };
            let Some((key, value_on)) = after.split_once('>') else { return Status::Open };
            let Some((value, left)) = value_on.split_once("</parameter>") else { return Status::Open };
            let value = value.strip_prefix('\n').unwrap_or(value);
            let value = value.strip_suffix('\n').unwrap_or(value);
            let json = typed(value, tools, name, key.trim());
            let separator = if self.n_arguments == 0 { "{" } else { ", " };
            found.push(Found::Arguments(format!("{separator}{}: {json}", Value::from(key.trim()))));
            self.n_arguments += 1;
            let n_taken = buffer.len() - left.len();
            self.text.push_str(&buffer[..n_taken]);
            buffer.drain(..n_taken);
        }
    }

    /// Moves text up to and with `end` to what is taken.
    fn consume(&mut self, buffer: &mut String, end: char) {
        let n_taken = buffer.find(end).map_or(buffer.len(), |at| at + end.len_utf8());
        self.text.push_str(&buffer[..n_taken]);
        buffer.drain(..n_taken);
    }
}

/// The value that a text stands for.
fn typed(text: &str, tools: &[Tool], function: &str, key: &str) -> Value {
    let schema =
        tools.iter().find(|tool| tool.name == function).map(|tool| &tool.parameters["properties"][key]["type"]);
    let wants_text = match schema {
        Some(Value::String(name)) => name == "string",
        Some(Value::Array(names)) => names.iter().any(|name| name == "string"),
        _ => false,
    };
    if wants_text { text.into() } else { serde_json::from_str(text.trim()).unwrap_or_else(|_| text.into()) }
}
