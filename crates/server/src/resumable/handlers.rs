//! `GET /v1/streams/{id}` goes on with a stream, `DELETE /v1/streams/{id}` ends it.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use super::read;
use super::ring::{Ring, Taken};
use crate::error::{ApiError, json_response};
use crate::fields::quoted;
use crate::router::openai_answer;
use crate::state::App;

/// All events after the one that `Last-Event-ID` names; all that are kept without it.
pub(crate) async fn follow(State(app): State<App>, Path(id): Path<String>, headers: HeaderMap) -> Response<Body> {
    openai_answer(events(&app, &id, &headers))
}

fn events(app: &App, id: &str, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    let kept = app.streams.find(id).ok_or_else(unknown)?;
    let last = match headers.get("last-event-id") {
        None => 0,
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let number = text.parse().ok().filter(|number| *number <= kept.ring().last());
            number.ok_or_else(|| {
                let message =
                    format!("`Last-Event-ID` is {}; it must be the id of an event of this stream", quoted(text));
                ApiError::field("Last-Event-ID", message)
            })?
        }
    };
    if kept.ring().after(last) == Taken::Lost {
        let message = "the events after that one are kept no more; send the request again";
        return Err(ApiError::new(StatusCode::GONE, "events_gone", message));
    }
    Ok(read(app, &kept, last))
}

/// Ends a stream: its generation stops and its events are forgotten.
pub(crate) async fn stop(State(app): State<App>, Path(id): Path<String>) -> Response<Body> {
    let stopped = app.streams.remove(&id).ok_or_else(unknown).map(|kept| {
        kept.change(Ring::end);
        kept.stopped.notify_one();
        json_response(StatusCode::OK, &json!({"id": id, "object": "stream.deleted", "deleted": true}))
    });
    openai_answer(stopped)
}

fn unknown() -> ApiError {
    let message = "there is no such stream: it was not resumable, has been stopped, or ended a while ago";
    ApiError::not_found("stream_not_found", message)
}
