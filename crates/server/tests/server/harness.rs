//! A server on a port of its own, with the models that a test wants.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use zinc_engine::config::KvSize;
use zinc_engine::constraint::{Vocabulary, VocabularyToken};
use zinc_engine::{Engine, EngineConfig, Runtime};
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;
use zinc_models::Model;
use zinc_server::Server;
use zinc_server::auth::Keys;
use zinc_server::config::{Identity, Limits, LogConfig, LogContent, LogFormat, ServerConfig};
use zinc_server::engine::{Generator, Sampling};
use zinc_server::log::Log;
use zinc_server::models::{
    DeviceMemory, Known, LoadError, LoadErrorKind, Loaded, Loader, Progress, Registry, RegistryConfig, Stage,
};
use zinc_tokenizer::chat_template::{ChatTemplate, Limits as TemplateLimits, SpecialTokens};
use zinc_tokenizer::{TokenKind, Tokenizer};

use crate::client;
use crate::scripted::{Scripted, Shared};

/// Tokens of context of every model here.
pub const CONTEXT: u32 = 2048;
/// Bytes that a model takes on the device, as the tests count.
pub const MODEL_BYTES: u64 = 100;

/// A file of `fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// The models of a server.
#[derive(Default)]
pub struct Shelf {
    models: Mutex<Vec<Entry>>,
    /// Ids in the order in which they were loaded.
    pub loads: Mutex<Vec<String>>,
}

struct Entry {
    id: &'static str,
    file: &'static str,
    template: Option<&'static str>,
    script: Option<Arc<Scripted>>,
    is_installed: bool,
}

impl Shelf {
    /// A tiny model that really runs.
    pub fn tiny(&self, id: &'static str, file: &'static str, template: Option<&'static str>) {
        self.add(id, file, template, None, true);
    }

    /// A model that says what it is told, in the form of a template.
    pub fn scripted(&self, id: &'static str, template: &'static str) -> Arc<Scripted> {
        let script = Scripted::new(Arc::new(tokenizer("qwen3-a.F32.gguf")));
        self.add(id, "qwen3-a.F32.gguf", Some(template), Some(Arc::clone(&script)), true);
        script
    }

    /// A model that has to be fetched.
    pub fn remote(&self, id: &'static str) {
        self.add(id, "llama-a.F32.gguf", Some("smollm2"), None, false);
    }

    fn add(
        &self,
        id: &'static str,
        file: &'static str,
        template: Option<&'static str>,
        script: Option<Arc<Scripted>>,
        is_installed: bool,
    ) {
        self.models.lock().unwrap().push(Entry { id, file, template, script, is_installed });
    }
}

pub fn tokenizer(file: &str) -> Tokenizer {
    Tokenizer::from_gguf(&Gguf::open(&fixture("tiny").join(file)).unwrap()).unwrap()
}

impl Loader for Shelf {
    fn known(&self) -> Vec<Known> {
        let known = |entry: &Entry| Known {
            id: entry.id.to_owned(),
            name: Some(format!("The {}", entry.id)),
            is_installed: entry.is_installed,
            size_bytes: Some(MODEL_BYTES),
            memory_bytes: Some(MODEL_BYTES),
            quantization: Some("F32".to_owned()),
            context_tokens: Some(CONTEXT),
            created_unix: Some(1),
        };
        self.models.lock().unwrap().iter().map(known).collect()
    }

    fn load(&self, id: &str, progress: &mut dyn FnMut(Progress)) -> Result<Loaded, LoadError> {
        let models = self.models.lock().unwrap();
        let entry = models.iter().find(|entry| entry.id == id).unwrap();
        if entry.file.is_empty() {
            return Err(LoadError { kind: LoadErrorKind::Unusable, message: format!("{id} is broken") });
        }
        progress(Progress { stage: Stage::Load, done_bytes: 50, total_bytes: MODEL_BYTES, message: "half".to_owned() });
        self.loads.lock().unwrap().push(id.to_owned());
        let tokenizer = Arc::new(tokenizer(entry.file));
        let template = match entry.template {
            Some(name) => {
                let source = std::fs::read_to_string(fixture("templates/templates").join(format!("{name}.jinja")));
                let special = SpecialTokens::of(&tokenizer);
                ChatTemplate::parse(&source.unwrap(), special, TemplateLimits::STANDARD).map_err(|e| e.to_string())
            }
            None => Err("the file has no chat template".to_owned()),
        };
        let generator: Arc<dyn Generator> = match &entry.script {
            Some(script) => Arc::new(Shared(Arc::clone(script))),
            None => Arc::new(runtime(entry.file, &tokenizer)),
        };
        Ok(Loaded {
            generator,
            tokenizer,
            template,
            context_tokens: CONTEXT,
            memory_bytes: MODEL_BYTES,
            sampling: Sampling::greedy(),
            thinking_sampling: None,
        })
    }

