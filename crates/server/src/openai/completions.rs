//! `POST /v1/completions`: texts that are continued as they are, without a template.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use zinc_tokenizer::DecodeOptions;

use super::chat_request::{StreamOptions, seed, stream};
use super::sampling::{bookkeeping, sampling, stop, top_logprobs};
use super::tools::{Style, format, structured};
use super::usage::{finite, timings, usage};
use crate::config::Limits;
use crate::error::{ApiError, Shape, json_response};
use crate::fields::{Fields, wrong_type};
use crate::generate::{Ask, Finish, Piece, Prompt, Thinking, TokenLogprob, ToolChoice, request_id};
use crate::models::Model;
use crate::parse::Delta;
use crate::router::openai_answer;
use crate::sse::{Out, Writer};
use crate::state::App;
use crate::{sse, work};

/// Tokens if a request says nothing, as OpenAI has it.
const TOKENS_DEFAULT: u32 = 16;
const TOKENS_MAX: u32 = 1 << 24;

/// A completion that is wanted.
struct CompletionRequest {
    model: Option<String>,
    stream: Option<StreamOptions>,
    echo: bool,
    /// Rivals shown at each token; nothing without log probabilities.
    n_top: Option<u32>,
    /// Answers that are given; as many as are made, or the likeliest of them.
    n_given: u32,
    ask: Ask,
}

pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(answer(app, request).await)
}

async fn answer(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let (body, limits) = (incoming.body, app.config.limits);
    let wanted = work::blocking(move || CompletionRequest::read(&body, &limits)).await?;
    let record = incoming.record;
    let model = work::model(&app, &record, wanted.model.as_deref()).await?;
    let n_choices = wanted.ask.n_choices;
    let echo = wanted.echo.then(|| prompt_text(&model, &wanted.ask.prompt));
    let head =
        Head { id: request_id("cmpl-"), created: work::unix_seconds(), model: Arc::clone(&model), n_top: wanted.n_top };
    let mut generation = work::start(model, wanted.ask).await?;
    let echo = echo.unwrap_or_default();
    if let Some(options) = wanted.stream {
        let offsets = vec![echo.chars().count(); n_choices as usize];
        let writer = TextWriter { head, include_usage: options.include_usage, echo, offsets };
        return sse::respond(app, record, generation, writer, options.reading).await;
    }
    let empty = || Text { text: echo.clone(), logprobs: Vec::new(), finish: None };
    let mut texts: Vec<Text> = (0..n_choices).map(|_| empty()).collect();
    let take = |piece| match piece {
        Piece::Delta { choice, delta: Delta::Content(text), logprobs } => {
            texts[choice as usize].text.push_str(&text);
            texts[choice as usize].logprobs.extend(logprobs);
        }
        Piece::End { choice, finish, logprobs } => {
            texts[choice as usize].logprobs.extend(logprobs);
            texts[choice as usize].finish = Some(finish);
        }
        _ => {}
    };
    let summary = work::collect(&app, &record, &mut generation, take).await?;
    if n_choices > wanted.n_given {
        texts.sort_by(|a, b| b.mean_logprob().total_cmp(&a.mean_logprob()));
        texts.truncate(wanted.n_given as usize);
    }
    let choices = texts.iter().enumerate().map(|(index, text)| {
        let logprobs = head.logprobs(&text.logprobs, &mut echo.chars().count());
        let finish = text.finish.as_ref().map_or("stop", Finish::openai);
        json!({"index": index, "text": text.text, "logprobs": logprobs, "finish_reason": finish})
    });
    let mut object = head.object();
    object["choices"] = choices.collect();
    object["usage"] = usage(&summary);
    object["timings"] = timings(&summary);
    Ok(json_response(StatusCode::OK, &object))
}

struct Text {
    text: String,
    logprobs: Vec<TokenLogprob>,
    finish: Option<Finish>,
}

