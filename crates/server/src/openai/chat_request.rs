//! The body of a chat completion, read field by field.

use serde_json::{Map, Value, json};

use super::message::messages;
use super::sampling::{bookkeeping, sampling, stop, top_logprobs};
use super::tools::{Style, format, structured, tool_choice, tools};
use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate::{Ask, Prompt, Thinking, ToolChoice};
use crate::sse::Reading;

/// A chat completion that is wanted.
#[derive(Debug)]
pub(super) struct ChatRequest {
    /// The model's name.
    pub(super) model: Option<String>,
    /// Whether it comes piece by piece, and how.
    pub(super) stream: Option<StreamOptions>,
    /// Rivals shown at each token.
    pub(super) n_top_logprobs: u32,
    /// The rest.
    pub(super) ask: Ask,
}

/// How an answer is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamOptions {
    /// A last piece with the usage.
    pub(super) include_usage: bool,
    /// What becomes of it when its reader goes away.
    pub(super) reading: Reading,
}

/// Most tokens that a number may ask for.
const TOKENS_MAX: u32 = 1 << 24;
/// Variables of a template that a request may set.
const VARIABLES_MAX: usize = 32;
/// The words of `reasoning_effort`.
pub(crate) const EFFORTS: [(&str, &str); 6] = [
    ("none", "none"),
    ("minimal", "minimal"),
    ("low", "low"),
    ("medium", "medium"),
    ("high", "high"),
    ("xhigh", "xhigh"),
];

impl ChatRequest {
    /// Reads a body.
    pub(super) fn read(body: &[u8], limits: &Limits) -> Result<ChatRequest, ApiError> {
        let mut fields = Fields::parse(body)?;
        let model = fields.text("model")?;
        let list = fields.list("messages")?;
        let messages = messages(fields.required("messages", list)?, limits)?;
        let tools = tools(fields.list("tools")?.unwrap_or_default(), Style::Nested, limits)?;
        let choice = tool_choice(fields.any("tool_choice"), &tools, Style::Nested)?;
        let format = format(fields.object("response_format")?, Style::Nested, limits)?;
        let format = structured(format, fields.object("structured_outputs")?, limits)?;
        let stream = stream(&mut fields)?;
        let logprobs = fields.flag("logprobs")?.unwrap_or(false);
        let n_top = top_logprobs(&mut fields, "top_logprobs")?;
        if n_top.is_some_and(|n| n > 0) && !logprobs {
            return Err(ApiError::field("top_logprobs", "`top_logprobs` needs `logprobs` to be true"));
        }
        let (variables, thinking) = thinking(&mut fields)?;
        let ask = Ask {
            prompt: Prompt::Chat { messages, variables, continues: continues(&mut fields)? },
            tool_choice: if tools.is_empty() { ToolChoice::None } else { choice },
            tools,
            parallel_calls: fields.flag("parallel_tool_calls")?.unwrap_or(true),
            format,
            sampling: sampling(&mut fields)?,
            max_tokens: max_tokens(&mut fields)?,
            stop: stop(&mut fields, limits)?,
            n_choices: fields.count32("n", 1..=limits.choices_max)?.unwrap_or(1),
            seed: seed(&mut fields)?,
            logprobs: logprobs.then_some(n_top.unwrap_or(0)),
            thinking,
            ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
            reports_progress: fields.flag("return_progress")?.unwrap_or(false),
        };
        bookkeeping(&mut fields)?;
        let why = "this server answers with text";
        fields.refuse("modalities", &[json!(["text"])], why)?;
        fields.refuse("audio", &[], why)?;
        fields.refuse("prediction", &[], "predicted outputs are not used")?;
        fields.refuse("web_search_options", &[], "this server searches nothing")?;
        fields.refuse("verbosity", &[json!("medium")], "no model here has such a setting")?;
        fields.refuse("functions", &[], "use `tools`")?;
        fields.refuse("function_call", &[], "use `tool_choice`")?;
        fields.finish()?;
        Ok(ChatRequest { model, stream, n_top_logprobs: n_top.unwrap_or(0), ask })
    }
}

/// Reads `stream` and `stream_options`.
pub(super) fn stream(fields: &mut Fields) -> Result<Option<StreamOptions>, ApiError> {
    let stream = fields.flag("stream")?.unwrap_or(false);
    let Some(mut options) = fields.object("stream_options")? else {
        return Ok(stream.then_some(StreamOptions { include_usage: false, reading: Reading::Once }));
    };
    if !stream {
        return Err(ApiError::field("stream_options", "`stream_options` needs `stream` to be true"));
    }
    let include_usage = options.flag("include_usage")?.unwrap_or(false);
    let reading = if options.flag("resumable")?.unwrap_or(false) { Reading::Resumable } else { Reading::Once };
    options.refuse("include_obfuscation", &[json!(false)], "streams are not padded")?;
    options.finish()?;
    Ok(Some(StreamOptions { include_usage, reading }))
}

/// Reads `max_completion_tokens`, or `max_tokens`, its older name.
fn max_tokens(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let old = fields.count32("max_tokens", 1..=TOKENS_MAX)?;
    Ok(fields.count32("max_completion_tokens", 1..=TOKENS_MAX)?.or(old))
}

/// Reads `seed`, which clients may give as a negative number.
pub(super) fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match fields.any("seed") {
        None => Ok(None),
        Some(value) => {
            let seed = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
            seed.map(Some).ok_or_else(|| crate::fields::wrong_type("seed", "an integer of 64 bits", &value))
        }
    }
}

/// Reads what the client says on thinking, and the template's variables.
fn thinking(fields: &mut Fields) -> Result<(Map<String, Value>, Thinking), ApiError> {
    let variables = fields.object("chat_template_kwargs")?.map(Fields::rest).unwrap_or_default();
    let reserved = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token"];
    if let Some(name) = reserved.iter().find(|name| variables.contains_key(**name)) {
        return Err(ApiError::field("chat_template_kwargs", format!("`chat_template_kwargs` must not set `{name}`")));
    }
    if variables.len() > VARIABLES_MAX {
        let n = variables.len();
        return Err(ApiError::field(
            "chat_template_kwargs",
            format!("`chat_template_kwargs` has {n} entries, at most {VARIABLES_MAX} are taken"),
        ));
    }
    let budget = fields.count32("reasoning_budget", 0..=TOKENS_MAX)?;
    let budget = budget.or(fields.count32("thinking_budget", 0..=TOKENS_MAX)?);
    let thinking = Thinking {
        switch: fields.flag("enable_thinking")?,
        effort: fields.word("reasoning_effort", &EFFORTS)?.map(str::to_owned),
        budget,
    };
    Ok((variables, thinking))
}

/// Reads whether the last message is to be continued, in vLLM's words.
fn continues(fields: &mut Fields) -> Result<bool, ApiError> {
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    let prompts = fields.flag("add_generation_prompt")?.unwrap_or(!continues);
    if prompts == continues {
        let message = if continues {
            "`add_generation_prompt` must be false where `continue_final_message` is true"
        } else {
            "`add_generation_prompt` is false, which needs `continue_final_message` to be true"
        };
        return Err(ApiError::field("add_generation_prompt", message));
    }
    Ok(continues)
}
