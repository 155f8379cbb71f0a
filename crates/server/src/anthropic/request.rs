//! The body of a message, read field by field.

use std::sync::Arc;

use serde_json::{Map, Value};
use zinc_tokenizer::chat_template::{Content, FunctionCall, Message, ToolCall};

use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::{Fields, quoted, wrong_type};
use crate::generate::{Ask, Format, Prompt, SamplingChoice, Thinking, ToolChoice};
use crate::openai::{EFFORTS, check_schema, check_stops, checked_name};
use crate::parse::Tool;

/// A message that is wanted.
#[derive(Debug)]
pub(super) struct MessagesRequest {
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    pub(super) ask: Ask,
}

/// Whether tokens are only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An answer is wanted: `max_tokens` must be there.
    Answer,
    /// Tokens are counted.
    Count,
}

const TOKENS_MAX: u32 = 1 << 24;

impl MessagesRequest {
    /// Reads a body.
    pub(super) fn read(body: &[u8], purpose: Purpose, limits: &Limits) -> Result<MessagesRequest, ApiError> {
        let mut fields = Fields::parse(body)?;
        let model = fields.text("model")?;
        let mut messages = Vec::new();
        if let Some(system) = fields.any("system") {
            messages.push(Message::text("system", &text_of("system", system)?));
        }
        let list = fields.list("messages")?;
        let list = fields.required("messages", list)?;
        if list.is_empty() || list.len() > limits.messages_max {
            let (n, max) = (list.len(), limits.messages_max);
            return Err(ApiError::field("messages", format!("`messages` has {n} entries; it must have 1 to {max}")));
        }
        for (index, value) in list.into_iter().enumerate() {
            message(format!("messages[{index}]"), value, &mut messages)?;
        }
        let max_tokens = fields.count32("max_tokens", 1..=TOKENS_MAX)?;
        if purpose == Purpose::Answer {
            fields.required("max_tokens", max_tokens)?;
        }
        let tools = tools(fields.list("tools")?.unwrap_or_default(), limits)?;
        let (tool_choice, parallel_calls) = tool_choice(fields.object("tool_choice")?, &tools)?;
        let mut thinking = thinking(fields.object("thinking")?)?;
        let format = output(fields.object("output_config")?, &mut thinking, limits)?;
        let stop = match fields.list("stop_sequences")? {
            None => Vec::new(),
            Some(list) => {
                let text = |value| match value {
                    Value::String(text) => Ok(text),
                    other => Err(wrong_type("stop_sequences", "an array of strings", &other)),
                };
                check_stops("stop_sequences", list.into_iter().map(text).collect::<Result<_, _>>()?, limits)?
            }
        };
        let sampling = SamplingChoice {
            temperature: fields.number("temperature", 0.0..=2.0)?,
            top_p: fields.number("top_p", 0.0..=1.0)?.map(|p| p.max(f32::MIN_POSITIVE)),
            top_k: fields.count32("top_k", 0..=u32::MAX)?,
            ..SamplingChoice::default()
        };
        let stream = fields.flag("stream")?.unwrap_or(false);
        fields.pass(&["metadata", "cache_control"]);
        fields.refuse("speed", &["standard".into()], "there is one speed")?;
        fields.refuse("service_tier", &["auto".into(), "standard_only".into()], "there is one tier")?;
        fields.refuse("mcp_servers", &[], "this server calls no tools itself")?;
        fields.refuse("container", &[], "this server runs no code")?;
        fields.finish()?;
        let ask = Ask {
            prompt: Prompt::Chat { messages, variables: Map::new(), continues: false },
            tool_choice: if tools.is_empty() { ToolChoice::None } else { tool_choice },
            tools,
            parallel_calls,
            format,
            sampling,
            max_tokens,
            stop,
            n_choices: 1,
            seed: None,
            logprobs: None,
            thinking,
            ignore_eos: false,
            reports_progress: false,
        };
        Ok(MessagesRequest { model, stream, ask })
    }
}

