//! The body of a response, read field by field.

use serde_json::{Map, Value, json};
use zinc_tokenizer::chat_template::{FunctionCall, Message, ToolCall};

use super::chat_request::EFFORTS;
use super::message::messages;
use super::sampling::{bookkeeping, sampling, top_logprobs};
use super::tools::{Style, format, tool_choice, tools};
use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::{Fields, quoted, wrong_type};
use crate::generate::{Ask, Prompt, Thinking, ToolChoice};

/// A response that is wanted.
#[derive(Debug)]
pub(super) struct ResponsesRequest {
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    /// What the answer repeats of the request.
    pub(super) echo: Map<String, Value>,
    pub(super) ask: Ask,
}

const TOKENS_MAX: u32 = 1 << 24;
/// Fields of a request that its answer repeats.
const ECHOED: [&str; 9] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "temperature",
    "top_p",
    "tool_choice",
    "tools",
    "parallel_tool_calls",
    "user",
];

impl ResponsesRequest {
    /// Reads a body.
    pub(super) fn read(body: &[u8], limits: &Limits) -> Result<ResponsesRequest, ApiError> {
        let mut fields = Fields::parse(body)?;
        let echo = echo(&fields);
        let model = fields.text("model")?;
        let input = fields.any("input");
        let input = fields.required("input", input)?;
        let instructions = fields.text("instructions")?;
        let messages = conversation(instructions, input, limits)?;
        let tools = tools(fields.list("tools")?.unwrap_or_default(), Style::Flat, limits)?;
        let choice = tool_choice(fields.any("tool_choice"), &tools, Style::Flat)?;
        let format = match fields.object("text")? {
            None => crate::generate::Format::Text,
            Some(mut text) => {
                let format = format(text.object("format")?, Style::Flat, limits)?;
                text.refuse("verbosity", &[json!("medium")], "no model here has such a setting")?;
                text.finish()?;
                format
            }
        };
        let thinking = thinking(&mut fields)?;
        let n_top = top_logprobs(&mut fields, "top_logprobs")?;
        if n_top.is_some_and(|n| n > 0) {
            let message = "`top_logprobs` is not supported by this path; use /v1/chat/completions";
            return Err(ApiError::bad("unsupported_parameter", message).about("top_logprobs"));
        }
        let ask = Ask {
            prompt: Prompt::Chat { messages, variables: Map::new(), continues: false },
            tool_choice: if tools.is_empty() { ToolChoice::None } else { choice },
            tools,
            parallel_calls: fields.flag("parallel_tool_calls")?.unwrap_or(true),
            format,
            sampling: sampling(&mut fields)?,
            max_tokens: fields.count32("max_output_tokens", 1..=TOKENS_MAX)?,
            stop: Vec::new(),
            n_choices: 1,
            seed: super::chat_request::seed(&mut fields)?,
            logprobs: None,
            thinking,
            ignore_eos: false,
            reports_progress: false,
        };
        let stream = fields.flag("stream")?.unwrap_or(false);
        fields.pass(&["include", "stream_options"]);
        bookkeeping(&mut fields)?;
        let kept = "this server keeps no answers; send the whole conversation as `input`";
        fields.refuse("previous_response_id", &[], kept)?;
        fields.refuse("conversation", &[], kept)?;
        fields.refuse("background", &[json!(false)], "answers come at once or as a stream")?;
        fields.refuse("truncation", &[json!("disabled")], "conversations that are too long are refused")?;
        fields.refuse("prompt", &[], "this server keeps no prompts")?;
        fields.refuse("max_tool_calls", &[], "this server runs no tools itself")?;
        fields.finish()?;
        Ok(ResponsesRequest { model, stream, echo, ask })
    }
}

/// Copies what the answer repeats.
fn echo(fields: &Fields) -> Map<String, Value> {
    ECHOED.iter().map(|name| ((*name).to_owned(), fields.peek(name).cloned().unwrap_or(Value::Null))).collect()
}

fn thinking(fields: &mut Fields) -> Result<Thinking, ApiError> {
    let mut thinking = Thinking::default();
    if let Some(mut reasoning) = fields.object("reasoning")? {
        thinking.effort = reasoning.word("effort", &EFFORTS)?.map(str::to_owned);
        // Thinking is given as it is; a wish for summaries is met by that.
        reasoning.pass(&["summary", "generate_summary"]);
        reasoning.finish()?;
    }
    Ok(thinking)
}

/// `input`: a text, or items.
fn conversation(instructions: Option<String>, input: Value, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    let mut all: Vec<Message> = instructions.iter().map(|text| Message::text("system", text)).collect();
    match input {
        Value::String(text) => all.push(Message::text("user", &text)),
        Value::Array(items) => {
            if items.is_empty() || items.len() > limits.messages_max {
                let (n, max) = (items.len(), limits.messages_max);
                return Err(ApiError::field("input", format!("`input` has {n} items; it must have 1 to {max}")));
            }
            for (index, value) in items.into_iter().enumerate() {
                item(format!("input[{index}]"), value, &mut all, limits)?;
            }
        }
        other => return Err(wrong_type("input", "a string or an array of items", &other)),
    }
    Ok(all)
}

