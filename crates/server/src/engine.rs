//! The engine as the server sees it: requests go in, events come out on a channel that async code can await.
//!
//! [`Generator`] is what a loaded model offers; [`zinc_engine::Runtime`] is one, and tests have another that says what
//! it is told to. No async in the engine: its sink is a send that never blocks.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::mpsc;
use zinc_engine::runtime::{EventSink, Sent};
use zinc_engine::{Error, Runtime};

use crate::error::ApiError;

pub use zinc_engine::constraint::Constraint;
pub use zinc_engine::request::{
    CHOICES_MAX, Done, Event, FinishReason, Logprob, PromptCache, Request, RequestId, TOP_LOGPROBS_MAX, Token, Usage,
};
pub use zinc_engine::sampler::Sampling;
pub use zinc_engine::stats::Stats;
pub use zinc_engine::timings::Timings;

/// Something that continues prompts.
pub trait Generator: Send + Sync {
    /// Sends a request. With a constraint this may take milliseconds: not on a thread that serves others.
    ///
    /// # Errors
    /// A request that is refused, or an engine that has broken.
    fn submit(&self, request: Request, events: Events) -> Result<RequestId, Error>;
    /// Ends a request; nothing happens if it has ended.
    fn cancel(&self, id: RequestId);
    /// Ends one choice of a request.
    fn cancel_choice(&self, id: RequestId, choice: u32);
    /// How busy it is, and what it has done.
    fn stats(&self) -> Stats;
    /// The failure that ended its work, if one has.
    fn broken(&self) -> Option<Arc<Error>>;
}

/// Where the events of a request go: a channel with room for a slow reader.
#[derive(Debug)]
pub struct Events(pub mpsc::Sender<Event>);

impl EventSink for Events {
    fn send(&mut self, event: Event) -> Sent {
        match self.0.try_send(event) {
            Ok(()) => Sent::Taken,
            Err(mpsc::error::TrySendError::Full(_)) => Sent::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => Sent::Gone,
        }
    }
}

impl Generator for Runtime {
    fn submit(&self, request: Request, events: Events) -> Result<RequestId, Error> {
        Runtime::submit(self, request, events)
    }

    fn cancel(&self, id: RequestId) {
        Runtime::cancel(self, id);
    }

    fn cancel_choice(&self, id: RequestId, choice: u32) {
        Runtime::cancel_choice(self, id, choice);
    }

    fn stats(&self) -> Stats {
        Runtime::stats(self)
    }

    fn broken(&self) -> Option<Arc<Error>> {
        Runtime::broken(self)
    }
}

/// The error of a request that the engine does not take or could not finish.
pub(crate) fn api_error(error: &Error) -> ApiError {
    let message = error.to_string();
    match error {
        Error::PromptTooLong { .. } => ApiError::bad("context_length_exceeded", message).about("messages"),
        Error::Constraint(_) => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_schema", message).about("response_format")
        }
        error if error.is_busy() => ApiError::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message).retry_after(1),
        error if error.is_client_fault() => ApiError::bad("invalid_value", message),
        Error::Broken(_) | Error::Stopped => ApiError::unavailable(
            "device_lost",
            format!("{message}; load the model again (POST /v1/models/{{id}}/load) or restart the server"),
        ),
        _ => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "engine_error", message),
    }
}