/// Reads a message; one of a user may hold results of tools, which become messages of their own.
fn message(path: String, value: Value, all: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut fields = Fields::of(path, value)?;
    let role = fields.word("role", &[("user", "user"), ("assistant", "assistant"), ("system", "system")])?;
    let role = fields.required("role", role)?;
    let content = fields.any("content");
    let content = fields.required("content", content)?;
    let path = fields.at("content");
    fields.finish()?;
    let blocks = match content {
        Value::String(text) => {
            all.push(Message::text(role, &text));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        other => return Err(wrong_type(&path, "a string or an array of blocks", &other)),
    };
    let mut said = Said::default();
    for (index, block) in blocks.into_iter().enumerate() {
        said.block(format!("{path}[{index}]"), block, role)?;
    }
    all.append(&mut said.results);
    let has_more = !said.text.is_empty() || !said.calls.is_empty() || said.reasoning.is_some();
    if has_more || all.last().is_none_or(|last| last.role != "tool") {
        let content = (!said.text.is_empty() || said.calls.is_empty()).then_some(Content::Text(said.text));
        let tool_calls = (!said.calls.is_empty()).then_some(said.calls);
        all.push(Message { content, reasoning_content: said.reasoning, tool_calls, ..Message::text(role, "") });
    }
    Ok(())
}

/// What the blocks of a message hold.
#[derive(Default)]
struct Said {
    text: String,
    reasoning: Option<String>,
    calls: Vec<ToolCall>,
    results: Vec<Message>,
}

impl Said {
    fn block(&mut self, path: String, value: Value, role: &str) -> Result<(), ApiError> {
        let mut fields = Fields::of(path, value)?;
        let kind = fields.text("type")?;
        let kind = fields.required("type", kind)?;
        fields.pass(&["cache_control", "citations"]);
        match (kind.as_str(), role) {
            ("text", _) => {
                let text = fields.text("text")?;
                self.text.push_str(&fields.required("text", text)?);
            }
            ("thinking", "assistant") => {
                let text = fields.text("thinking")?;
                self.reasoning.get_or_insert_default().push_str(&fields.required("thinking", text)?);
                fields.pass(&["signature"]);
            }
            ("redacted_thinking", "assistant") => fields.pass(&["data"]),
            ("tool_use", "assistant") => {
                let id = fields.text("id")?;
                let id = fields.required("id", id)?;
                let name = fields.text("name")?;
                let name = fields.required("name", name)?;
                let arguments = fields.any("input").unwrap_or_else(|| Value::Object(Map::new()));
                self.calls.push(ToolCall { id: Some(id), function: FunctionCall { name, arguments } });
            }
            ("tool_result", "user") => {
                let id = fields.text("tool_use_id")?;
                let id = fields.required("tool_use_id", id)?;
                let path = fields.at("content");
                let text = fields.any("content").map_or(Ok(String::new()), |content| text_of(&path, content))?;
                let is_error = fields.flag("is_error")?.unwrap_or(false);
                let text = if is_error { format!("Error: {text}") } else { text };
                self.results.push(Message { tool_call_id: Some(id), ..Message::text("tool", &text) });
            }
            (other, role) => {
                let path = fields.at("type");
                let message = format!(
                    "`{path}` is {}; in messages of role \"{role}\" this server takes text and tools only",
                    quoted(other)
                );
                return Err(ApiError::bad("unsupported_content", message).about(path));
            }
        }
        fields.finish()
    }
}

/// A text, or blocks of text.
fn text_of(path: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Array(blocks) => {
            let mut texts = Vec::with_capacity(blocks.len());
            for (index, block) in blocks.into_iter().enumerate() {
                let mut fields = Fields::of(format!("{path}[{index}]"), block)?;
                let kind = fields.word("type", &[("text", ())])?;
                fields.required("type", kind)?;
                let text = fields.text("text")?;
                texts.push(fields.required("text", text)?);
                fields.pass(&["cache_control", "citations"]);
                fields.finish()?;
            }
            Ok(texts.join("\n"))
        }
        other => Err(wrong_type(path, "a string or an array of blocks of text", &other)),
    }
}

