//! The models of this machine, as the server asks for them: the catalog, and the file that was named with `-m`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use zinc_engine::request::RequestId;
use zinc_engine::stats::Stats;
use zinc_engine::{Request, Runtime};
use zinc_hub::catalog::{self, Entry};
use zinc_hub::{Event, Folders, Hold, Phase, Resolved};
use zinc_server::engine::{Events, Generator};
use zinc_server::models::{DeviceMemory, Known, LoadError, LoadErrorKind, Loaded, Loader, Progress, Stage};

use crate::args::shared::{DeviceArgs, ModelArgs};
use crate::device::Devices;
use crate::failure::{Failure, Kind};
use crate::fit::{self, Space};
use crate::output::{dim, note, stderr_colours};
use crate::resolve::{self, Found};
use crate::session::{ModelFile, loaded, vocabulary};

/// What this machine has.
pub(crate) struct Models {
    device: DeviceArgs,
    folders: Folders,
    /// The file that was named, and the id that it goes by.
    file: Option<(String, PathBuf)>,
    first_id: String,
    /// Asked of the driver once: it does not change while we run.
    memory: OnceLock<DeviceMemory>,
    /// What each model of the catalog takes with these settings, in bytes, as far as that can be told.
    needs: OnceLock<Vec<Option<u64>>>,
}

impl Models {
    /// Checks what was named. Nothing is fetched or loaded yet.
    pub(crate) fn new(args: &ModelArgs, device: DeviceArgs) -> Result<Models, Failure> {
        let folders = resolve::folders()?;
        let file = match &args.model {
            Some(path) => {
                zinc_hub::model_file(path).map_err(|e| resolve::failure(&e))?;
                Some((id_of(path), path.clone()))
            }
            None => None,
        };
        let first_id = match (&file, &args.model_id) {
            (Some((id, _)), _) => id.clone(),
            (None, Some(id)) => {
                zinc_hub::model_id(&folders, id).map_err(|e| resolve::failure(&e))?;
                id.clone()
            }
            (None, None) => resolve::usual_id(&folders),
        };
        Ok(Models { device, folders, file, first_id, memory: OnceLock::new(), needs: OnceLock::new() })
    }

    /// The model that is loaded at start.
    pub(crate) fn first_id(&self) -> String {
        self.first_id.clone()
    }

    /// What models of the catalog take, in its order.
    fn needs(&self) -> &[Option<u64>] {
        self.needs.get_or_init(|| {
            let space = Space::of(&self.device.device).ok();
            let fit = |entry| fit::of_entry(entry, &self.device, space.as_ref()?).ok();
            catalog::ENTRIES.iter().map(|entry| fit(entry).map(|fit| fit.needs.total_bytes())).collect()
        })
    }

    /// The file of an id.
    fn find(&self, id: &str) -> Result<Found, LoadError> {
        if let Some((_, path)) = self.file.as_ref().filter(|(name, _)| name == id) {
            return Ok(Found { path: path.clone(), entry: None, hold: None });
        }
        let unusable = |message: String| LoadError { kind: LoadErrorKind::Unusable, message };
        match zinc_hub::model_id(&self.folders, id) {
            Ok(Resolved::Installed(entry, installed)) => {
                Found::of(entry, &installed).map_err(|failure| unusable(failure.message))
            }
            Ok(Resolved::Missing(_) | Resolved::OnHub(_)) => Err(LoadError {
                kind: LoadErrorKind::NotInstalled,
                message: format!("the model {id:?} is not on this machine; fetch it with POST /v1/models/{id}/pull"),
            }),
            Err(zinc_hub::Error::UnknownModel { .. } | zinc_hub::Error::BadId { .. }) => Err(unknown(id)),
            Err(error) => Err(unusable(error.to_string())),
        }
    }
}

/// The name of a file without its ending.
fn id_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let id: String = stem.chars().map(plain).collect();
    if id.is_empty() { "model".to_owned() } else { id }
}

fn entry(id: &str) -> Result<&'static Entry, LoadError> {
    catalog::find(id).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> LoadError {
    LoadError { kind: LoadErrorKind::Unknown, message: format!("there is no model {id:?}") }
}

/// A running model that no other process removes meanwhile.
struct Held {
    runtime: Runtime,
    _hold: Option<Hold>,
}

impl Generator for Held {
    fn submit(&self, request: Request, events: Events) -> Result<RequestId, zinc_engine::Error> {
        Generator::submit(&self.runtime, request, events)
    }

    fn cancel(&self, id: RequestId) {
        Generator::cancel(&self.runtime, id);
    }

    fn cancel_choice(&self, id: RequestId, choice: u32) {
        Generator::cancel_choice(&self.runtime, id, choice);
    }

    fn stats(&self) -> Stats {
        Generator::stats(&self.runtime)
    }

    fn broken(&self) -> Option<Arc<zinc_engine::Error>> {
        Generator::broken(&self.runtime)
    }
}

