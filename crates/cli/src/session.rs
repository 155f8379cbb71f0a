//! A loaded model: file, tokenizer, template and an engine around a backend.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zinc_engine::config::{ConfigError, KvSize, Limits as EngineLimits};
use zinc_engine::constraint::{Vocabulary, VocabularyToken};
use zinc_engine::sampler::Sampling;
use zinc_engine::{Engine, EngineConfig};
use zinc_gguf::Gguf;
use zinc_graph::Graph;
use zinc_graph::backend::KvFormat;
use zinc_hub::{Hold, catalog};
use zinc_models::Model;
use zinc_tokenizer::chat_template::{ChatTemplate, Limits};
use zinc_tokenizer::{TokenKind, Tokenizer};

use crate::args::shared::{DeviceArgs, KvType, ModelArgs, Switch};
use crate::commands::open_error;
use crate::conversation::template_failure;
use crate::device::Device;
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::output::{bytes, dim, note, stderr_colours};
use crate::resolve::{self, Found};

/// Tokens of context unless the user or the catalog says otherwise or the model has less.
const CONTEXT_DEFAULT: u32 = 4096;
/// Tokens that one step of the prompt takes.
const STEP_TOKENS: u32 = 512;
/// Bytes of keys and values for several sequences, unless one context alone needs more.
const KV_BYTES_DEFAULT: u64 = 2 << 30;
/// Bytes of snapshots of recurrent state.
const SNAPSHOT_BYTES_DEFAULT: u64 = 512 << 20;
/// Tokens between two snapshots: as many as a step, so that they do not cut one.
pub(crate) const SNAPSHOT_TOKENS: u32 = STEP_TOKENS;
/// Requests that wait.
const QUEUE_DEFAULT: u32 = 256;
/// What a long prompt may add to the time between two tokens of others.
const DECODE_GAP_MAX: Duration = Duration::from_millis(250);

/// A model's file and what is read from its header.
pub(crate) struct ModelFile {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// Header and map.
    pub(crate) gguf: Gguf,
    /// The entry of the catalog, if it is one of its models.
    pub(crate) entry: Option<&'static catalog::Entry>,
    /// Keeps other processes from removing it.
    pub(crate) hold: Option<Hold>,
}

impl ModelFile {
    /// Finds the model that the arguments name, fetching it if it is not here.
    pub(crate) fn open(args: &ModelArgs, interrupt: &Interrupt) -> Result<ModelFile, Failure> {
        ModelFile::read(resolve::model(args, interrupt)?)
    }

    /// As [`ModelFile::open`], but the tensors' data may be missing.
    pub(crate) fn open_header(args: &ModelArgs, interrupt: &Interrupt) -> Result<ModelFile, Failure> {
        let Found { path, entry, hold } = resolve::model(args, interrupt)?;
        let gguf = Gguf::open_header(&path).map_err(|e| open_error(&path, &e))?;
        Ok(ModelFile { path, gguf, entry, hold })
    }

    /// The header of a file that was found.
    pub(crate) fn read(Found { path, entry, hold }: Found) -> Result<ModelFile, Failure> {
        let gguf = Gguf::open(&path).map_err(|e| open_error(&path, &e))?;
        Ok(ModelFile { path, gguf, entry, hold })
    }

    /// The tokenizer of the file.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, Failure> {
        Tokenizer::from_gguf(&self.gguf).map_err(|e| self.unusable(&e))
    }

    /// The chat template of the file.
    pub(crate) fn template(&self, tokenizer: &Tokenizer) -> Result<ChatTemplate, Failure> {
        ChatTemplate::from_gguf(&self.gguf, tokenizer, Limits::STANDARD).map_err(|e| template_failure(&e))
    }

    /// How the model's authors sample from it in a chat, or what suits most models.
    pub(crate) fn chat_sampling(&self) -> Sampling {
        let plain = Sampling { temperature: 0.7, top_p: 0.95, min_p: 0.05, ..Sampling::greedy() };
        self.entry.map_or(plain, |entry| recommended(&entry.sampling))
    }

    /// The same for answers that begin with thinking, where the authors tell them apart.
    pub(crate) fn thinking_sampling(&self) -> Option<Sampling> {
        match &self.entry?.thinking {
            catalog::Thinking::Switch { sampling } => Some(recommended(sampling)),
            catalog::Thinking::No | catalog::Thinking::Always => None,
        }
    }

    /// The one of both that goes with what the user said of thinking; without a word, that for answers at once.
    pub(crate) fn sampling_when(&self, thinking: Option<Switch>) -> Sampling {
        let is_on = thinking == Some(Switch::On);
        self.thinking_sampling().filter(|_| is_on).unwrap_or_else(|| self.chat_sampling())
    }

    /// The model that the file declares.
    pub(crate) fn model(&self) -> Result<Model, Failure> {
        Model::from_gguf(&self.gguf).map_err(|e| self.unusable(&e))
    }

    /// An engine that runs it for one conversation.
    pub(crate) fn engine(&self, args: &DeviceArgs) -> Result<Engine, Failure> {
        self.engine_on(&Device::open(args)?, args, |config| config)
    }

    /// An engine on an open device, configured as the arguments ask for and then by `change`.
    pub(crate) fn engine_on(
        &self,
        device: &Device,
        args: &DeviceArgs,
        change: impl FnOnce(EngineConfig) -> EngineConfig,
    ) -> Result<Engine, Failure> {
        let backend = device.backend(step_tokens(args))?;
        let model = self.model()?;
        let weights = model.weights(&self.gguf).map_err(|e| self.unusable(&e))?;
        let context_tokens = args.context.unwrap_or_else(|| usual_context(self.entry, model.context_train));
        let config = plan(args, &model.graph, context_tokens).map_err(|error| engine_error(error.into()))?;
        let engine = Engine::new(backend, model, weights, change(config)).map_err(engine_error)?;
        note(&dim(&engine.limits().to_string(), stderr_colours()));
        for warning in engine.warnings() {
            note(&format!("warning: {warning}"));
        }
        Ok(engine)
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(Kind::ModelUnusable, format!("{}: {error}", self.path.display()))
    }
}

