//! `POST /v1/responses`: OpenAI's newer shape of the same thing. Nothing is kept between requests.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::responses_request::ResponsesRequest;
use super::responses_stream::ResponsesWriter;
use super::usage::timings;
use crate::error::{ApiError, json_response};
use crate::generate::{Finish, Piece, Summary, request_id};
use crate::models::Model;
use crate::parse::Delta;
use crate::router::openai_answer;
use crate::state::App;
use crate::{sse, work};

pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    openai_answer(answer(app, request).await)
}

async fn answer(app: App, request: Request) -> Result<Response<Body>, ApiError> {
    let incoming = work::incoming(&app, request).await?;
    let (body, limits) = (incoming.body, app.config.limits);
    let wanted = work::blocking(move || ResponsesRequest::read(&body, &limits)).await?;
    let record = incoming.record;
    let model = work::model(&app, &record, wanted.model.as_deref()).await?;
    let head = Head::new(&model, wanted.echo);
    let mut generation = work::start(Arc::clone(&model), wanted.ask).await?;
    if wanted.stream {
        return sse::respond(app, record, generation, ResponsesWriter::new(head), sse::Reading::Once).await;
    }
    let mut items = Items::default();
    let mut finish = None;
    let take = |piece| match piece {
        Piece::Delta { delta, .. } => {
            items.take(delta);
        }
        Piece::End { finish: why, .. } => finish = Some(why),
        _ => {}
    };
    let summary = work::collect(&app, &record, &mut generation, take).await?;
    Ok(json_response(StatusCode::OK, &head.finished(&items, finish.as_ref(), &summary)))
}

/// What is the same in all parts of an answer.
pub(super) struct Head {
    id: String,
    created: u64,
    model: String,
    echo: Map<String, Value>,
}

impl Head {
    fn new(model: &Model, echo: Map<String, Value>) -> Head {
        Head { id: request_id("resp_"), created: work::unix_seconds(), model: model.id.clone(), echo }
    }

    /// The answer at a stage.
    pub(super) fn object(&self, status: &str, output: Value) -> Value {
        let mut object = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status, "model": self.model,
            "output": output, "error": null, "incomplete_details": null, "usage": null, "store": false,
            "previous_response_id": null, "truncation": "disabled", "text": {"format": {"type": "text"}},
            "reasoning": {"effort": null, "summary": null},
        });
        for (name, value) in &self.echo {
            object[name] = value.clone();
        }
        // The official clients take these for granted.
        for (name, default) in [
            ("tools", json!([])),
            ("tool_choice", json!("auto")),
            ("parallel_tool_calls", json!(true)),
            ("metadata", json!({})),
        ] {
            if object[name].is_null() {
                object[name] = default;
            }
        }
        object
    }

    /// The answer at its end.
    pub(super) fn finished(&self, items: &Items, finish: Option<&Finish>, summary: &Summary) -> Value {
        let is_cut = finish == Some(&Finish::Length);
        let status = if is_cut { "incomplete" } else { "completed" };
        let output: Vec<Value> = items.0.iter().map(|item| item.json(status)).collect();
        let mut object = self.object(status, output.into());
        if is_cut {
            object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        object["usage"] = json!({
            "input_tokens": summary.prompt_tokens,
            "input_tokens_details": {"cached_tokens": summary.cached_tokens},
            "output_tokens": summary.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": summary.reasoning_tokens},
            "total_tokens": summary.prompt_tokens + summary.completion_tokens,
        });
        object["timings"] = timings(summary);
        object
    }
}

/// The items of an answer, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Items(pub(super) Vec<Item>);

/// An item of an answer.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Message,
    Call { call_id: String, name: String },
}

impl Items {
    /// Takes a piece; tells whether it begins an item, and the text that it adds.
    pub(super) fn take(&mut self, delta: Delta) -> (bool, String) {
        let (kind, text) = match delta {
            Delta::Reasoning(text) => (Kind::Reasoning, text),
            Delta::Content(text) => (Kind::Message, text),
            Delta::Call { name, .. } => {
                let kind = Kind::Call { call_id: request_id("call_"), name };
                self.0.push(Item { id: request_id("fc_"), kind, text: String::new() });
                return (true, String::new());
            }
            Delta::Arguments { text, .. } => {
                if let Some(item) = self.0.last_mut() {
                    item.text.push_str(&text);
                }
                return (false, text);
            }
        };
        let begins = self.0.last().is_none_or(|item| item.kind != kind);
        if begins {
            let prefix = if kind == Kind::Reasoning { "rs_" } else { "msg_" };
            self.0.push(Item { id: request_id(prefix), kind, text: String::new() });
        }
        if let Some(item) = self.0.last_mut() {
            item.text.push_str(&text);
        }
        (begins, text)
    }
}

impl Item {
    /// The item at a stage.
    pub(super) fn json(&self, status: &str) -> Value {
        match &self.kind {
            Kind::Reasoning => json!({
                "id": self.id, "type": "reasoning", "summary": [], "status": status,
                "content": [{"type": "reasoning_text", "text": self.text}],
            }),
            Kind::Message => json!({
                "id": self.id, "type": "message", "role": "assistant", "status": status, "content": [self.part()],
            }),
            Kind::Call { call_id, name } => json!({
                "id": self.id, "type": "function_call", "status": status, "call_id": call_id, "name": name,
                "arguments": self.text,
            }),
        }
    }

    /// Its text as a part.
    pub(super) fn part(&self) -> Value {
        match self.kind {
            Kind::Reasoning => json!({"type": "reasoning_text", "text": self.text}),
            _ => json!({"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}),
        }
    }
}