impl Loader for Models {
    fn known(&self) -> Vec<Known> {
        let file = self.file.iter().map(|(id, path)| Known {
            id: id.clone(),
            name: None,
            is_installed: true,
            size_bytes: std::fs::metadata(path).ok().map(|metadata| metadata.len()),
            memory_bytes: None,
            quantization: None,
            context_tokens: self.device.context,
            created_unix: created(path),
        });
        let of_catalog = catalog::ENTRIES.iter().zip(self.needs()).map(|(entry, needed)| {
            // A cache that cannot be read holds nothing that could be loaded.
            let installed = self.folders.installed(entry).ok().flatten();
            Known {
                id: entry.id.to_string(),
                name: Some(entry.name.to_owned()),
                is_installed: installed.is_some(),
                size_bytes: Some(entry.size_bytes),
                memory_bytes: *needed,
                quantization: Some(entry.quantisation.to_owned()),
                context_tokens: self.device.context.or(Some(entry.context_tokens)),
                created_unix: installed.and_then(|installed| created(&installed.path)),
            }
        });
        // What was fetched from elsewhere on the hub.
        let others = self.folders.all_installed().unwrap_or_default().into_iter();
        let others = others.filter(|installed| catalog::find(installed.id.as_str()).is_none()).map(|installed| Known {
            id: installed.id.to_string(),
            name: Some(installed.repository.clone()),
            is_installed: true,
            size_bytes: Some(installed.size_bytes),
            memory_bytes: None,
            quantization: None,
            context_tokens: self.device.context,
            created_unix: created(&installed.path),
        });
        file.chain(of_catalog).chain(others).collect()
    }

    fn load(&self, id: &str, _: &mut dyn FnMut(Progress)) -> Result<Loaded, LoadError> {
        let started = std::time::Instant::now();
        let found = self.find(id)?;
        let path = found.path.clone();
        let unusable = |failure: Failure| load_error(failure, &path);
        let file = ModelFile::read(found).map_err(unusable)?;
        let tokenizer = file.tokenizer().map_err(unusable)?;
        let template = file.template(&tokenizer).map_err(|failure| failure.message);
        let engine = file.engine(&self.device).map_err(unusable)?;
        let engine = engine.with_vocabulary(vocabulary(&tokenizer)).map_err(|e| unusable(Failure::failed(e)))?;
        let limits = *engine.limits();
        note(&dim(&loaded(&path, &engine, started), stderr_colours()));
        let size_bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let (sampling, thinking_sampling) = (file.chat_sampling(), file.thinking_sampling());
        let runtime = Runtime::start(engine).map_err(|e| unusable(Failure::failed(e)))?;
        Ok(Loaded {
            generator: Arc::new(Held { runtime, _hold: file.hold }),
            tokenizer: Arc::new(tokenizer),
            template,
            context_tokens: limits.config.context_tokens,
            memory_bytes: size_bytes.saturating_add(limits.kv_bytes).saturating_add(limits.recurrent_bytes),
            sampling,
            thinking_sampling,
        })
    }

    fn pull(&self, id: &str, cancel: &Arc<AtomicBool>, progress: &mut dyn FnMut(Progress)) -> Result<(), LoadError> {
        let entry = entry(id)?;
        note(&format!("fetching {} ({})", entry.name, crate::output::bytes(entry.size_bytes)));
        let mut on_event = |event: Event<'_>| {
            let (done_bytes, total_bytes, message) = match event {
                Event::Progress { phase, done, total } => (done, total, phase_text(phase).to_owned()),
                Event::Trying { source } => (0, entry.size_bytes, format!("fetching from {source}")),
                Event::Failed { source, .. } => {
                    (0, entry.size_bytes, format!("{source} failed; trying the next source"))
                }
                Event::Retrying { .. } => (0, entry.size_bytes, "the connection was lost; trying again".to_owned()),
            };
            progress(Progress { stage: Stage::Download, done_bytes, total_bytes, message });
        };
        let pulled = zinc_hub::pull(entry, &self.folders, &resolve::settings(), cancel, &mut on_event);
        pulled.map(|_| ()).map_err(|error| LoadError {
            kind: match error {
                zinc_hub::Error::Cancelled => LoadErrorKind::Cancelled,
                _ => LoadErrorKind::Download,
            },
            message: error.to_string(),
        })
    }

    fn device(&self) -> DeviceMemory {
        self.memory.get_or_init(|| memory_of(&self.device.device)).clone()
    }
}

/// The memory of the device that `--device` names.
fn memory_of(named: &str) -> DeviceMemory {
    let devices = Devices::find();
    let id = match named {
        "auto" => devices.best(),
        id => id.to_owned(),
    };
    if id == "cpu" {
        return DeviceMemory { name: zinc_cpu::description(), total_bytes: None };
    }
    match zinc_vulkan::candidate::find(&devices.gpus, &id) {
        Ok(gpu) => DeviceMemory { name: gpu.name.clone(), total_bytes: Some(gpu.memory.heap_bytes) },
        Err(_) => DeviceMemory { name: id, total_bytes: None },
    }
}

fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Checking => "checking what is here",
        Phase::Downloading => "downloading",
        Phase::Unpacking => "unpacking",
    }
}

fn created(path: &Path) -> Option<u64> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    modified.duration_since(std::time::UNIX_EPOCH).ok().map(|passed| passed.as_secs())
}

/// A failure as clients may see it: without the folders of this machine.
fn load_error(failure: Failure, path: &Path) -> LoadError {
    note(&format!("error: {}", failure.message));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let message = failure.message.replace(&path.display().to_string(), &name);
    let kind = match failure.kind {
        Kind::ModelNotFound => LoadErrorKind::NotInstalled,
        _ => LoadErrorKind::Unusable,
    };
    LoadError { kind, message }
}
