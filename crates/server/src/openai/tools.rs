//! Tools, the choice among them, and forms of answers, as OpenAI's APIs describe them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::{Fields, quoted, wrong_type};
use crate::generate::{Format, ToolChoice};
use crate::parse::Tool;

/// Bytes of a function's name.
const NAME_BYTES_MAX: usize = 128;

/// How a tool is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `{"type": "function", "function": {…}}`.
    Nested,
    /// `{"type": "function", "name": …}`.
    Flat,
}

/// Reads `tools`.
pub(super) fn tools(list: Vec<Value>, style: Style, limits: &Limits) -> Result<Arc<[Tool]>, ApiError> {
    if list.len() > limits.tools_max {
        let (n, max) = (list.len(), limits.tools_max);
        return Err(ApiError::field("tools", format!("`tools` has {n} entries, at most {max} are taken")));
    }
    let tools =
        list.into_iter().enumerate().map(|(index, value)| tool(format!("tools[{index}]"), value, style, limits));
    let tools: Vec<Tool> = tools.collect::<Result<_, _>>()?;
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|other| other.name == tool.name) {
            return Err(ApiError::field("tools", format!("`tools` has the name {} twice", quoted(&tool.name))));
        }
    }
    Ok(tools.into())
}

/// The fields that describe or name a function: those given, or those of their `function`.
fn function_of(mut fields: Fields, style: Style) -> Result<Fields, ApiError> {
    if matches!(style, Style::Flat) {
        return Ok(fields);
    }
    let function = fields.object("function")?;
    let function = fields.required("function", function)?;
    fields.finish()?;
    Ok(function)
}

fn tool(path: String, value: Value, style: Style, limits: &Limits) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(path, value)?;
    let kind = fields.text("type")?;
    let kind = fields.required("type", kind)?;
    if kind != "function" {
        let path = fields.at("type");
        let message = format!("`{path}` is {}; this server calls tools of type \"function\" only", quoted(&kind));
        return Err(ApiError::bad("unsupported_tool", message).about(path));
    }
    let mut function = function_of(fields, style)?;
    let name = function.text("name")?;
    let name = checked_name(&function.at("name"), function.required("name", name)?)?;
    let description = function.text("description")?;
    let strict = function.flag("strict")?.unwrap_or(false);
    let parameters = function.any("parameters").unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    check_schema(&function.at("parameters"), &parameters, limits)?;
    function.finish()?;
    Ok(Tool { name, description, parameters, strict })
}

/// A name that every family's form of calls can carry.
pub(crate) fn checked_name(path: &str, name: String) -> Result<String, ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        let message =
            format!("`{path}` is {}; it must be 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` or `.`", quoted(&name));
        return Err(ApiError::field(path, message));
    }
    Ok(name)
}

/// Bounds a schema's size and depth, and asks for an object.
pub(crate) fn check_schema(path: &str, schema: &Value, limits: &Limits) -> Result<(), ApiError> {
    if !schema.is_object() {
        return Err(wrong_type(path, "a JSON schema, which is an object", schema));
    }
    let max = limits.schema_depth_max;
    if depth(schema) > max {
        return Err(ApiError::field(path, format!("`{path}` is nested deeper than the {max} levels that are taken")));
    }
    check_grammar_size(path, schema.to_string().len(), limits)
}

pub(crate) fn check_grammar_size(path: &str, n_bytes: usize, limits: &Limits) -> Result<(), ApiError> {
    let max = limits.grammar_bytes_max;
    if n_bytes > max {
        return Err(ApiError::field(path, format!("`{path}` has {n_bytes} bytes, at most {max} are taken")));
    }
    Ok(())
}