impl Text {
    /// How likely the model found it, a token.
    fn mean_logprob(&self) -> f32 {
        let sum: f32 = self.logprobs.iter().map(|entry| entry.logprob).sum();
        sum / self.logprobs.len().max(1) as f32
    }
}

impl CompletionRequest {
    fn read(body: &[u8], limits: &Limits) -> Result<CompletionRequest, ApiError> {
        let mut fields = Fields::parse(body)?;
        let model = fields.text("model")?;
        let prompt = fields.any("prompt");
        let prompt = prompt_of(fields.required("prompt", prompt)?)?;
        let stream = stream(&mut fields)?;
        let echo = fields.flag("echo")?.unwrap_or(false);
        let logprobs = top_logprobs(&mut fields, "logprobs")?;
        if echo && logprobs.is_some() {
            let message = "`echo` together with `logprobs` is not supported: prompts are not scored";
            return Err(ApiError::bad("unsupported_parameter", message).about("logprobs"));
        }
        let format = format(fields.object("response_format")?, Style::Nested, limits)?;
        let format = structured(format, fields.object("structured_outputs")?, limits)?;
        let n_given = fields.count32("n", 1..=limits.choices_max)?.unwrap_or(1);
        let n_choices = candidates(&mut fields, n_given, stream.is_some(), limits)?;
        let ask = Ask {
            prompt,
            tools: Arc::new([]),
            tool_choice: ToolChoice::None,
            parallel_calls: true,
            format,
            sampling: sampling(&mut fields)?,
            max_tokens: Some(fields.count32("max_tokens", 1..=TOKENS_MAX)?.unwrap_or(TOKENS_DEFAULT)),
            stop: stop(&mut fields, limits)?,
            n_choices,
            seed: seed(&mut fields)?,
            // The likeliest answers are found by the log probabilities of their tokens.
            logprobs: logprobs.or((n_choices > n_given).then_some(0)),
            thinking: Thinking::default(),
            ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
            reports_progress: fields.flag("return_progress")?.unwrap_or(false),
        };
        bookkeeping(&mut fields)?;
        fields.refuse("suffix", &[json!("")], "use a prompt with the model's own marks for gaps")?;
        fields.finish()?;
        Ok(CompletionRequest { model, stream, echo, n_top: logprobs, n_given, ask })
    }
}

/// Reads `best_of`: so many answers are made, and the likeliest given.
fn candidates(fields: &mut Fields, n_given: u32, streams: bool, limits: &Limits) -> Result<u32, ApiError> {
    let n_made = fields.count32("best_of", 1..=limits.choices_max)?.unwrap_or(n_given);
    if n_made < n_given {
        let message = format!("`best_of` is {n_made}; it must be at least `n`, which is {n_given}");
        return Err(ApiError::field("best_of", message));
    }
    if n_made > n_given && streams {
        let message =
            format!("`best_of` is {n_made}: which answer is best is known at the end, so it cannot be streamed");
        return Err(ApiError::bad("unsupported_parameter", message).about("best_of"));
    }
    Ok(n_made)
}

/// A text or a list of token ids; one prompt a request.
fn prompt_of(value: Value) -> Result<Prompt, ApiError> {
    let wanted = "a string or an array of token ids";
    match value {
        Value::String(text) if text.is_empty() => {
            Err(ApiError::field("prompt", "`prompt` is empty; one token is needed"))
        }
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(list) => match list.as_slice() {
            [] => Err(ApiError::field("prompt", "`prompt` is empty; one token is needed")),
            [Value::String(text)] => prompt_of(Value::String(text.clone())),
            [Value::Array(ids)] => prompt_of(Value::Array(ids.clone())),
            [Value::String(_) | Value::Array(_), ..] => {
                let message = "`prompt` holds several prompts; send one request for each, they run at the same time";
                Err(ApiError::bad("unsupported_parameter", message).about("prompt"))
            }
            _ => {
                let id = |value: &Value| {
                    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
                    id.ok_or_else(|| wrong_type("prompt", wanted, value))
                };
                list.iter().map(id).collect::<Result<_, _>>().map(Prompt::Ids)
            }
        },
        other => Err(wrong_type("prompt", wanted, &other)),
    }
}

