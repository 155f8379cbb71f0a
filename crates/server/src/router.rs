//! Which path leads where.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use serde_json::json;

use crate::error::{ApiError, Shape, json_response};
use crate::models::{LoadState, Standing};
use crate::state::App;
use crate::{anthropic, guard, openai, openapi, page, resumable};

pub(crate) fn router(app: &App) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat::handle))
        .route("/v1/completions", post(openai::completions::handle))
        .route("/v1/responses", post(openai::responses::handle))
        .route("/v1/embeddings", post(openai::embeddings::handle))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{id}", get(openai::models::one))
        .route("/v1/models/{id}/load", post(openai::models::load))
        .route("/v1/models/{id}/unload", post(openai::models::unload))
        .route("/v1/models/{id}/pull", post(openai::models::pull))
        .route("/v1/streams/{id}", get(resumable::follow).delete(resumable::stop))
        .route("/v1/messages", post(anthropic::messages::handle))
        .route("/v1/messages/count_tokens", post(anthropic::messages::count))
        .route("/tokenize", post(openai::tokens::tokenize))
        .route("/detokenize", post(openai::tokens::detokenize))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi::handle))
        .fallback(fallback)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .with_state(app.clone())
}

/// The process lives.
async fn health() -> Response<Body> {
    json_response(StatusCode::OK, &json!({"status": "ok"}))
}

/// Requests would be answered now: a model is loaded and its device works.
async fn ready(State(app): State<App>) -> Response<Body> {
    let answer = |status: &str, message: &str, progress: Option<f64>| {
        let body = json!({"status": status, "message": message, "progress": progress});
        let mut response = json_response(StatusCode::SERVICE_UNAVAILABLE, &body);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        response
    };
    if app.is_draining() {
        return answer("draining", "the server is shutting down", None);
    }
    let Some(id) = app.registry.default_id() else {
        return answer("no_model", "no model is loaded; load one with POST /v1/models/{id}/load", None);
    };
    if let Some(model) = app.registry.ready(&id) {
        return match model.loaded.generator.broken() {
            Some(error) => answer("device_lost", &error.to_string(), None),
            None => json_response(StatusCode::OK, &json!({"status": "ready", "model": id})),
        };
    }
    let standing = app.registry.list().into_iter().find(|(known, _)| known.id == id).map(|(_, standing)| standing);
    match standing {
        Some(Standing::Loading(progress)) => {
            let share = progress.done_bytes as f64 / progress.total_bytes.max(1) as f64;
            answer("loading", &progress.message, (progress.total_bytes > 0).then_some(share))
        }
        Some(Standing::Failed(error)) => answer("failed", &error.message, None),
        _ => answer("not_loaded", "the model is not loaded; the next request loads it", None),
    }
}

async fn version(State(app): State<App>) -> Response<Body> {
    let uptime = app.started.elapsed().as_secs();
    json_response(
        StatusCode::OK,
        &json!({"version": env!("CARGO_PKG_VERSION"), "server": "zinc", "uptime_seconds": uptime}),
    )
}

async fn metrics(State(app): State<App>) -> Response<Body> {
    let mut response = Response::new(Body::from(app.metrics.text(&app.registry.loaded())));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The page's files, or 404.
async fn fallback(request: Request) -> Response<Body> {
    let path = request.uri().path();
    if guard::is_api(path) {
        let message = "there is nothing at this path; /openapi.json lists what there is";
        return ApiError::not_found("not_found", message).response(guard::shape(path));
    }
    if *request.method() != Method::GET && *request.method() != Method::HEAD {
        return wrong_method(request).await;
    }
    page::serve(path, request.headers())
}

async fn wrong_method(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let method: String = request.method().as_str().chars().take(20).collect();
    let message = format!("{method} is not a method of this path; /openapi.json lists what there is");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).response(guard::shape(path))
}

/// Turns a handler's result into an answer in OpenAI's shape.
pub(crate) fn openai_answer(result: Result<Response<Body>, ApiError>) -> Response<Body> {
    result.unwrap_or_else(|error| error.response(Shape::OpenAi))
}

/// Whether a load has ended.
pub(crate) fn has_ended(state: &LoadState) -> bool {
    !matches!(state, LoadState::Running(_))
}
