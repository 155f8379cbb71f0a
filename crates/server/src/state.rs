//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::config::ServerConfig;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::models::Registry;
use crate::resumable::Streams;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
    pub(crate) log: Log,
    pub(crate) streams: Streams,
    pub(crate) started: Instant,
    is_draining: AtomicBool,
}

impl App {
    pub(crate) fn new(config: ServerConfig, registry: Arc<Registry>, log: Log) -> App {
        App(Arc::new(Shared {
            config,
            registry,
            metrics: Metrics::default(),
            log,
            streams: Streams::default(),
            started: Instant::now(),
            is_draining: AtomicBool::new(false),
        }))
    }

    /// No new work is taken from now on.
    pub(crate) fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