fn prompt_text(model: &Model, prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Ids(ids) => {
            model.loaded.tokenizer.decode(ids, DecodeOptions { render_special: true, continues: false })
        }
        Prompt::Chat { .. } => String::new(),
    }
}

struct Head {
    id: String,
    created: u64,
    model: Arc<Model>,
    n_top: Option<u32>,
}

impl Head {
    fn object(&self) -> Value {
        json!({
            "id": self.id, "object": "text_completion", "created": self.created, "model": self.model.id,
            "system_fingerprint": super::FINGERPRINT,
        })
    }

    /// The older form of log probabilities; `offset` is the place in the text, in characters.
    fn logprobs(&self, entries: &[TokenLogprob], offset: &mut usize) -> Value {
        let Some(n_top) = self.n_top else { return Value::Null };
        let text = |id| String::from_utf8_lossy(self.model.loaded.tokenizer.piece(id)).into_owned();
        let mut offsets = Vec::with_capacity(entries.len());
        for entry in entries {
            offsets.push(*offset);
            *offset += text(entry.id).chars().count();
        }
        let top = |entry: &TokenLogprob| {
            let rivals = entry.top.iter().take(n_top as usize);
            Map::from_iter(rivals.map(|rival| (text(rival.id), finite(rival.logprob).into())))
        };
        json!({
            "tokens": entries.iter().map(|entry| text(entry.id)).collect::<Vec<_>>(),
            "token_logprobs": entries.iter().map(|entry| finite(entry.logprob)).collect::<Vec<_>>(),
            "top_logprobs": entries.iter().map(top).collect::<Vec<_>>(),
            "text_offset": offsets,
        })
    }
}

/// Writes chunks.
struct TextWriter {
    head: Head,
    include_usage: bool,
    echo: String,
    /// Characters so far, by choice.
    offsets: Vec<usize>,
}

impl TextWriter {
    fn chunk(&mut self, index: u32, text: &str, logprobs: &[TokenLogprob], finish: Option<&Finish>) -> Value {
        let mut chunk = self.head.object();
        let logprobs = match logprobs {
            [] => Value::Null,
            entries => self.head.logprobs(entries, &mut self.offsets[index as usize]),
        };
        let finish = finish.map(Finish::openai);
        chunk["choices"] = json!([{"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}]);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

impl Writer for TextWriter {
    fn begin(&mut self, out: &mut Out) {
        let echo = std::mem::take(&mut self.echo);
        if !echo.is_empty() {
            for index in 0..u32::try_from(self.offsets.len()).unwrap_or(0) {
                out.data(&self.chunk(index, &echo, &[], None));
            }
        }
    }

    fn piece(&mut self, piece: Piece, out: &mut Out) {
        match piece {
            Piece::Delta { choice, delta: Delta::Content(text), logprobs } => {
                out.data(&self.chunk(choice, &text, &logprobs, None));
            }
            Piece::Delta { .. } => {}
            Piece::End { choice, finish, logprobs } => out.data(&self.chunk(choice, "", &logprobs, Some(&finish))),
            Piece::Progress(progress) => {
                let mut chunk = self.head.object();
                chunk["choices"] = json!([]);
                chunk["prompt_progress"] = json!({
                    "queue_position": progress.queue_position, "total": progress.total,
                    "cache": progress.cached, "processed": progress.processed,
                });
                out.data(&chunk);
            }
            Piece::Done(summary) => {
                if self.include_usage {
                    let mut chunk = self.head.object();
                    chunk["choices"] = json!([]);
                    chunk["usage"] = usage(&summary);
                    chunk["timings"] = timings(&summary);
                    out.data(&chunk);
                }
                out.raw("[DONE]");
            }
            Piece::Failed(error) => {
                out.data(&error.body(Shape::OpenAi));
                out.raw("[DONE]");
            }
        }
    }
}
