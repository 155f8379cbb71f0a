//! Models: what there is, what is loaded, and how it gets there.
//!
//! Files, devices and downloads are the caller's, behind [`Loader`]; the [`Registry`] decides what is loaded when.

mod registry;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Map;
use zinc_tokenizer::chat_template::{ChatTemplate, LocalTime, Message, RenderInput};
use zinc_tokenizer::{TokenKind, Tokenizer};

pub use registry::{LoadState, Registry, RegistryConfig, Standing};
pub(crate) use registry::{load_api_error, not_found};

use crate::engine::{Generator, Sampling};
use crate::parse::Dialect;

/// Brings models from where they lie onto the device. Its calls block.
pub trait Loader: Send + Sync {
    /// The models that can be named.
    fn known(&self) -> Vec<Known>;
    /// Loads a model that is here.
    ///
    /// # Errors
    /// What is in the way.
    fn load(&self, id: &str, progress: &mut dyn FnMut(Progress)) -> Result<Loaded, LoadError>;
    /// Fetches a model; a set flag ends that.
    ///
    /// # Errors
    /// What is in the way.
    fn pull(&self, id: &str, cancel: &Arc<AtomicBool>, progress: &mut dyn FnMut(Progress)) -> Result<(), LoadError>;
    /// The device that models are loaded onto.
    fn device(&self) -> DeviceMemory;
}

/// A model that can be named.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// By which requests name it.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// Whether its file is on this machine.
    pub is_installed: bool,
    /// Bytes of its file.
    pub size_bytes: Option<u64>,
    /// Bytes that it takes on the device, with its context.
    pub memory_bytes: Option<u64>,
    /// The mix of block formats.
    pub quantization: Option<String>,
    /// Tokens of context that it would be loaded with.
    pub context_tokens: Option<u32>,
    /// When its file came here, in seconds since 1970.
    pub created_unix: Option<u64>,
}

/// The device's memory, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Its name.
    pub name: String,
    /// All of it.
    pub total_bytes: Option<u64>,
}

/// How far a load or a download is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in all; 0 if that is not known.
    pub total_bytes: u64,
    /// For people.
    pub message: String,
}

/// The parts of bringing a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its file comes to this machine.
    Download,
    /// It comes onto the device.
    Load,
}

/// A model on a device.
pub struct Loaded {
    /// What continues prompts.
    pub generator: Arc<dyn Generator>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template, or why it has none.
    pub template: Result<ChatTemplate, String>,
    /// Tokens of context.
    pub context_tokens: u32,
    /// Bytes on the device.
    pub memory_bytes: u64,
    /// How its authors sample from it.
    pub sampling: Sampling,
    /// The same for answers that begin with thinking, where that differs.
    pub thinking_sampling: Option<Sampling>,
}

/// Why a model did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What kind.
    pub kind: LoadErrorKind,
    /// One sentence with its remedy, without paths of this machine.
    pub message: String,
}

/// Kinds of [`LoadError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadErrorKind {
    /// There is no such model.
    Unknown,
    /// Its file is not on this machine.
    NotInstalled,
    /// Its file cannot be used.
    Unusable,
    /// There is no room on the device.
    NoMemory,
    /// It could not be fetched.
    Download,
    /// It was cancelled.
    Cancelled,
}

/// A loaded model, ready for requests.
pub struct Model {
    /// By which requests name it.
    pub id: String,
    /// What was loaded.
    pub loaded: Loaded,
    /// How it writes.
    pub dialect: Dialect,
    /// Whether it thinks if a request says nothing.
    pub thinks_by_default: bool,
    /// Control tokens that are read as text.
    pub marks: HashSet<u32>,
    /// One for each request that it answers, and one.
    leases: Arc<()>,
}

impl Model {
    /// Finds out how a loaded model writes.
    pub fn new(id: String, mut loaded: Loaded) -> Model {
        let tokenizer = &loaded.tokenizer;
        let dialect = loaded.template.as_ref().map_or(Dialect::NONE, Dialect::of);
        let thinks_by_default = loaded.template.as_ref().is_ok_and(|template| thinks_by_default(template, dialect));
        let control = |id: &u32| tokenizer.kind(*id) == Some(TokenKind::Control);
        let marks =
            dialect.control_marks().iter().filter_map(|mark| tokenizer.token_to_id(mark)).filter(control).collect();
        loaded.sampling.penalty_window = loaded.sampling.penalty_window.max(PENALTY_WINDOW);
        Model { id, loaded, dialect, thinks_by_default, marks, leases: Arc::new(()) }
    }

    /// Keeps the model from being taken away.
    pub fn lease(&self) -> Arc<()> {
        Arc::clone(&self.leases)
    }

    /// Requests that it answers.
    pub fn n_requests(&self) -> usize {
        Arc::strong_count(&self.leases) - 1
    }
}

/// Tokens that penalties look back on.
pub(crate) const PENALTY_WINDOW: u32 = 256;

/// Whether saying nothing differs from switching thinking off.
fn thinks_by_default(template: &ChatTemplate, dialect: Dialect) -> bool {
    let Some(switch) = template.capabilities().thinking_switch else { return dialect.thinking.is_some() };
    let render = |variables: Map<String, serde_json::Value>| {
        let messages = [Message::text("user", "Hi")];
        let now = LocalTime::from_unix(0, 0)?;
        let input =
            RenderInput { messages: &messages, tools: &[], add_generation_prompt: true, now, variables: &variables };
        template.render(&input).ok().map(|rendered| rendered.text().to_owned())
    };
    render(Map::new()) != render(Map::from_iter([(switch.to_owned(), false.into())]))
}
