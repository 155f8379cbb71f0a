//! Streams that outlive their connection, for a page that is loaded again in the middle of an answer.
//!
//! Usually a stream is driven by its reader and ends with it. One that was asked for with `stream_options.resumable` is
//! driven by a task of its own, which keeps the last events in a [`Ring`]; readers come and go, each from the event that
//! it names. Without a reader for [`Limits::resume_idle_max`](crate::config::Limits) it ends as any other would.

mod handlers;
mod ring;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};
use futures_util::{Stream, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::error::{ApiError, Shape};
use crate::sse::{self, Out};
use crate::state::App;
use ring::{Ring, Taken};

pub(crate) use handlers::{follow, stop};

/// Streams that are kept at once.
const STREAMS_MAX: usize = 128;

/// The streams that are kept, by the id of the request that began them.
#[derive(Default)]
pub(crate) struct Streams(Mutex<HashMap<String, Arc<Kept>>>);

/// One of them.
struct Kept {
    ring: Mutex<Ring>,
    /// Tells readers that the ring has changed; they are its receivers.
    changes: watch::Sender<()>,
    /// Tells the driver that somebody has ended it.
    stopped: Notify,
    /// When the last reader left.
    left: Mutex<Instant>,
}

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: &str) -> Result<Arc<Kept>, ApiError> {
        let mut all = self.all();
        if all.len() >= STREAMS_MAX {
            all.retain(|_, kept| !kept.ring().is_over());
        }
        if all.len() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} resumable streams are running; leave out `stream_options.resumable`");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message).retry_after(5));
        }
        let kept = Arc::new(Kept {
            ring: Mutex::default(),
            changes: watch::Sender::new(()),
            stopped: Notify::new(),
            left: Mutex::new(Instant::now()),
        });
        all.insert(id.to_owned(), Arc::clone(&kept));
        Ok(kept)
    }

    fn find(&self, id: &str) -> Option<Arc<Kept>> {
        self.all().get(id).map(Arc::clone)
    }

    fn remove(&self, id: &str) -> Option<Arc<Kept>> {
        self.all().remove(id)
    }
}

/// Keeps a stream of events under `id`, and answers with a reader of it.
///
/// # Errors
/// 429 if too many are kept.
pub(crate) fn keep(
    app: &App,
    id: String,
    events: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response<Body>, ApiError> {
    let kept = app.streams.add(&id)?;
    let response = read(app, &kept, 0);
    let (app, idle_max) = (app.clone(), app.config.limits.resume_idle_max);
    tokio::spawn(async move {
        drive(&kept, events, idle_max).await;
        // For readers that were away when it ended.
        kept.until_abandoned(idle_max).await;
        app.streams.remove(&id);
    });
    Ok(response)
}

/// Moves events into the ring until they end, somebody stops them, or nobody comes back for them.
async fn drive(kept: &Kept, events: impl Stream<Item = Bytes>, idle_max: Duration) {
    let mut events = std::pin::pin!(events);
    loop {
        let next = tokio::select! {
            next = events.next() => next,
            () = kept.until_abandoned(idle_max) => None,
            () = kept.until_over() => None,
        };
        match next {
            Some(bytes) => kept.change(|ring| ring.push(&bytes)),
            None => break,
        }
    }
    kept.change(Ring::end);
}

impl Kept {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, act: impl FnOnce(&mut Ring)) {
        act(&mut self.ring());
        self.changes.send_replace(());
    }

    /// Waits until there was no reader for a while.
    async fn until_abandoned(&self, idle_max: Duration) {
        loop {
            self.changes.closed().await;
            let away = self.left.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
            if away >= idle_max {
                return;
            }
            tokio::time::sleep(idle_max - away).await;
        }
    }

    /// Waits until somebody has stopped it. Not a reader: it keeps nothing alive.
    async fn until_over(&self) {
        while !self.ring().is_over() {
            self.stopped.notified().await;
        }
    }
}

/// A reader of a stream; when the last leaves, the time is noted.
struct Reader {
    app: App,
    kept: Arc<Kept>,
    changes: Option<watch::Receiver<()>>,
    /// The last event that it has.
    last: u64,
}

/// An answer with all events after `last`, as they come.
fn read(app: &App, kept: &Arc<Kept>, last: u64) -> Response<Body> {
    let changes = Some(kept.changes.subscribe());
    let reader = Reader { app: app.clone(), kept: Arc::clone(kept), changes, last };
    let events = futures_util::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let (bytes, goes_on) = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), goes_on.then_some(reader)))
    });
    sse::event_stream(Body::from_stream(events))
}

impl Reader {
    /// More events, and whether there will be others.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        let keep_alive = self.app.config.limits.keep_alive;
        loop {
            let changes = self.changes.as_mut()?;
            // What comes after this look is a change.
            changes.mark_unchanged();
            let taken = self.kept.ring().after(self.last);
            match taken {
                Taken::Events { bytes, last } => {
                    self.last = last;
                    return Some((bytes, true));
                }
                Taken::Over => return None,
                Taken::Lost => return Some((lost(), false)),
                Taken::Nothing => match timeout(keep_alive, changes.changed()).await {
                    Ok(_) => {}
                    Err(_) => return Some((Bytes::from_static(b": still here\n\n"), true)),
                },
            }
        }
    }
}

/// The event that tells a reader that it has fallen too far behind.
fn lost() -> Bytes {
    let message = "the reader fell too far behind: what it has not read is kept no more";
    let error = ApiError::new(StatusCode::GONE, "events_gone", message);
    let mut out = Out::default();
    out.data(&error.body(Shape::OpenAi));
    out.take().unwrap_or_default()
}

impl Drop for Reader {
    fn drop(&mut self) {
        *self.kept.left.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.changes = None;
    }
}
