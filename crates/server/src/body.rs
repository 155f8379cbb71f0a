//! Bodies of requests, bounded in size, form and time; and bodies of answers that tell when they are over.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;

use crate::error::ApiError;
use crate::log::Record;
use crate::state::App;

/// Reads a body of JSON.
pub(crate) async fn json(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    idle_max: Duration,
) -> Result<Vec<u8>, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A page of another origin can send a form without asking, but not JSON: so nothing else is read.
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence != "application/json" {
        let message = "the body must have the header `Content-Type: application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        let message = "bodies with a `Content-Encoding` are not taken; send plain JSON";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    read(body, bytes_max, idle_max).await
}

async fn read(mut body: Body, bytes_max: usize, idle_max: Duration) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message = format!("the body is larger than the {bytes_max} bytes that are taken");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(idle_max, body.frame()).await;
        match frame {
            Err(_) => {
                let message = format!("nothing came of the body for {} seconds", idle_max.as_secs());
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message));
            }
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => return Err(ApiError::bad("incomplete_body", "the body ended before it was complete")),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > bytes_max {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

/// The body of an answer; when it ends, or its client goes away, the request's line is logged.
pub(crate) struct Watched {
    body: Body,
    record: Record,
    app: App,
    is_over: bool,
}

impl Watched {
    pub(crate) fn new(body: Body, record: Record, app: App) -> Watched {
        Watched { body, record, app, is_over: false }
    }

    fn over(&mut self, outcome: &str) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.record.write(&self.app.log, outcome);
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.over("done");
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    // The only sign that a client has gone away is that its body is dropped.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.over("done");
        } else if !self.is_over {
            self.app.metrics.gone.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.over("client_gone");
        }
    }
}