/// A recommendation of the catalog as the sampler takes it.
fn recommended(sampling: &catalog::Sampling) -> Sampling {
    let &catalog::Sampling { temperature, top_k, top_p, min_p, presence_penalty } = sampling;
    Sampling { temperature, top_k, top_p, min_p, presence_penalty, ..Sampling::greedy() }
}

/// Tokens of context if the user does not say.
pub(crate) fn usual_context(entry: Option<&catalog::Entry>, context_train: u32) -> u32 {
    entry.map_or(CONTEXT_DEFAULT, |entry| entry.context_tokens).min(context_train)
}

/// Tokens of the largest step.
pub(crate) fn step_tokens(args: &DeviceArgs) -> u32 {
    STEP_TOKENS.max(args.max_seqs.unwrap_or(1))
}

/// The configuration that the arguments ask for with that context; what they do not say follows from the model.
///
/// # Errors
/// Numbers that cannot be.
pub(crate) fn plan(args: &DeviceArgs, graph: &Graph, context_tokens: u32) -> Result<EngineConfig, ConfigError> {
    let sequences_max = args.max_seqs.unwrap_or(1);
    let config = EngineConfig {
        context_tokens,
        sequences_max,
        step_tokens: step_tokens(args),
        kv: KvSize::Contexts,
        kv_format: kv_format(args.kv_type),
        queue_max: args.queue.unwrap_or(QUEUE_DEFAULT),
        snapshot_bytes: args.snapshot_memory.unwrap_or(SNAPSHOT_BYTES_DEFAULT),
        snapshot_tokens: SNAPSHOT_TOKENS,
        decode_gap_max: DECODE_GAP_MAX,
    };
    let kv = match args.kv_memory {
        Some(bytes) => KvSize::Bytes(bytes),
        None => {
            let one = EngineConfig { sequences_max: 1, ..config };
            KvSize::Bytes(one.limits(graph)?.kv_bytes.max(KV_BYTES_DEFAULT))
        }
    };
    Ok(EngineConfig { kv, ..config })
}

/// The sizes that follow for a model from the arguments, before anything is loaded.
pub(crate) fn limits(args: &DeviceArgs, file: &ModelFile, model: &Model) -> Result<EngineLimits, Failure> {
    let context_tokens = args.context.unwrap_or_else(|| usual_context(file.entry, model.context_train));
    let config = plan(args, &model.graph, context_tokens);
    config.and_then(|config| config.limits(&model.graph)).map_err(|error| engine_error(error.into()))
}

/// The tokens of a model, for answers that have to match a grammar.
pub(crate) fn vocabulary(tokenizer: &Tokenizer) -> Vocabulary {
    let token = |id| VocabularyToken {
        bytes: tokenizer.piece(id).to_vec(),
        is_control: !matches!(tokenizer.kind(id), Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte)),
    };
    Vocabulary {
        tokens: (0..tokenizer.n_vocab()).map(token).collect(),
        end_ids: tokenizer.end_of_generation().to_vec(),
    }
}

/// One line on what was loaded.
pub(crate) fn loaded(file: &Path, engine: &Engine, started: Instant) -> String {
    let model = engine.model();
    let name =
        model.name.clone().unwrap_or_else(|| file.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let limits = engine.limits();
    let state = limits.kv_bytes + limits.recurrent_bytes;
    format!(
        "{name} ({}) on {}, context {} tokens ({}), loaded in {:.2} s",
        model.architecture,
        engine.device().name,
        limits.config.context_tokens,
        bytes(state),
        started.elapsed().as_secs_f64()
    )
}

/// An engine's error as a failure of the kind that it is.
pub(crate) fn engine_error(error: zinc_engine::Error) -> Failure {
    use zinc_engine::Error;
    let kind = match &error {
        Error::Config(_) => Kind::Usage,
        error if error.is_client_fault() => Kind::Usage,
        _ => Kind::Failed,
    };
    let remedy = match error {
        Error::PromptTooLong { .. } => Some("use a shorter prompt, or a longer context with -c"),
        Error::Config(_) => Some("choose another context (-c), --max-seqs or --kv-memory"),
        Error::Refused(_) => Some("use a shorter prompt or -n, or give more --kv-memory"),
        _ => None,
    };
    let failure = Failure::new(kind, error);
    match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

fn kv_format(kv_type: KvType) -> KvFormat {
    match kv_type {
        KvType::F16 => KvFormat::F16,
        KvType::F32 => KvFormat::F32,
        KvType::Q8 => KvFormat::Q8,
    }
}
