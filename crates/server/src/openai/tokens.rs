//! `POST /tokenize` and `/detokenize`, with the fields that vLLM's have.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use zinc_tokenizer::{DecodeOptions, Encode};

use super::message::messages;
use super::tools::{Style, tools};
use crate::error::{ApiError, json_response};
use crate::fields::{Fields, wrong_type};
use crate::generate::{Ask, Format, Prompt, SamplingChoice, Thinking, ToolChoice, prepare};
use crate::router::openai_answer;
use crate::state::App;
use crate::work;

/// Ids that are turned into text at once.
const IDS_MAX: usize = 1 << 22;

pub(crate) async fn tokenize(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(encode(app, request).await)
}

async fn encode(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let mut fields = Fields::parse(&incoming.body)?;
    let name = fields.text("model")?;
    let text = match fields.text("prompt")? {
        Some(text) => Some(text),
        None => fields.text("content")?,
    };
    let list = fields.list("messages")?;
    let add_special = fields.flag("add_special_tokens")?.or(fields.flag("add_special")?).unwrap_or(true);
    let parse_special = fields.flag("parse_special")?.unwrap_or(false);
    let tools = tools(fields.list("tools")?.unwrap_or_default(), Style::Nested, &app.config.limits)?;
    let with_texts = fields.flag("return_token_strs")?.or(fields.flag("with_pieces")?).unwrap_or(false);
    fields.pass(&["add_generation_prompt"]);
    fields.finish()?;
    let model = work::model(&app, &incoming.record, name.as_deref()).await?;
    let context = model.loaded.context_tokens;
    let limits = app.config.limits;
    let of_model = std::sync::Arc::clone(&model);
    let ids = work::blocking(move || match (text, list) {
        (Some(text), None) => Ok(of_model.loaded.tokenizer.encode(&text, Encode { add_special, parse_special })),
        (None, Some(list)) => {
            let messages = messages(list, &limits)?;
            let ask = chat(messages, tools);
            prepare(of_model, ask).map(|plan| plan.ids)
        }
        _ => Err(ApiError::field("prompt", "either `prompt` or `messages` is needed")),
    });
    let ids = ids.await?;
    let mut object = json!({"count": ids.len(), "max_model_len": context, "tokens": ids});
    if with_texts {
        let text = |id: &u32| String::from_utf8_lossy(model.loaded.tokenizer.piece(*id)).into_owned();
        object["token_strs"] = ids.iter().map(text).collect::<Vec<_>>().into();
    }
    Ok(json_response(StatusCode::OK, &object))
}

/// A conversation of which only the prompt matters.
pub(crate) fn chat(
    messages: Vec<zinc_tokenizer::chat_template::Message>,
    tools: std::sync::Arc<[crate::parse::Tool]>,
) -> Ask {
    Ask {
        prompt: Prompt::Chat { messages, variables: Map::new(), continues: false },
        tool_choice: if tools.is_empty() { ToolChoice::None } else { ToolChoice::Auto },
        tools,
        parallel_calls: true,
        format: Format::Text,
        sampling: SamplingChoice::default(),
        max_tokens: None,
        stop: Vec::new(),
        n_choices: 1,
        seed: Some(0),
        logprobs: None,
        thinking: Thinking::default(),
        ignore_eos: false,
        reports_progress: false,
    }
}

pub(crate) async fn detokenize(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(decode(app, request).await)
}

async fn decode(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let mut fields = Fields::parse(&incoming.body)?;
    let name = fields.text("model")?;
    let list = fields.list("tokens")?;
    let list = fields.required("tokens", list)?;
    fields.finish()?;
    if list.len() > IDS_MAX {
        let n = list.len();
        return Err(ApiError::field("tokens", format!("`tokens` has {n} entries, at most {IDS_MAX} are taken")));
    }
    let model = work::model(&app, &incoming.record, name.as_deref()).await?;
    let tokenizer = &model.loaded.tokenizer;
    let id = |value: &Value| {
        let id = value
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| wrong_type("tokens", "an array of token ids", value))?;
        match tokenizer.token_text(id) {
            Some(_) => Ok(id),
            None => {
                let n_vocab = tokenizer.n_vocab();
                Err(ApiError::field(
                    "tokens",
                    format!("`tokens` has the id {id}; the vocabulary has {n_vocab} entries"),
                ))
            }
        }
    };
    let ids: Vec<u32> = list.iter().map(id).collect::<Result<_, _>>()?;
    let text = tokenizer.decode(&ids, DecodeOptions { render_special: true, continues: false });
    Ok(json_response(StatusCode::OK, &json!({"prompt": text, "content": text})))
}