/// Levels of arrays and objects. The reader of JSON has bounded them already.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Reads `tool_choice`; without tools only what asks for none will do.
pub(super) fn tool_choice(value: Option<Value>, tools: &[Tool], style: Style) -> Result<ToolChoice, ApiError> {
    let choice = match value {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            other => {
                let message = format!(
                    "`tool_choice` is {}; it must be \"none\", \"auto\", \"required\" or a function",
                    quoted(other)
                );
                return Err(ApiError::field("tool_choice", message));
            }
        },
        Some(value) => {
            let mut fields = Fields::of("tool_choice".to_owned(), value)?;
            let kind = fields.word("type", &[("function", ())])?;
            fields.required("type", kind)?;
            let mut function = function_of(fields, style)?;
            let name = function.text("name")?;
            let name = function.required("name", name)?;
            function.finish()?;
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(ApiError::field(
                    "tool_choice",
                    format!("`tool_choice` names {}, which is not in `tools`", quoted(&name)),
                ));
            }
            ToolChoice::Named(name)
        }
    };
    if tools.is_empty() && choice == ToolChoice::Required {
        return Err(ApiError::field("tool_choice", "`tool_choice` is \"required\", but there are no `tools`"));
    }
    Ok(choice)
}

/// Reads `response_format`, or `text.format` of the responses API.
pub(super) fn format(fields: Option<Fields>, style: Style, limits: &Limits) -> Result<Format, ApiError> {
    let Some(mut fields) = fields else { return Ok(Format::Text) };
    let kind = fields.word("type", &[("text", 0), ("json_object", 1), ("json_schema", 2)])?;
    let format = match fields.required("type", kind)? {
        0 => Format::Text,
        1 => Format::JsonObject,
        _ => {
            let mut holder = match style {
                Style::Flat => {
                    let schema = schema(&mut fields, limits)?;
                    fields.finish()?;
                    return Ok(schema);
                }
                Style::Nested => {
                    let holder = fields.object("json_schema")?;
                    fields.required("json_schema", holder)?
                }
            };
            let schema = schema(&mut holder, limits)?;
            holder.finish()?;
            schema
        }
    };
    fields.finish()?;
    Ok(format)
}

/// Reads `structured_outputs`, in vLLM's words: exactly one of a schema, a regular expression, a grammar, a few texts.
pub(super) fn structured(format: Format, fields: Option<Fields>, limits: &Limits) -> Result<Format, ApiError> {
    let Some(mut fields) = fields else { return Ok(format) };
    let path = fields.at("");
    let path = path.trim_end_matches('.').to_owned();
    let mut found = Vec::new();
    if let Some(schema) = fields.any("json") {
        check_schema(&fields.at("json"), &schema, limits)?;
        found.push(Format::Schema(schema));
    }
    for (name, form) in [("regex", Format::Regex as fn(String) -> Format), ("grammar", Format::Grammar)] {
        if let Some(text) = fields.text(name)? {
            check_grammar_size(&fields.at(name), text.len(), limits)?;
            found.push(form(text));
        }
    }
    if let Some(list) = fields.list("choice")? {
        let path = fields.at("choice");
        check_grammar_size(&path, Value::from(list.clone()).to_string().len(), limits)?;
        let text = |value: &Value| match value {
            Value::String(text) if !text.is_empty() => Ok(value.to_string()),
            other => Err(wrong_type(&path, "an array of texts that are not empty", other)),
        };
        let texts = list.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        found.push(Format::Grammar(format!("start: {}", texts.join(" | "))));
    }
    fields.finish()?;
    match (found.len(), format) {
        (1, Format::Text) => Ok(found.remove(0)),
        _ => {
            let message = format!(
                "`{path}` must hold one of `json`, `regex`, `grammar`, `choice`, and no `response_format` beside it"
            );
            Err(ApiError::field(path, message))
        }
    }
}

fn schema(fields: &mut Fields, limits: &Limits) -> Result<Format, ApiError> {
    let schema = fields.any("schema");
    let schema = fields.required("schema", schema)?;
    check_schema(&fields.at("schema"), &schema, limits)?;
    fields.text("name")?;
    fields.text("description")?;
    fields.flag("strict")?;
    Ok(Format::Schema(schema))
}