    fn pull(&self, id: &str, _: &Arc<AtomicBool>, progress: &mut dyn FnMut(Progress)) -> Result<(), LoadError> {
        progress(Progress {
            stage: Stage::Download,
            done_bytes: 1,
            total_bytes: MODEL_BYTES,
            message: "some".to_owned(),
        });
        self.models.lock().unwrap().iter_mut().find(|entry| entry.id == id).unwrap().is_installed = true;
        Ok(())
    }

    fn device(&self) -> DeviceMemory {
        DeviceMemory { name: "test".to_owned(), total_bytes: Some(1000) }
    }
}

fn runtime(file: &str, tokenizer: &Tokenizer) -> Runtime {
    let gguf = Gguf::open(&fixture("tiny").join(file)).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let weights = model.weights(&gguf).unwrap();
    let config = EngineConfig {
        context_tokens: CONTEXT,
        sequences_max: 8,
        step_tokens: 64,
        kv: KvSize::Contexts,
        kv_format: KvFormat::F32,
        queue_max: 256,
        snapshot_bytes: 0,
        snapshot_tokens: 64,
        decode_gap_max: Duration::from_secs(1),
    };
    let token = |id| VocabularyToken {
        bytes: tokenizer.piece(id).to_vec(),
        is_control: !matches!(tokenizer.kind(id), Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte)),
    };
    let tokens = (0..tokenizer.n_vocab()).map(token).collect();
    let vocabulary = Vocabulary { tokens, end_ids: tokenizer.end_of_generation().to_vec() };
    let engine = Engine::new(Box::new(zinc_cpu::Cpu::new(1).unwrap()), model, weights, config).unwrap();
    Runtime::start(engine.with_vocabulary(vocabulary).unwrap()).unwrap()
}

/// The settings of the tests: no keys, nobody else's pages, short times.
pub fn config() -> ServerConfig {
    ServerConfig {
        address: "127.0.0.1:0".parse().unwrap(),
        keys: Keys::default(),
        hosts: vec!["zinc.test".to_owned()],
        origins: vec!["https://page.test".to_owned()],
        identity: Identity::Zinc,
        limits: Limits { drain_max: Duration::from_secs(5), ..Limits::STANDARD },
        shares_cores: true,
    }
}

/// Which models may be loaded.
pub fn registry(default: &str) -> RegistryConfig {
    RegistryConfig { default_model: Some(default.to_owned()), memory_bytes_max: Some(250), models_max: 4 }
}

/// A server that runs.
pub struct Served {
    pub address: SocketAddr,
    pub registry: Arc<Registry>,
    pub shelf: Arc<Shelf>,
    pub log: Lines,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What was logged.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Served {
    /// Starts a server and waits until its model is loaded.
    pub fn start(config: ServerConfig, shelf: Shelf, models: RegistryConfig) -> Served {
        let served = Served::start_unready(config, shelf, models);
        while client::get(served.address, "/ready").status != 200 {
            std::thread::yield_now();
        }
        served
    }

    /// Starts a server.
    pub fn start_unready(config: ServerConfig, shelf: Shelf, models: RegistryConfig) -> Served {
        let shelf = Arc::new(shelf);
        let loader: Arc<dyn Loader> = Arc::<Shelf>::clone(&shelf);
        let registry = Registry::new(loader, models);
        let log = Lines::default();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let (of_server, lines) = (Arc::clone(&registry), log.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let log = LogConfig { format: LogFormat::Json, content: LogContent::None };
                let log = Log::new(log, lines);
                let server = Server::bind(config, of_server, log).await.unwrap();
                tell.send(server.address().unwrap()).unwrap();
                server
                    .run(async {
                        let _ = stopped.await;
                    })
                    .await;
            });
        });
        let address = told.recv().unwrap();
        Served { address, registry, shelf, log, stop: Some(stop), thread: Some(thread) }
    }

    /// Tells the server to stop, without waiting.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for its end.
    pub fn join(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.join();
    }
}

/// A server with one tiny model that really runs.
pub fn tiny() -> Served {
    let shelf = Shelf::default();
    shelf.tiny("tiny", "llama-a.F32.gguf", Some("smollm2"));
    Served::start(config(), shelf, registry("tiny"))
}

/// A server with one model that follows a script.
pub fn scripted(template: &'static str) -> (Served, Arc<Scripted>) {
    let shelf = Shelf::default();
    let script = shelf.scripted("actor", template);
    (Served::start(config(), shelf, registry("actor")), script)
}

/// Waits until something holds; what never does fails by the test's own time limit.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
