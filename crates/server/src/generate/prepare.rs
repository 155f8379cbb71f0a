//! From an [`Ask`] to a [`Plan`]: the prompt in ids, the parameters of sampling, what is forced.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use zinc_tokenizer::Encode;
use zinc_tokenizer::chat_template::{ChatTemplate, Content, Error, LocalTime, Message, RenderInput};

use super::ask::{Ask, Prompt, SamplingChoice, Thinking, ToolChoice};
use super::forced::{self, Forced};
use crate::engine::Sampling;
use crate::error::ApiError;
use crate::models::{Model, PENALTY_WINDOW};
use crate::parse::{Beginning, Dialect, Tool, ToolFormat};

/// A request that one model can carry out.
pub(crate) struct Plan {
    /// The model.
    pub(crate) model: Arc<Model>,
    /// Keeps the model loaded.
    pub(crate) _lease: Arc<()>,
    /// The prompt.
    pub(crate) ids: Vec<u32>,
    /// How the answer is written: [`Dialect::NONE`] where all of it is text.
    pub(crate) dialect: Dialect,
    /// Functions that calls are looked for of.
    pub(crate) tools: Arc<[Tool]>,
    /// What the prompt has opened in the dialect, for the parser.
    pub(crate) opened: String,
    /// Whether the answer begins, or goes on from what the client has.
    pub(crate) beginning: Beginning,
    /// What the answer must be.
    pub(crate) forced: Option<Forced>,
    /// Whether thinking may come before what is forced.
    pub(crate) thinks_first: bool,
    /// Tokens of thinking at most.
    pub(crate) thinking_max: Option<u32>,
    /// Tokens of an answer at most.
    pub(crate) max_tokens: u32,
    /// How tokens are chosen.
    pub(crate) sampling: Sampling,
    /// Seed.
    pub(crate) seed: u64,
    /// Texts that end an answer.
    pub(crate) stop: Vec<String>,
    /// Answers.
    pub(crate) n_choices: u32,
    /// Log probabilities at each token.
    pub(crate) logprobs: Option<u32>,
    /// Whether several calls may stand in one answer.
    pub(crate) parallel_calls: bool,
    /// Go on after the end of an answer.
    pub(crate) ignore_eos: bool,
    /// Report the prompt's progress.
    pub(crate) reports_progress: bool,
}

/// Makes the plan of a request. Renders and encodes: not on a thread that serves others.
pub(crate) fn prepare(model: Arc<Model>, ask: Ask) -> Result<Plan, ApiError> {
    let calls = ask.tool_choice != ToolChoice::None && !ask.tools.is_empty();
    let tools: Arc<[Tool]> = if calls { Arc::clone(&ask.tools) } else { Arc::new([]) };
    let chat = match &ask.prompt {
        Prompt::Chat { .. } => Some(Rendering::of(&model, &ask, &tools)?),
        _ => None,
    };
    let is_chat = chat.is_some();
    let continues = matches!(ask.prompt, Prompt::Chat { continues: true, .. });
    let (ids, opened, thinks_first) = match chat {
        Some(Rendering { ids, opened, thinks }) => (ids, opened, thinks),
        None => (prompt_ids(&model, &ask.prompt), String::new(), false),
    };
    let dialect = if is_chat { model.dialect } else { Dialect::NONE };
    let forced = forced::call(dialect, &tools, &ask.tool_choice, &model.loaded.tokenizer)
        .or_else(|| forced::format(dialect, &ask.format));
    let max_tokens = room(&model, ids.len(), ask.max_tokens)?;
    let defaults = match (&model.loaded.thinking_sampling, thinks_first) {
        (Some(thinking), true) => thinking,
        _ => &model.loaded.sampling,
    };
    Ok(Plan {
        sampling: sampling(&ask.sampling, defaults),
        seed: ask.seed.unwrap_or_else(random),
        dialect,
        tools,
        opened,
        beginning: if continues { Beginning::Continued } else { Beginning::Fresh },
        forced,
        thinks_first,
        thinking_max: ask.thinking.budget.filter(|_| dialect.thinking.is_some()),
        max_tokens,
        ids,
        stop: ask.stop,
        n_choices: ask.n_choices,
        logprobs: ask.logprobs,
        parallel_calls: ask.parallel_calls,
        ignore_eos: ask.ignore_eos,
        reports_progress: ask.reports_progress,
        _lease: model.lease(),
        model,
    })
}

/// The ids of a prompt that is no conversation.
fn prompt_ids(model: &Model, prompt: &Prompt) -> Vec<u32> {
    match prompt {
        Prompt::Text(text) => model.loaded.tokenizer.encode(text, Encode { add_special: true, parse_special: false }),
        Prompt::Ids(ids) => ids.clone(),
        Prompt::Chat { .. } => Vec::new(),
    }
}

