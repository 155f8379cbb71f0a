//! `POST /v1/messages` and `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use super::request::{MessagesRequest, Purpose};
use super::stream::MessagesWriter;
use crate::error::{ApiError, Shape, json_response};
use crate::generate::{Finish, Piece, Summary, prepare, request_id};
use crate::parse::Delta;
use crate::state::App;
use crate::{sse, work};

pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    answer(app, request).await.unwrap_or_else(|error| error.response(Shape::Anthropic))
}

pub(crate) async fn count(State(app): State<App>, request: Request) -> Response<Body> {
    count_tokens(app, request).await.unwrap_or_else(|error| error.response(Shape::Anthropic))
}

async fn answer(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let (body, limits) = (incoming.body, app.config.limits);
    let wanted = work::blocking(move || MessagesRequest::read(&body, Purpose::Answer, &limits)).await?;
    let record = incoming.record;
    let model = work::model(&app, &record, wanted.model.as_deref()).await?;
    let head = Head { id: request_id("msg_"), model: model.id.clone() };
    let mut generation = work::start(Arc::clone(&model), wanted.ask).await?;
    if wanted.stream {
        let n_prompt = generation.summary().prompt_tokens;
        return sse::respond(app, record, generation, MessagesWriter::new(head, n_prompt), sse::Reading::Once).await;
    }
    let mut blocks = Blocks::default();
    let mut finish = None;
    let take = |piece| match piece {
        Piece::Delta { delta, .. } => {
            blocks.take(delta);
        }
        Piece::End { finish: why, .. } => finish = Some(why),
        _ => {}
    };
    let summary = work::collect(&app, &record, &mut generation, take).await?;
    let mut object = head.object(blocks.0.iter().map(Block::json).collect());
    let (reason, sequence) = stop_reason(finish.as_ref());
    object["stop_reason"] = reason.into();
    object["stop_sequence"] = sequence;
    object["usage"] = usage(&summary);
    Ok(json_response(StatusCode::OK, &object))
}

async fn count_tokens(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let limits = app.config.limits;
    let body = incoming.body;
    let wanted = work::blocking(move || MessagesRequest::read(&body, Purpose::Count, &limits)).await?;
    let model = work::model(&app, &incoming.record, wanted.model.as_deref()).await?;
    let ids = work::blocking(move || prepare(model, wanted.ask).map(|plan| plan.ids)).await?;
    Ok(json_response(StatusCode::OK, &json!({"input_tokens": ids.len()})))
}

/// What is the same in all parts of an answer.
pub(super) struct Head {
    id: String,
    model: String,
}

impl Head {
    /// The answer before it has ended.
    pub(super) fn object(&self, content: Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": null, "stop_sequence": null,
        })
    }
}

/// What an answer cost. Tokens that were there from earlier requests are counted apart, as Anthropic does.
pub(super) fn usage(summary: &Summary) -> Value {
    json!({
        "input_tokens": summary.prompt_tokens.saturating_sub(summary.cached_tokens),
        "cache_read_input_tokens": summary.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": summary.completion_tokens,
    })
}

/// Why an answer ended, in Anthropic's words.
pub(super) fn stop_reason(finish: Option<&Finish>) -> (&'static str, Value) {
    match finish {
        None | Some(Finish::Stop) => ("end_turn", Value::Null),
        Some(Finish::StopString(text)) => ("stop_sequence", text.as_str().into()),
        Some(Finish::Length) => ("max_tokens", Value::Null),
        Some(Finish::ToolCalls) => ("tool_use", Value::Null),
    }
}

/// The blocks of an answer, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Blocks(pub(super) Vec<Block>);

/// A block of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, input: String },
}

impl Blocks {
    /// Takes a piece; tells whether it begins a block, and the text that it adds.
    pub(super) fn take(&mut self, delta: Delta) -> (bool, String) {
        match (delta, self.0.last_mut()) {
            (Delta::Reasoning(text), Some(Block::Thinking(all))) | (Delta::Content(text), Some(Block::Text(all))) => {
                all.push_str(&text);
                (false, text)
            }
            (Delta::Reasoning(text), _) => {
                self.0.push(Block::Thinking(text.clone()));
                (true, text)
            }
            (Delta::Content(text), _) => {
                self.0.push(Block::Text(text.clone()));
                (true, text)
            }
            (Delta::Call { name, .. }, _) => {
                self.0.push(Block::Call { id: request_id("toolu_"), name, input: String::new() });
                (true, String::new())
            }
            (Delta::Arguments { text, .. }, Some(Block::Call { input, .. })) => {
                input.push_str(&text);
                (false, text)
            }
            (Delta::Arguments { .. }, _) => (false, String::new()),
        }
    }
}

impl Block {
    pub(super) fn json(&self) -> Value {
        match self {
            Block::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
            Block::Text(text) => json!({"type": "text", "text": text, "citations": null}),
            Block::Call { id, name, input } => {
                // Arguments that were cut off are shown as they came: the client must not run them.
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!({"incomplete_json": input}));
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }

    /// The block at its beginning.
    pub(super) fn empty(&self) -> Value {
        match self {
            Block::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Block::Text(_) => json!({"type": "text", "text": "", "citations": null}),
            Block::Call { id, name, .. } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
        }
    }
}
