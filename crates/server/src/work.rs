//! The way that all requests for text go: read, find the model, prepare, start.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;

use crate::error::ApiError;
use crate::generate::{Ask, Generation, prepare};
use crate::log::Record;
use crate::models::Model;
use crate::state::App;
use crate::{body, generate};

/// A request whose body was read.
pub(crate) struct Incoming {
    /// The line in the log.
    pub(crate) record: Record,
    /// Body.
    pub(crate) body: Vec<u8>,
}

/// Reads a request's body of JSON.
pub(crate) async fn incoming(app: &App, request: Request) -> Result<Incoming, ApiError> {
    let (parts, body): (Parts, Body) = request.into_parts();
    let record = record(&parts);
    let limits = app.config.limits;
    let body = body::json(&parts.headers, body, limits.body_bytes_max, limits.body_idle_max).await?;
    if app.log.shows_requests() {
        record.set("request", String::from_utf8_lossy(&body).into_owned());
    }
    Ok(Incoming { record, body })
}

/// The line in the log of a request.
fn record(parts: &Parts) -> Record {
    parts
        .extensions
        .get::<Record>()
        .cloned()
        .unwrap_or_else(|| Record::new("", parts.method.as_str(), parts.uri.path()))
}

/// The model that a request names.
pub(crate) async fn model(app: &App, record: &Record, name: Option<&str>) -> Result<Arc<Model>, ApiError> {
    if app.is_draining() {
        return Err(ApiError::unavailable("shutting_down", "the server is shutting down"));
    }
    let model = app.registry.model(name).await?;
    record.set("model", model.id.clone());
    Ok(model)
}

/// Starts a generation.
pub(crate) async fn start(model: Arc<Model>, ask: Ask) -> Result<Generation, ApiError> {
    blocking(move || Generation::start(prepare(model, ask)?)).await
}

/// Does work that takes a while on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        Err(ApiError::new(status, "internal_error", "the request could not be prepared; the log says more"))
    })
}

/// All pieces of a generation, until it is over.
pub(crate) async fn collect(
    app: &App,
    record: &Record,
    generation: &mut Generation,
    mut take: impl FnMut(generate::Piece),
) -> Result<generate::Summary, ApiError> {
    while let Some(piece) = generation.next().await {
        crate::sse::watch(app, record, generation, &piece);
        match piece {
            generate::Piece::Failed(error) => return Err(error),
            generate::Piece::Done(summary) => return Ok(summary),
            piece => take(piece),
        }
    }
    Ok(generation.summary())
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
