//! `POST /v1/chat/completions`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::FINGERPRINT;
use super::chat_request::ChatRequest;
use super::usage::{chat_logprobs, timings, usage};
use crate::error::{ApiError, Shape, json_response};
use crate::generate::{Finish, Piece, TokenLogprob, request_id};
use crate::models::Model;
use crate::parse::Delta;
use crate::router::openai_answer;
use crate::sse::{Out, Writer};
use crate::state::App;
use crate::{sse, work};

pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(answer(app, request).await)
}

async fn answer(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let (body, limits) = (incoming.body, app.config.limits);
    let wanted = work::blocking(move || ChatRequest::read(&body, &limits)).await?;
    let record = incoming.record;
    let model = work::model(&app, &record, wanted.model.as_deref()).await?;
    let head = Head::new(Arc::clone(&model), &wanted);
    let n_choices = wanted.ask.n_choices;
    let mut generation = work::start(model, wanted.ask).await?;
    if let Some(options) = wanted.stream {
        let writer = ChatWriter { include_usage: options.include_usage, head, calls: BTreeMap::new(), n_choices };
        return sse::respond(app, record, generation, writer, options.reading).await;
    }
    let mut choices: Vec<ChatChoice> = (0..n_choices).map(|_| ChatChoice::default()).collect();
    let take = |piece| take(&mut choices, piece);
    let summary = work::collect(&app, &record, &mut generation, take).await?;
    let choices: Vec<Value> = choices.iter().enumerate().map(|(index, choice)| choice.json(index, &head)).collect();
    let mut object = head.object("chat.completion");
    object["choices"] = choices.into();
    object["usage"] = usage(&summary);
    object["timings"] = timings(&summary);
    Ok(json_response(StatusCode::OK, &object))
}

/// What is the same in all parts of an answer.
struct Head {
    id: String,
    created: u64,
    model: Arc<Model>,
    /// Rivals shown at each token; nothing without log probabilities.
    n_top: Option<u32>,
}

impl Head {
    fn new(model: Arc<Model>, wanted: &ChatRequest) -> Head {
        let n_top = wanted.ask.logprobs.map(|_| wanted.n_top_logprobs);
        Head { id: request_id("chatcmpl-"), created: work::unix_seconds(), model, n_top }
    }

    fn object(&self, kind: &str) -> Value {
        json!({
            "id": self.id, "object": kind, "created": self.created, "model": self.model.id,
            "system_fingerprint": FINGERPRINT,
        })
    }

    fn logprobs(&self, entries: &[TokenLogprob]) -> Value {
        match self.n_top {
            Some(n_top) => chat_logprobs(&self.model.loaded.tokenizer, entries, n_top),
            None => Value::Null,
        }
    }
}

/// A choice that is gathered.
#[derive(Default)]
struct ChatChoice {
    content: Option<String>,
    reasoning: Option<String>,
    calls: Vec<(String, String, String)>,
    logprobs: Vec<TokenLogprob>,
    finish: Option<Finish>,
}

fn take(choices: &mut [ChatChoice], piece: Piece) {
    match piece {
        Piece::Delta { choice, delta, logprobs } => {
            let choice = &mut choices[choice as usize];
            choice.logprobs.extend(logprobs);
            match delta {
                Delta::Reasoning(text) => choice.reasoning.get_or_insert_default().push_str(&text),
                Delta::Content(text) => choice.content.get_or_insert_default().push_str(&text),
                Delta::Call { name, .. } => choice.calls.push((request_id("call_"), name, String::new())),
                Delta::Arguments { index, text } => {
                    if let Some((_, _, arguments)) = choice.calls.get_mut(index) {
                        arguments.push_str(&text);
                    }
                }
            }
        }
        Piece::End { choice, finish, logprobs } => {
            let choice = &mut choices[choice as usize];
            choice.logprobs.extend(logprobs);
            choice.finish = Some(finish);
        }
        Piece::Progress(_) | Piece::Done(_) | Piece::Failed(_) => {}
    }
}