fn item(path: String, value: Value, all: &mut Vec<Message>, limits: &Limits) -> Result<(), ApiError> {
    let mut fields = Fields::of(path.clone(), value)?;
    let kind = fields.text("type")?.unwrap_or_else(|| "message".to_owned());
    fields.pass(&["id", "status"]);
    match kind.as_str() {
        "message" => {
            let mut read = messages(vec![fields.rest().into()], limits).map_err(|error| renamed(error, &path))?;
            all.append(&mut read);
        }
        "function_call" => {
            let id = fields.text("call_id")?;
            let id = fields.required("call_id", id)?;
            let name = fields.text("name")?;
            let name = fields.required("name", name)?;
            let arguments = fields.text("arguments")?.unwrap_or_else(|| "{}".to_owned()).into();
            fields.finish()?;
            let call = ToolCall { id: Some(id), function: FunctionCall { name, arguments } };
            assistant(all).tool_calls.get_or_insert_default().push(call);
        }
        "function_call_output" => {
            let id = fields.text("call_id")?;
            let id = fields.required("call_id", id)?;
            let output = fields.any("output");
            let output = fields.required("output", output)?;
            fields.finish()?;
            let text = text_of(&format!("{path}.output"), output)?;
            all.push(Message { tool_call_id: Some(id), ..Message::text("tool", &text) });
        }
        "reasoning" => {
            let mut text = String::new();
            for name in ["content", "summary"] {
                for part in fields.list(name)?.unwrap_or_default() {
                    if text.is_empty() || name == "content" {
                        text.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default());
                    }
                }
            }
            fields.pass(&["encrypted_content"]);
            fields.finish()?;
            assistant(all).reasoning_content.get_or_insert_default().push_str(&text);
        }
        other => {
            let message = format!("`{path}.type` is {}; this server has no such items", quoted(other));
            return Err(ApiError::bad("unsupported_content", message).about(format!("{path}.type")));
        }
    }
    Ok(())
}

/// The assistant's message that the conversation ends with, a new one if it ends otherwise.
fn assistant(all: &mut Vec<Message>) -> &mut Message {
    if all.last().is_none_or(|message| message.role != "assistant") {
        all.push(Message { content: None, ..Message::text("assistant", "") });
    }
    all.last_mut().expect("one was put there")
}

fn text_of(path: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let mut text = String::new();
            for part in &parts {
                match part.get("text") {
                    Some(Value::String(piece)) => text.push_str(piece),
                    _ => return Err(wrong_type(path, "text or parts of text", part)),
                }
            }
            Ok(text)
        }
        other => Err(wrong_type(path, "a string or an array of parts", &other)),
    }
}

/// Messages are read one by one; their errors must name the item.
fn renamed(mut error: ApiError, path: &str) -> ApiError {
    error.message = error.message.replace("messages[0]", path);
    error.param = error.param.map(|param| param.replace("messages[0]", path));
    error
}

#[cfg(test)]
mod tests {
    use super::ResponsesRequest;
    use crate::config::Limits;
    use crate::generate::Prompt;
    use serde_json::{Value, json};
    use zinc_tokenizer::chat_template::{Content, Message};

    fn shown(message: &Message) -> String {
        match &message.content {
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().filter_map(|p| p.get("text")?.as_str()).collect(),
            None => String::new(),
        }
    }

    fn read(body: Value) -> Result<ResponsesRequest, crate::error::ApiError> {
        ResponsesRequest::read(body.to_string().as_bytes(), &Limits::STANDARD)
    }

    #[test]
    fn items_become_messages() {
        let wanted = read(json!({"instructions": "Be brief.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Look."}]},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        ]}))
        .unwrap();
        let Prompt::Chat { messages, .. } = wanted.ask.prompt else { panic!("a conversation") };
        let roles: Vec<(&str, String)> = messages.iter().map(|m| (m.role.as_str(), shown(m))).collect();
        let expected = [("system", "Be brief."), ("user", "Weather?"), ("assistant", ""), ("tool", "sunny")];
        assert_eq!(roles, expected.map(|(role, text)| (role, text.to_owned())));
        assert_eq!(messages[2].reasoning_content.as_deref(), Some("Look."));
        assert_eq!(messages[2].tool_calls.as_ref().unwrap()[0].function.name, "weather");
    }

    #[test]
    fn what_needs_memory_is_refused_by_name() {
        let error = read(json!({"input": "x", "previous_response_id": "resp_1"})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("previous_response_id"));
        let error = read(json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("input[0].content[0].type"));
    }
}
