//! Which models are loaded: on demand, one load at a time, the least recently used one out when there is no room.
//!
//! A model that answers somebody is never taken away: streams hold it, and what was unloaded goes when the last of them
//! ends. Its memory counts until then.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Semaphore, watch};

use super::{Known, LoadError, LoadErrorKind, Loader, Model, Progress, Stage};
use crate::engine;
use crate::error::ApiError;

/// What a registry may do.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// The model of requests that name none; it is loaded at start.
    pub default_model: Option<String>,
    /// Bytes that loaded models may take together.
    pub memory_bytes_max: Option<u64>,
    /// Models that are loaded at once.
    pub models_max: usize,
}

/// Knows and keeps models.
pub struct Registry {
    loader: Arc<dyn Loader>,
    config: RegistryConfig,
    table: Mutex<Table>,
    /// One load at a time: two would compete for the same memory.
    turn: Semaphore,
}

#[derive(Default)]
struct Table {
    slots: HashMap<String, Slot>,
    /// Models that were unloaded while they answered.
    leaving: Vec<(Weak<Model>, u64)>,
    /// Counts uses.
    clock: u64,
}

enum Slot {
    Loading(watch::Receiver<LoadState>),
    Ready { model: Arc<Model>, used: u64 },
    Failed(LoadError),
}

/// How a load stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadState {
    /// It goes on.
    Running(Progress),
    /// The model can be used.
    Ready,
    /// It did not come.
    Failed(LoadError),
}

/// How a model stands.
#[derive(Clone)]
pub enum Standing {
    /// It answers requests.
    Loaded(Arc<Model>),
    /// It is coming.
    Loading(Progress),
    /// Its file is here.
    Installed,
    /// It can be fetched.
    Available,
    /// The last load failed.
    Failed(LoadError),
}

impl Registry {
    /// A registry with nothing loaded.
    pub fn new(loader: Arc<dyn Loader>, config: RegistryConfig) -> Arc<Registry> {
        Arc::new(Registry { loader, config, table: Mutex::default(), turn: Semaphore::new(1) })
    }

    /// The model of requests that name none: the one given at start, or any that is loaded.
    pub fn default_id(&self) -> Option<String> {
        self.config.default_model.clone().or_else(|| {
            let table = self.table();
            let ready = table.slots.iter().filter_map(|(id, slot)| match slot {
                Slot::Ready { used, .. } => Some((*used, id)),
                _ => None,
            });
            ready.max().map(|(_, id)| id.clone())
        })
    }

    /// The loader.
    pub fn loader(&self) -> &Arc<dyn Loader> {
        &self.loader
    }

    /// Every model that can be named, and how it stands.
    pub fn list(&self) -> Vec<(Known, Standing)> {
        let known = self.loader.known();
        let table = self.table();
        let standing = |known: &Known| match table.slots.get(&known.id) {
            Some(Slot::Ready { model, .. }) => Standing::Loaded(Arc::clone(model)),
            Some(Slot::Loading(state)) => Standing::Loading(progress_of(&state.borrow())),
            Some(Slot::Failed(error)) => Standing::Failed(error.clone()),
            None if known.is_installed => Standing::Installed,
            None => Standing::Available,
        };
        known.into_iter().map(|known| (standing(&known), known)).map(|(standing, known)| (known, standing)).collect()
    }

    /// The models that are loaded.
    pub fn loaded(&self) -> Vec<Arc<Model>> {
        let table = self.table();
        let ready = table.slots.values().filter_map(|slot| match slot {
            Slot::Ready { model, .. } => Some(Arc::clone(model)),
            _ => None,
        });
        ready.collect()
    }

    /// Bytes that loaded models take.
    pub fn used_bytes(&self) -> u64 {
        self.table().used_bytes()
    }

