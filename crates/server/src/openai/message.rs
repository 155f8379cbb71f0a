//! Messages of a conversation, as chat completions have them.

use serde_json::{Map, Value};
use zinc_tokenizer::chat_template::{Content, FunctionCall, Message, ToolCall};

use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::{Fields, quoted, wrong_type};

const ROLES: [(&str, &str); 5] =
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant"), ("tool", "tool")];
/// Fields that answers carry and that clients send back with them; they change nothing for a model.
const ECHOED: [&str; 6] = ["refusal", "annotations", "audio", "function_call", "reasoning_details", "metadata"];

/// Reads `messages`.
pub(super) fn messages(list: Vec<Value>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    if list.is_empty() {
        return Err(ApiError::field("messages", "`messages` is empty; at least one message is needed"));
    }
    if list.len() > limits.messages_max {
        let (n, max) = (list.len(), limits.messages_max);
        return Err(ApiError::field("messages", format!("`messages` has {n} entries, at most {max} are taken")));
    }
    list.into_iter().enumerate().map(|(index, value)| message(format!("messages[{index}]"), value, limits)).collect()
}

fn message(path: String, value: Value, limits: &Limits) -> Result<Message, ApiError> {
    let mut fields = Fields::of(path, value)?;
    let role = fields.word("role", &ROLES)?;
    let role = fields.required("role", role)?;
    let content = match fields.any("content") {
        None => None,
        Some(Value::String(text)) => Some(Content::Text(text)),
        Some(Value::Array(parts)) => Some(parts_of(&fields.at("content"), parts, limits)?),
        Some(other) => return Err(wrong_type(&fields.at("content"), "a string or an array of parts", &other)),
    };
    let reasoning = fields.text("reasoning_content")?;
    let reasoning_content = reasoning.or(fields.text("reasoning")?);
    let tool_calls = match fields.list("tool_calls")? {
        Some(calls) if role != "assistant" && !calls.is_empty() => {
            let path = fields.at("tool_calls");
            return Err(ApiError::field(
                path.clone(),
                format!("`{path}` stands only in messages of role \"assistant\""),
            ));
        }
        Some(calls) => Some(tool_calls(&fields.at("tool_calls"), calls, limits)?).filter(|calls| !calls.is_empty()),
        None => None,
    };
    let tool_call_id = fields.text("tool_call_id")?;
    if role == "tool" && tool_call_id.is_none() {
        fields.required("tool_call_id", None::<()>)?;
    }
    if content.is_none() && tool_calls.is_none() && reasoning_content.is_none() {
        fields.required("content", None::<()>)?;
    }
    let name = fields.text("name")?;
    fields.pass(&ECHOED);
    fields.finish()?;
    Ok(Message { role: role.to_owned(), content, reasoning_content, tool_calls, tool_call_id, name, more: Map::new() })
}

/// Parts of a message; only text is understood.
fn parts_of(path: &str, parts: Vec<Value>, limits: &Limits) -> Result<Content, ApiError> {
    if parts.len() > limits.messages_max {
        let (n, max) = (parts.len(), limits.messages_max);
        return Err(ApiError::field(path, format!("`{path}` has {n} parts, at most {max} are taken")));
    }
    let mut read = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let mut fields = Fields::of(format!("{path}[{index}]"), part)?;
        let kind = fields.text("type")?;
        let kind = fields.required("type", kind)?;
        let text = match kind.as_str() {
            "text" | "input_text" | "output_text" => fields.text("text")?,
            "refusal" => fields.text("refusal")?,
            other => {
                let path = fields.at("type");
                let message =
                    format!("`{path}` is {}; this server understands parts of type \"text\" only", quoted(other));
                return Err(ApiError::bad("unsupported_content", message).about(path));
            }
        };
        let text = fields.required("text", text)?;
        fields.pass(&["annotations", "logprobs"]);
        fields.finish()?;
        read.push(Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text.into())]));
    }
    Ok(Content::Parts(read))
}

fn tool_calls(path: &str, calls: Vec<Value>, limits: &Limits) -> Result<Vec<ToolCall>, ApiError> {
    if calls.len() > limits.tools_max {
        let (n, max) = (calls.len(), limits.tools_max);
        return Err(ApiError::field(path, format!("`{path}` has {n} entries, at most {max} are taken")));
    }
    let call = |(index, value): (usize, Value)| {
        let mut fields = Fields::of(format!("{path}[{index}]"), value)?;
        let id = fields.text("id")?;
        fields.word("type", &[("function", ())])?;
        fields.pass(&["index"]);
        let function = fields.object("function")?;
        let mut function = fields.required("function", function)?;
        fields.finish()?;
        let name = function.text("name")?;
        let name = function.required("name", name)?;
        let arguments = function.any("arguments").unwrap_or_else(|| "{}".into());
        if !arguments.is_string() && !arguments.is_object() {
            return Err(wrong_type(&function.at("arguments"), "a string of JSON", &arguments));
        }
        function.finish()?;
        Ok(ToolCall { id, function: FunctionCall { name, arguments } })
    };
    calls.into_iter().enumerate().map(call).collect()
}