/// Tokens that the context leaves for an answer, or those asked for if they are fewer.
fn room(model: &Model, n_prompt: usize, wanted: Option<u32>) -> Result<u32, ApiError> {
    let context = model.loaded.context_tokens;
    let left = u32::try_from(n_prompt).ok().and_then(|n| context.checked_sub(n)).unwrap_or(0);
    if left == 0 {
        let message = format!(
            "the prompt has {n_prompt} tokens, which leaves no room for an answer in this model's context of {context} \
             tokens; shorten the conversation, or start the server with a larger context"
        );
        return Err(ApiError::bad("context_length_exceeded", message).about("messages"));
    }
    Ok(wanted.unwrap_or(left).min(left))
}

fn sampling(choice: &SamplingChoice, defaults: &Sampling) -> Sampling {
    Sampling {
        temperature: choice.temperature.unwrap_or(defaults.temperature),
        top_k: choice.top_k.unwrap_or(defaults.top_k),
        top_p: choice.top_p.unwrap_or(defaults.top_p),
        min_p: choice.min_p.unwrap_or(defaults.min_p),
        repetition_penalty: choice.repetition_penalty.unwrap_or(defaults.repetition_penalty),
        presence_penalty: choice.presence_penalty.unwrap_or(defaults.presence_penalty),
        frequency_penalty: choice.frequency_penalty.unwrap_or(defaults.frequency_penalty),
        penalty_window: PENALTY_WINDOW,
        logit_bias: choice.logit_bias.clone(),
    }
}

/// A rendered conversation.
struct Rendering {
    ids: Vec<u32>,
    opened: String,
    /// Whether the answer may begin with thinking.
    thinks: bool,
}

/// Stands for the end of a message that is to be continued.
const CUT: &str = "zinc:cut-here";

impl Rendering {
    fn of(model: &Model, ask: &Ask, tools: &[Tool]) -> Result<Rendering, ApiError> {
        let Prompt::Chat { messages, variables, continues } = &ask.prompt else {
            unreachable!("the caller has looked");
        };
        let template = model.loaded.template.as_ref().map_err(|why| {
            let message = format!("this model cannot chat: {why}; use /v1/completions");
            ApiError::bad("no_chat_template", message).about("messages")
        })?;
        if !tools.is_empty() && model.dialect.tools == ToolFormat::None {
            let message = "`tools` is not supported by this model: its chat template has no form for calls";
            return Err(ApiError::bad("unsupported_parameter", message).about("tools"));
        }
        let (variables, switch) = thinking_variables(model, template, &ask.thinking, variables)?;
        let tools: Vec<Value> = tools.iter().map(tool_json).collect();
        let mut messages = messages.clone();
        let cut_at = if *continues { Some(mark_cut(&mut messages)?) } else { None };
        let input = RenderInput {
            messages: &messages,
            tools: &tools,
            add_generation_prompt: !continues,
            now: now(),
            variables: &variables,
        };
        let rendered = template.render(&input).map_err(|error| template_error(&error))?;
        let mut parts: Vec<_> = rendered.parts().collect();
        let mut text = rendered.text();
        if *continues {
            text = cut(text, &mut parts)?;
        }
        let ids = model.loaded.tokenizer.encode_parts(&parts);
        let opened = opened(model.dialect, text, cut_at);
        let closed = model.dialect.thinking.is_some_and(|marks| text.trim_end().ends_with(marks.close));
        let thinks = model.dialect.thinking.is_some()
            && (cut_at == Some(CutAt::Reasoning)
                || (cut_at.is_none() && !opened.is_empty())
                || (!closed && !continues && switch.unwrap_or(model.thinks_by_default)));
        Ok(Rendering { ids, opened, thinks })
    }
}