    /// The model that a request names, loaded first if it is on this machine.
    ///
    /// # Errors
    /// It is not known, not here, cannot be loaded, or its device has failed.
    pub async fn model(self: &Arc<Self>, name: Option<&str>) -> Result<Arc<Model>, ApiError> {
        let id = match name.filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => self.default_id().ok_or_else(|| {
                ApiError::unavailable("no_model", "no model is loaded; load one with POST /v1/models/{id}/load")
            })?,
        };
        if let Some(model) = self.ready(&id) {
            return match model.loaded.generator.broken() {
                Some(error) => Err(engine::api_error(&zinc_engine::Error::Broken(error))),
                None => Ok(model),
            };
        }
        let known = self.loader.known();
        match known.iter().find(|known| known.id == id) {
            None => Err(not_found(&id, &known)),
            Some(known) if !known.is_installed && !self.is_loading(&id) => Err(load_api_error(&LoadError {
                kind: LoadErrorKind::NotInstalled,
                message: format!("the model {id:?} is not on this machine; fetch it with POST /v1/models/{id}/pull"),
            })),
            Some(_) => self.load_and_wait(&id).await,
        }
    }

    async fn load_and_wait(self: &Arc<Self>, id: &str) -> Result<Arc<Model>, ApiError> {
        let mut state = self.start_load(id);
        let ended = state.wait_for(|state| !matches!(state, LoadState::Running(_))).await;
        let ended = ended.map(|state| state.clone()).unwrap_or(LoadState::Failed(stopped()));
        match (ended, self.ready(id)) {
            (LoadState::Failed(error), _) => Err(load_api_error(&error)),
            (_, Some(model)) => Ok(model),
            (_, None) => {
                Err(ApiError::unavailable("unloaded", format!("the model {id:?} was unloaded again; try again")))
            }
        }
    }

    fn is_loading(&self, id: &str) -> bool {
        matches!(self.table().slots.get(id), Some(Slot::Loading(_)))
    }

    /// The model if it is loaded; this counts as a use.
    pub fn ready(&self, id: &str) -> Option<Arc<Model>> {
        let mut table = self.table();
        table.clock += 1;
        let now = table.clock;
        match table.slots.get_mut(id) {
            Some(Slot::Ready { model, used }) => {
                *used = now;
                Some(Arc::clone(model))
            }
            _ => None,
        }
    }

    /// Begins to load a model, or joins the load that is under way. A model that is not here is fetched first.
    pub fn start_load(self: &Arc<Self>, id: &str) -> watch::Receiver<LoadState> {
        let mut table = self.table();
        match table.slots.get(id) {
            Some(Slot::Loading(state)) => return state.clone(),
            Some(Slot::Ready { model, .. }) if model.loaded.generator.broken().is_none() => {
                return watch::channel(LoadState::Ready).1;
            }
            _ => {}
        }
        let message = "waiting for another load to end".to_owned();
        let waiting = Progress { stage: Stage::Load, done_bytes: 0, total_bytes: 0, message };
        let (sender, receiver) = watch::channel(LoadState::Running(waiting));
        if let Some(Slot::Ready { model, .. }) = table.slots.insert(id.to_owned(), Slot::Loading(receiver.clone())) {
            table.leave(model);
        }
        drop(table);
        let (registry, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move { registry.load(id, sender).await });
        receiver
    }

    async fn load(self: Arc<Self>, id: String, sender: watch::Sender<LoadState>) {
        let _turn = self.turn.acquire().await;
        let registry = Arc::clone(&self);
        let name = id.clone();
        let sender = Arc::new(sender);
        let reports = Arc::clone(&sender);
        let work = tokio::task::spawn_blocking(move || registry.load_blocking(&name, &reports));
        let result = work.await.unwrap_or_else(|_| Err(stopped()));
        let state = match &result {
            Ok(_) => LoadState::Ready,
            Err(error) => LoadState::Failed(error.clone()),
        };
        let mut table = self.table();
        table.clock += 1;
        let used = table.clock;
        let slot = match result {
            Ok(model) => Slot::Ready { model: Arc::new(model), used },
            Err(error) => Slot::Failed(error),
        };
        table.slots.insert(id, slot);
        drop(table);
        sender.send_replace(state);
    }

    fn load_blocking(&self, id: &str, reports: &watch::Sender<LoadState>) -> Result<Model, LoadError> {
        let mut report = |progress| {
            reports.send_replace(LoadState::Running(progress));
        };
        let find = || self.loader.known().into_iter().find(|known| known.id == id);
        let unknown = || LoadError { kind: LoadErrorKind::Unknown, message: format!("there is no model {id:?}") };
        let mut known = find().ok_or_else(unknown)?;
        if !known.is_installed {
            self.loader.pull(id, &Arc::new(AtomicBool::new(false)), &mut report)?;
            known = find().ok_or_else(unknown)?;
        }
        let needed = known.memory_bytes.or(known.size_bytes).unwrap_or(0);
        for evicted in self.make_room(needed)? {
            // Here, on a thread that may wait: the engine's thread ends its step first.
            drop(evicted);
        }
        let total_bytes = known.size_bytes.unwrap_or(0);
        report(Progress { stage: Stage::Load, done_bytes: 0, total_bytes, message: format!("loading {id}") });
        let loaded = self.loader.load(id, &mut report)?;
        Ok(Model::new(id.to_owned(), loaded))
    }

    /// Takes idle models out, the least recently used first, until `needed` bytes fit.
    fn make_room(&self, needed: u64) -> Result<Vec<Arc<Model>>, LoadError> {
        let mut table = self.table();
        let mut evicted = Vec::new();
        loop {
            let n_loaded = table.slots.values().filter(|slot| matches!(slot, Slot::Ready { .. })).count();
            let used = table.used_bytes();
            let fits = self.config.memory_bytes_max.is_none_or(|max| used.saturating_add(needed) <= max);
            if fits && n_loaded < self.config.models_max {
                return Ok(evicted);
            }
            let idle = table.slots.iter().filter_map(|(id, slot)| match slot {
                Slot::Ready { model, used } if model.n_requests() == 0 => Some((*used, id.clone())),
                _ => None,
            });
            let Some((_, oldest)) = idle.min() else {
                let max = self.config.memory_bytes_max.unwrap_or(u64::MAX);
                let why = match n_loaded {
                    0 => format!("it needs {needed} bytes, and {max} are allowed for models"),
                    n => format!("{n} loaded models are answering and take {used} bytes; try again when they are done"),
                };
                return Err(LoadError { kind: LoadErrorKind::NoMemory, message: format!("there is no room: {why}") });
            };
            if let Some(Slot::Ready { model, .. }) = table.slots.remove(&oldest) {
                evicted.push(model);
            }
        }
    }

    /// Takes a model out; streams that use it end first. Something if it was loaded.
    pub fn unload(&self, id: &str) -> Option<Unloaded> {
        let mut table = self.table();
        match table.slots.remove(id) {
            Some(Slot::Ready { model, .. }) => {
                let n_streams = model.n_requests();
                table.leave(model);
                Some(Unloaded { n_streams })
            }
            // A failure is forgotten; a load goes on.
            Some(Slot::Failed(_)) | None => None,
            Some(loading @ Slot::Loading(_)) => {
                table.slots.insert(id.to_owned(), loading);
                None
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is whole between any two statements; a panic elsewhere does not make it wrong.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a model that was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Requests that it still answers.
    pub n_streams: usize,
}

impl Table {
    fn used_bytes(&self) -> u64 {
        let ready = self.slots.values().map(|slot| match slot {
            Slot::Ready { model, .. } => model.loaded.memory_bytes,
            _ => 0,
        });
        let leaving = self.leaving.iter().filter(|(model, _)| model.strong_count() > 0).map(|(_, bytes)| *bytes);
        ready.chain(leaving).sum()
    }

    /// Remembers a model that requests may still use, and lets go of it.
    fn leave(&mut self, model: Arc<Model>) {
        self.leaving.retain(|(model, _)| model.strong_count() > 0);
        self.leaving.push((Arc::downgrade(&model), model.loaded.memory_bytes));
        // Waits for the engine's step if this is the last reference: not on a thread that serves.
        tokio::task::spawn_blocking(move || drop(model));
    }
}

fn progress_of(state: &LoadState) -> Progress {
    match state {
        LoadState::Running(progress) => progress.clone(),
        _ => Progress { stage: Stage::Load, done_bytes: 0, total_bytes: 0, message: String::new() },
    }
}

fn stopped() -> LoadError {
    LoadError { kind: LoadErrorKind::Unusable, message: "the load stopped unexpectedly; the log says more".to_owned() }
}

/// Models that are named in the error of an unknown one.
const NAMED_MAX: usize = 8;

pub(crate) fn not_found(id: &str, known: &[Known]) -> ApiError {
    let names: Vec<&str> = known.iter().filter(|k| k.is_installed).map(|k| k.id.as_str()).take(NAMED_MAX).collect();
    let here =
        if names.is_empty() { "none is installed".to_owned() } else { format!("here are: {}", names.join(", ")) };
    let message = format!("the model {} does not exist; {here}", crate::fields::quoted(id));
    ApiError::not_found("model_not_found", message).about("model")
}

/// A failed load as an answer.
pub(crate) fn load_api_error(error: &LoadError) -> ApiError {
    let message = error.message.clone();
    match error.kind {
        LoadErrorKind::Unknown | LoadErrorKind::NotInstalled => {
            ApiError::not_found("model_not_found", message).about("model")
        }
        LoadErrorKind::Unusable => {
            ApiError::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "model_unusable", message).about("model")
        }
        LoadErrorKind::NoMemory => ApiError::unavailable("no_memory", message),
        LoadErrorKind::Download => ApiError::unavailable("download_failed", message),
        LoadErrorKind::Cancelled => ApiError::unavailable("cancelled", message),
    }
}