impl ChatChoice {
    fn json(&self, index: usize, head: &Head) -> Value {
        // An answer that is neither text nor call is an empty text.
        let content = match (&self.content, self.calls.is_empty()) {
            (Some(text), _) => Value::from(text.as_str()),
            (None, true) => "".into(),
            (None, false) => Value::Null,
        };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if let Some(reasoning) = &self.reasoning {
            message["reasoning_content"] = reasoning.as_str().into();
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|(id, name, arguments)| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            });
            message["tool_calls"] = calls.collect();
        }
        let finish = self.finish.as_ref().map_or("stop", Finish::openai);
        json!({"index": index, "message": message, "logprobs": head.logprobs(&self.logprobs), "finish_reason": finish})
    }
}

/// Writes chunks.
struct ChatWriter {
    head: Head,
    include_usage: bool,
    n_choices: u32,
    /// Ids of calls, by choice and place.
    calls: BTreeMap<(u32, usize), String>,
}

/// A chunk. Written as it is, since one comes with each token.
#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: &'a [ChunkChoice],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_progress: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Value>,
}

#[derive(Serialize)]
struct ChunkChoice {
    index: u32,
    delta: ChunkDelta,
    logprobs: Value,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct ChunkDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Value>,
}

impl ChatWriter {
    fn chunk<'a>(&'a self, choices: &'a [ChunkChoice]) -> Chunk<'a> {
        Chunk {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created,
            model: &self.head.model.id,
            system_fingerprint: FINGERPRINT,
            choices,
            usage: self.include_usage.then_some(Value::Null),
            prompt_progress: None,
            timings: None,
        }
    }

    fn choice(&self, out: &mut Out, index: u32, delta: ChunkDelta, logprobs: &[TokenLogprob], finish: Option<&Finish>) {
        let logprobs = if logprobs.is_empty() { Value::Null } else { self.head.logprobs(logprobs) };
        let finish_reason = finish.map(Finish::openai);
        out.data(&self.chunk(&[ChunkChoice { index, delta, logprobs, finish_reason }]));
    }

    fn delta(&mut self, choice: u32, delta: Delta) -> ChunkDelta {
        match delta {
            Delta::Reasoning(text) => ChunkDelta { reasoning_content: Some(text), ..ChunkDelta::default() },
            Delta::Content(text) => ChunkDelta { content: Some(text), ..ChunkDelta::default() },
            Delta::Call { index, name } => {
                let id = self.calls.entry((choice, index)).or_insert_with(|| request_id("call_"));
                let function = json!({"name": name, "arguments": ""});
                let calls = json!([{"index": index, "id": id, "type": "function", "function": function}]);
                ChunkDelta { tool_calls: Some(calls), ..ChunkDelta::default() }
            }
            Delta::Arguments { index, text } => {
                let calls = json!([{"index": index, "function": {"arguments": text}}]);
                ChunkDelta { tool_calls: Some(calls), ..ChunkDelta::default() }
            }
        }
    }
}

impl Writer for ChatWriter {
    fn begin(&mut self, out: &mut Out) {
        for index in 0..self.n_choices {
            let delta = ChunkDelta { role: Some("assistant"), content: Some(String::new()), ..ChunkDelta::default() };
            self.choice(out, index, delta, &[], None);
        }
    }

    fn piece(&mut self, piece: Piece, out: &mut Out) {
        match piece {
            Piece::Progress(progress) => {
                let progress = json!({
                    "queue_position": progress.queue_position, "total": progress.total,
                    "cache": progress.cached, "processed": progress.processed,
                });
                out.data(&Chunk { prompt_progress: Some(progress), ..self.chunk(&[]) });
            }
            Piece::Delta { choice, delta, logprobs } => {
                let delta = self.delta(choice, delta);
                self.choice(out, choice, delta, &logprobs, None);
            }
            Piece::End { choice, finish, logprobs } => {
                self.choice(out, choice, ChunkDelta::default(), &logprobs, Some(&finish));
            }
            Piece::Done(summary) => {
                if self.include_usage {
                    let (usage, timings) = (Some(usage(&summary)), Some(timings(&summary)));
                    out.data(&Chunk { usage, timings, ..self.chunk(&[]) });
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
