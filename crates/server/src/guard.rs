//! What every request passes: its id, its host, its origin, its key; and the line in the log.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;

use crate::body::Watched;
use crate::error::{ApiError, Shape};
use crate::generate::request_id;
use crate::log::Record;
use crate::origin::{check_host, origin};
use crate::state::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Paths that need no key: whether the process lives, and the page, which asks for the key itself.
const OPEN: [&str; 3] = ["/health", "/ready", "/version"];

pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response<Body> {
    let id = request_id("req-");
    let record = Record::new(&id, request.method().as_str(), request.uri().path());
    request.extensions_mut().insert(record.clone());
    let origin = origin(&app.config, request.headers());
    let shape = shape(request.uri().path());
    let mut response = match check(&app, &request, &origin) {
        Err(error) => error.response(shape),
        Ok(()) if is_preflight(&request) => origin.preflight(),
        Ok(()) => next.run(request).await,
    };
    origin.mark(&mut response);
    let status = response.status();
    record.set("status", status.as_u16());
    app.metrics.response(status.as_u16());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response.map(|body| Body::new(Watched::new(body, record, app)))
}

fn check(app: &App, request: &Request, origin: &crate::origin::Origin) -> Result<(), ApiError> {
    check_host(&app.config, request.headers())?;
    if is_preflight(request) {
        return Ok(());
    }
    origin.check(request.method())?;
    let path = request.uri().path();
    if app.config.keys.is_open() || OPEN.contains(&path) || !is_api(path) {
        return Ok(());
    }
    let offer = offer(request.headers());
    if offer.is_some_and(|key| app.config.keys.accept(key)) {
        return Ok(());
    }
    let message = match offer {
        None => "this server needs a key: send `Authorization: Bearer KEY`",
        Some(_) => "the key is not one of this server's",
    };
    Err(ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message))
}

/// The key that a request shows, in OpenAI's header or Anthropic's.
fn offer(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether a path belongs to the API rather than to the page.
pub(crate) fn is_api(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "v1" | "tokenize" | "detokenize" | "health" | "ready" | "metrics" | "version" | "openapi.json")
}

/// The shape of errors that the clients of a path expect.
pub(crate) fn shape(path: &str) -> Shape {
    if path.starts_with("/v1/messages") { Shape::Anthropic } else { Shape::OpenAi }
}