/// The template's variables, with what the client says on thinking in the template's own words.
fn thinking_variables(
    model: &Model,
    template: &ChatTemplate,
    thinking: &Thinking,
    variables: &Map<String, Value>,
) -> Result<(Map<String, Value>, Option<bool>), ApiError> {
    let mut variables = variables.clone();
    let can = template.capabilities();
    let named = |name: &str| variables.get(name).and_then(Value::as_bool);
    let mut switch = thinking.switch.or_else(|| can.thinking_switch.and_then(named));
    if let Some(effort) = &thinking.effort {
        match (effort.as_str(), can.reasoning_effort, can.thinking_switch) {
            ("none", _, Some(_)) => switch = switch.or(Some(false)),
            ("none", _, None) if model.dialect.thinking.is_none() => {}
            ("none", _, None) => {
                let message =
                    "`reasoning_effort` is \"none\", but this model always thinks; limit it with `reasoning_budget`";
                return Err(ApiError::bad("unsupported_parameter", message).about("reasoning_effort"));
            }
            (effort, true, _) => {
                let word = match effort {
                    "minimal" => "low",
                    "xhigh" => "high",
                    other => other,
                };
                variables.insert("reasoning_effort".to_owned(), word.into());
            }
            (_, false, Some(_)) => switch = switch.or(Some(true)),
            (_, false, None) => {
                let message =
                    "`reasoning_effort` is not supported by this model: its chat template has no such setting";
                return Err(ApiError::bad("unsupported_parameter", message).about("reasoning_effort"));
            }
        }
    }
    match (switch, can.thinking_switch) {
        (Some(on), Some(name)) => {
            variables.insert(name.to_owned(), on.into());
        }
        // What a model always or never does may be asked for.
        (Some(on), None) if on == model.dialect.thinking.is_some() => {}
        (Some(on), None) => {
            let is = if on { "never" } else { "always" };
            let message =
                format!("`enable_thinking` is {on}, but this model {is} thinks: its chat template has no switch");
            return Err(ApiError::bad("unsupported_parameter", message).about("enable_thinking"));
        }
        (None, _) => {}
    }
    Ok((variables, switch))
}

/// Where a message that is to be continued ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutAt {
    /// In what it says.
    Content,
    /// In its thinking.
    Reasoning,
}

/// Puts a mark at the end of the last message.
fn mark_cut(messages: &mut [Message]) -> Result<CutAt, ApiError> {
    let refusal = || {
        let message = "`continue_final_message` needs a last message of role \"assistant\" with text in it";
        ApiError::field("continue_final_message", message)
    };
    let last = messages.last_mut().filter(|message| message.role == "assistant").ok_or_else(refusal)?;
    match (&mut last.content, &mut last.reasoning_content) {
        (Some(Content::Text(text)), _) if !text.is_empty() => {
            text.push_str(CUT);
            Ok(CutAt::Content)
        }
        (_, Some(reasoning)) => {
            reasoning.push_str(CUT);
            Ok(CutAt::Reasoning)
        }
        _ => Err(refusal()),
    }
}

/// Cuts the text and its parts at the mark.
fn cut<'t>(text: &'t str, parts: &mut Vec<zinc_tokenizer::Part<'t>>) -> Result<&'t str, ApiError> {
    let refusal = || {
        let message =
            "`continue_final_message` is not supported by this model: its chat template does not show the message";
        ApiError::bad("unsupported_parameter", message).about("continue_final_message")
    };
    let at = text.rfind(CUT).ok_or_else(refusal)?;
    let mut left = at;
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts.iter() {
        let n = part.text.len().min(left);
        kept.push(zinc_tokenizer::Part { text: &part.text[..n], trusted: part.trusted });
        left -= n;
        if left == 0 {
            break;
        }
    }
    *parts = kept;
    Ok(&text[..at])
}

/// The mark that the prompt has opened and left for the answer to close.
fn opened(dialect: Dialect, text: &str, cut_at: Option<CutAt>) -> String {
    let thinking = dialect.thinking.map(|marks| marks.open);
    let mark = match cut_at {
        None => thinking.filter(|open| text.trim_end().ends_with(open)),
        Some(CutAt::Reasoning) => thinking,
        Some(CutAt::Content) => (dialect.tools == ToolFormat::Harmony).then_some("<|channel|>final<|message|>"),
    };
    mark.unwrap_or_default().to_owned()
}

/// A tool as templates read it.
fn tool_json(tool: &Tool) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.name.clone().into());
    function.insert("description".to_owned(), tool.description.clone().unwrap_or_default().into());
    function.insert("parameters".to_owned(), tool.parameters.clone());
    serde_json::json!({"type": "function", "function": function})
}

/// A template's refusal as an answer.
fn template_error(error: &Error) -> ApiError {
    let message = error.to_string();
    match error {
        Error::Content { .. } => ApiError::bad("unsupported_content", message).about("messages"),
        Error::Refused { .. } | Error::Untraceable => ApiError::bad("invalid_messages", message).about("messages"),
        _ => ApiError::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "template_failed", message).about("messages"),
    }
}

/// The time in UTC; a clock before 1970 counts as 1970.
fn now() -> LocalTime {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let time = LocalTime::from_unix(i64::try_from(seconds).unwrap_or(0), 0).or_else(|| LocalTime::from_unix(0, 0));
    time.expect("1970 is a year that a clock can show")
}

/// A number that nobody can foresee, from the system's randomness.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A name that is unique to a request or a part of an answer.
pub(crate) fn request_id(prefix: &str) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()));
    format!("{prefix}{:016x}{:016x}", random(), hasher.finish())
}
