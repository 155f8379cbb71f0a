//! Flags that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::size;

/// Which model.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model of the catalog (`zinc model list`), or of the hub as owner/name:Q4_K_M; fetched if it is not here yet
    /// (default: `zinc model use`).
    #[arg(long, value_name = "ID", conflicts_with = "model")]
    pub(crate) model_id: Option<String>,
    /// GGUF file; the first one of a split model.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

/// Where and with how much memory.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Device to run on: `auto` (the best GPU, or the CPU where there is none), `cpu`, `vulkan` (the best GPU), `vulkan:0`,
    /// `vulkan:PCI-ADDRESS` or `vulkan:UUID`; `list` shows them.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Longest time in milliseconds that a part of a step may hold a GPU's queue, by estimate: a desktop on the same card stays
    /// fluent with 20, and the driver's watchdog is far with the default.
    #[arg(long, value_name = "MS", default_value_t = zinc_vulkan::split::LIMIT_MS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) part_ms: u32,
    /// Note on a GPU how far each step has come: should the device be lost, the error then names the op. Costs up to a
    /// tenth of the speed.
    #[arg(long)]
    pub(crate) trace_steps: bool,
    /// Threads of the CPU device (default: the cores of this machine).
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Tokens of context: prompt and answer together (default: what the catalog has, else 4096, or less if the model has less).
    #[arg(short, long, visible_alias = "ctx", value_name = "N")]
    pub(crate) context: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, visible_alias = "kv-quant", value_name = "TYPE", default_value = "f16")]
    pub(crate) kv_type: KvType,
    /// Memory for the key/value cache, as in 2GiB (default: a whole context for each sequence, as far as 2 GiB go).
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) kv_memory: Option<u64>,
    /// Memory for snapshots of recurrent state, for models that have it (default: 512MiB).
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) snapshot_memory: Option<u64>,
    /// Answers that are generated at once (default: 1; a server: 16).
    #[arg(long, value_name = "N")]
    pub(crate) max_seqs: Option<u32>,
    /// Requests that wait at most (default: 256).
    #[arg(long, value_name = "N")]
    pub(crate) queue: Option<u32>,
}

/// Format of the key/value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvType {
    /// Two bytes an element.
    F16,
    /// Four bytes an element.
    F32,
    /// A byte an element and a scale for every 32: about half of f16.
    #[value(alias = "q8_0")]
    Q8,
}

/// How tokens are chosen.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// 0 takes the likeliest token each time (default: 0 for a plain prompt; in a chat what the catalog recommends, or 0.7).
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub(crate) temperature: Option<f32>,
    /// Keep the K likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<u32>,
    /// Keep the likeliest tokens that together have probability P.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) top_p: Option<f32>,
    /// Keep tokens at least P times as likely as the likeliest.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) min_p: Option<f32>,
    /// Divide the logits of recent tokens by this; 1 does nothing.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) repetition_penalty: Option<f32>,
    /// Lower the logits of tokens that occurred.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) presence_penalty: Option<f32>,
    /// Lower the logits of tokens by how often they occurred.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) frequency_penalty: Option<f32>,
    /// Add X to the logit of a token; may be given several times.
    #[arg(long, value_name = "ID=X", allow_hyphen_values = true)]
    pub(crate) logit_bias: Vec<String>,
    /// The same seed and flags give the same answer (default: random).
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// How long an answer may be.
#[derive(Clone, Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Tokens to generate at most (default: 256; `zinc chat`: 1024).
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) max_tokens: Option<u32>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}