fn tools(list: Vec<Value>, limits: &Limits) -> Result<Arc<[Tool]>, ApiError> {
    if list.len() > limits.tools_max {
        let (n, max) = (list.len(), limits.tools_max);
        return Err(ApiError::field("tools", format!("`tools` has {n} entries, at most {max} are taken")));
    }
    let tool = |(index, value): (usize, Value)| {
        let mut fields = Fields::of(format!("tools[{index}]"), value)?;
        if let Some(kind) = fields.text("type")?.filter(|kind| kind != "custom") {
            let path = fields.at("type");
            let message = format!("`{path}` is {}; this server has no tools of its own", quoted(&kind));
            return Err(ApiError::bad("unsupported_tool", message).about(path));
        }
        let name = fields.text("name")?;
        let name = checked_name(&fields.at("name"), fields.required("name", name)?)?;
        let description = fields.text("description")?;
        let schema = fields.any("input_schema");
        let parameters = fields.required("input_schema", schema)?;
        check_schema(&fields.at("input_schema"), &parameters, limits)?;
        let strict = fields.flag("strict")?.unwrap_or(false);
        fields.pass(&["cache_control"]);
        fields.finish()?;
        Ok(Tool { name, description, parameters, strict })
    };
    list.into_iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>().map(Into::into)
}

fn tool_choice(fields: Option<Fields>, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    let Some(mut fields) = fields else { return Ok((ToolChoice::Auto, true)) };
    let kind = fields.word("type", &[("auto", 0), ("any", 1), ("tool", 2), ("none", 3)])?;
    let kind = fields.required("type", kind)?;
    let parallel = !fields.flag("disable_parallel_tool_use")?.unwrap_or(false);
    let choice = match kind {
        0 => ToolChoice::Auto,
        1 => ToolChoice::Required,
        2 => {
            let name = fields.text("name")?;
            ToolChoice::Named(fields.required("name", name)?)
        }
        _ => ToolChoice::None,
    };
    fields.finish()?;
    let missing = match &choice {
        ToolChoice::Named(name) => !tools.iter().any(|tool| tool.name == *name),
        ToolChoice::Required => tools.is_empty(),
        _ => false,
    };
    if missing {
        return Err(ApiError::field("tool_choice", "`tool_choice` asks for a tool that is not in `tools`"));
    }
    Ok((choice, parallel))
}

/// Reads `output_config`: the form of the answer, and how much thought it is worth.
fn output(fields: Option<Fields>, thinking: &mut Thinking, limits: &Limits) -> Result<Format, ApiError> {
    let Some(mut fields) = fields else { return Ok(Format::Text) };
    thinking.effort = fields.word("effort", &EFFORTS)?.map(str::to_owned);
    let format = match fields.object("format")? {
        None => Format::Text,
        Some(mut format) => {
            let kind = format.word("type", &[("json_schema", ())])?;
            format.required("type", kind)?;
            let schema = format.any("schema");
            let schema = format.required("schema", schema)?;
            check_schema(&format.at("schema"), &schema, limits)?;
            format.finish()?;
            Format::Schema(schema)
        }
    };
    fields.finish()?;
    Ok(format)
}

fn thinking(fields: Option<Fields>) -> Result<Thinking, ApiError> {
    let Some(mut fields) = fields else { return Ok(Thinking::default()) };
    let kind = fields.word("type", &[("enabled", Some(true)), ("disabled", Some(false)), ("adaptive", None)])?;
    let switch = fields.required("type", kind)?;
    let budget = fields.count32("budget_tokens", 0..=TOKENS_MAX)?;
    fields.pass(&["display"]);
    fields.finish()?;
    Ok(Thinking { switch, effort: None, budget })
}
