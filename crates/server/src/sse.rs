//! Answers that come piece by piece, as server-sent events.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_util::{StreamExt, stream};
use serde::Serialize;

use crate::error::ApiError;
use crate::generate::{Generation, Piece};
use crate::log::Record;
use crate::resumable;
use crate::state::App;

/// Writes pieces in the shape of one API.
pub(crate) trait Writer: Send + 'static {
    /// What comes before the first piece.
    fn begin(&mut self, out: &mut Out);
    /// A piece.
    fn piece(&mut self, piece: Piece, out: &mut Out);
    /// A sign of life while nothing happens.
    fn ping(&mut self, out: &mut Out) {
        out.0.extend_from_slice(b": still here\n\n");
    }
}

/// Events that are being written.
#[derive(Debug, Default)]
pub(crate) struct Out(Vec<u8>);

impl Out {
    /// An event without a name.
    pub(crate) fn data(&mut self, value: &impl Serialize) {
        self.0.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut self.0, value).expect("memory takes it, and all keys are strings");
        self.0.extend_from_slice(b"\n\n");
    }

    /// Text as an event.
    pub(crate) fn raw(&mut self, text: &str) {
        for part in ["data: ", text, "\n\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
    }

    /// An event with a name.
    pub(crate) fn event(&mut self, name: &str, value: &impl Serialize) {
        for part in ["event: ", name, "\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
        self.data(value);
    }

    /// What was written since the last time.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| Bytes::from(std::mem::take(&mut self.0)))
    }
}

/// What becomes of a stream whose reader goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It ends.
    Once,
    /// It waits a while for a reader to come back.
    Resumable,
}

/// How long a refusal is waited for before the answer begins: afterwards it could not be a status any more.
const REFUSAL_WAIT: Duration = Duration::from_millis(100);

struct Streaming<W> {
    app: App,
    record: Record,
    generation: Generation,
    writer: W,
    first: Option<Piece>,
    has_begun: bool,
}

/// The answer that streams a generation.
pub(crate) async fn respond<W: Writer>(
    app: App,
    record: Record,
    mut generation: Generation,
    writer: W,
    reading: Reading,
) -> Result<Response<Body>, ApiError> {
    let first = tokio::time::timeout(REFUSAL_WAIT, generation.next()).await.ok().flatten();
    if let Some(Piece::Failed(error)) = first {
        return Err(error);
    }
    let (of_streams, id) = (app.clone(), record.id());
    let state = Streaming { app, record, generation, writer, first, has_begun: false };
    let events = stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((bytes, state))
    });
    match reading {
        Reading::Once => Ok(event_stream(Body::from_stream(events.map(Ok::<_, std::convert::Infallible>)))),
        Reading::Resumable => resumable::keep(&of_streams, id, events),
    }
}

/// An answer of events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather answers would hold every token back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<W: Writer> Streaming<W> {
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Out::default();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.writer.begin(&mut out);
        }
        loop {
            if let Some(piece) = self.first.take() {
                self.write(piece, &mut out);
            }
            if let Some(bytes) = out.take() {
                return Some(bytes);
            }
            let keep_alive = self.app.config.limits.keep_alive;
            match tokio::time::timeout(keep_alive, self.generation.next()).await {
                Ok(Some(piece)) => self.write(piece, &mut out),
                Ok(None) => return None,
                Err(_) => self.writer.ping(&mut out),
            }
        }
    }

    fn write(&mut self, piece: Piece, out: &mut Out) {
        watch(&self.app, &self.record, &self.generation, &piece);
        self.writer.piece(piece, out);
    }
}

/// Notes for log and metrics what a piece tells.
pub(crate) fn watch(app: &App, record: &Record, generation: &Generation, piece: &Piece) {
    match piece {
        Piece::Done(summary) => {
            app.metrics.generated(summary);
            record.cost(*summary);
        }
        Piece::Failed(error) => {
            record.cost(generation.summary());
            record.fail(error.code);
        }
        // So that the line of a client that goes away tells how far it came.
        Piece::Delta { .. } | Piece::End { .. } => record.cost(generation.summary()),
        Piece::Progress(_) => {}
    }
}
