//! `GET /openapi.json`: the description of this API, kept by hand and compared with the server by tests.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

/// The description.
const DESCRIPTION: &str = include_str!("openapi.json");

pub(crate) async fn handle() -> Response<Body> {
    let mut response = Response::new(Body::from(DESCRIPTION));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
