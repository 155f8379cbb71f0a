//! What the user types: flags and commands, as `clap` reads them.
//!
//! These types hold the words of the command line; what they mean for a model is decided in the
//! commands.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{examples, size};

/// Run language models from GGUF files on this machine.
#[derive(Debug, Parser)]
#[command(name = "zinc", version, about, after_help = examples::PROGRAM, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// What to do; without a command, `--prompt` generates text.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Tell whether this machine is ready, and what to do if it is not; with the flags of what is to run on it.
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) check: bool,
    /// Flags of plain generation.
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
    /// Flags of a server, which `-p` starts. Last, since what follows a heading of the help stands below it.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk with a model, in the browser or in this terminal.
    #[command(after_help = examples::CHAT)]
    Chat(ChatArgs),
    /// Serve the APIs of OpenAI and Anthropic, and the chat page.
    #[command(after_help = examples::SERVE)]
    Serve(ServeArgs),
    /// Show what a GGUF file holds: header, metadata, tensors.
    #[command(after_help = examples::INSPECT)]
    Inspect(InspectArgs),
    /// Turn a text into token ids.
    #[command(after_help = examples::TOKENIZE)]
    Tokenize(TokenizeArgs),
    /// Turn token ids into text.
    #[command(after_help = examples::DETOKENIZE)]
    Detokenize(DetokenizeArgs),
    /// Show the largest logits at each position of a list of ids.
    #[command(after_help = examples::LOGITS)]
    Logits(LogitsArgs),
    /// Measure how well a model predicts a text.
    #[command(after_help = examples::PERPLEXITY)]
    Perplexity(PerplexityArgs),
    /// Measure prompt processing and generation.
    #[command(after_help = examples::BENCH)]
    Bench(BenchArgs),
    /// List the catalog and fetch models.
    #[command(subcommand, after_help = examples::MODEL)]
    Model(ModelCommand),
    /// Check every kernel of a device against its definition.
    #[command(after_help = examples::SELFTEST)]
    Selftest(SelftestArgs),
    /// List the devices that can run models.
    #[command(after_help = examples::DEVICES)]
    Devices(DevicesArgs),
    /// Show every setting, its value, and where that comes from.
    #[command(after_help = examples::CONFIG)]
    Config(ConfigArgs),
    /// Print what a shell needs to complete this program's commands and flags.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
}

impl Cli {
    /// The device that the command runs on, if it runs on one.
    pub(crate) fn device(&self) -> Option<&DeviceArgs> {
        match &self.command {
            None => Some(&self.generate.device),
            Some(Command::Chat(args)) => Some(&args.device),
            Some(Command::Serve(args)) => Some(&args.device),
            Some(Command::Logits(args)) => Some(&args.device),
            Some(Command::Perplexity(args)) => Some(&args.device),
            Some(Command::Bench(args)) => Some(&args.device),
            Some(Command::Selftest(args)) => Some(&args.device),
            Some(
                Command::Inspect(_)
                | Command::Tokenize(_)
                | Command::Detokenize(_)
                | Command::Model(_)
                | Command::Devices(_)
                | Command::Config(_)
                | Command::Completions { .. }
                | Command::Man(_),
            ) => None,
        }
    }
}

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

/// Plain generation.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Text to continue; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// Treat the prompt as a message and render it with the model's chat template.
    #[arg(long)]
    pub(crate) chat: bool,
    /// System message of the chat.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub(crate) system: Option<String>,
    /// Let a model that can think do so, or not (default: as its template has it).
    #[arg(long, value_name = "on|off", requires = "chat")]
    pub(crate) thinking: Option<Switch>,
    /// Tokens to generate at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256)]
    pub(crate) max_tokens: u32,
    /// Stop where this text would appear; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Go on after the model's end-of-text token.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Print one JSON object instead of streaming text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
    /// Write the model's graph (nodes, shapes, bytes, FLOPs) as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) graph_report: Option<PathBuf>,
    /// Write the model's graph for Graphviz.
    #[arg(long, value_name = "FILE")]
    pub(crate) graph_dot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

/// What the answer has to match.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ConstraintArgs {
    /// The answer is JSON that this schema describes.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_schema: Option<PathBuf>,
    /// The answer matches this regular expression.
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) regex: Option<String>,
    /// The answer follows this grammar, in llguidance's variant of Lark.
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar: Option<PathBuf>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// A server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Port to serve on (default: 8080; `zinc chat`: 9090).
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Address to serve on; 0.0.0.0 is every address of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Key that clients must show; may be given several times.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Vec<String>,
    /// File with a key a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Name by which clients may call this server, besides localhost and addresses; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Origin whose pages may call this server, as in https://example.org; `*` is any.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Form of the log's lines.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Write the bodies of requests, and with them what people say, to the log.
    #[arg(long)]
    pub(crate) log_requests: bool,
    /// Present the server to routers as this one.
    #[arg(long, value_name = "SERVER", default_value = "zinc")]
    pub(crate) compat: Compat,
    /// Models that are loaded at once.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) max_models: usize,
    /// Memory that loaded models may take together, as in 20GiB (default: as much as there is).
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) model_memory: Option<u64>,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Words.
    Text,
    /// A JSON object.
    Json,
}

/// As which server this one presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// As itself.
    Zinc,
    /// As vLLM.
    Vllm,
}

/// `zinc serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// A conversation.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChatArgs {
    /// Talk in this terminal.
    #[arg(long)]
    pub(crate) cli: bool,
    /// System message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Let a model that can think do so, or not.
    #[arg(long, value_name = "on|off")]
    pub(crate) thinking: Option<Switch>,
    /// Tokens of an answer at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_tokens: u32,
    /// Do not open the browser.
    #[arg(long)]
    pub(crate) no_browser: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `zinc inspect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InspectArgs {
    /// GGUF file; its tensor data may be missing.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// List every tensor, and arrays in full.
    #[arg(long)]
    pub(crate) all: bool,
}

/// `zinc tokenize`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenizeArgs {
    /// The text; `-` reads standard input.
    pub(crate) text: String,
    /// Read special tokens such as `<|im_end|>` in the text as tokens.
    #[arg(long)]
    pub(crate) special: bool,
    /// Leave out the tokens that the model puts around a text.
    #[arg(long)]
    pub(crate) no_bos: bool,
    /// Print JSON: ids and pieces.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `zinc detokenize`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetokenizeArgs {
    /// Token ids, with commas.
    #[arg(value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `zinc logits`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogitsArgs {
    /// Token ids, with commas.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    /// Logits shown at each position.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// `zinc perplexity`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PerplexityArgs {
    /// Text to predict.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) file: PathBuf,
    /// Stop after so many windows of context.
    #[arg(long, value_name = "N")]
    pub(crate) windows: Option<usize>,
    /// Keep the logits, to compare other runs with.
    #[arg(long, value_name = "FILE", conflicts_with = "kl_base")]
    pub(crate) save_logits: Option<PathBuf>,
    /// Compare with logits kept before: KL divergence and agreement of the likeliest token.
    #[arg(long, value_name = "FILE")]
    pub(crate) kl_base: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// `zinc bench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArgs {
    /// Tokens of the prompt.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) pp: u32,
    /// Tokens to generate.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) tg: u32,
    /// Counted runs of each, after one that is not counted.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) reps: u32,
    /// Sequences that generate side by side, one figure for each number.
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "1")]
    pub(crate) batch: Vec<u32>,
    /// Tokens that are in the cache before a run begins, one figure for each number.
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', default_value = "0")]
    pub(crate) depth: Vec<u32>,
    /// Also print where the device's time goes, kernel by kernel.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Change an entry of the device's tuning table for this run.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) tuning: Vec<String>,
    /// Compare with the figures of an earlier run, kept with --json.
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// `zinc selftest`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) filter: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// `zinc devices`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `zinc config`: every flag that the environment or the file may set.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tokens to generate at most (default: 256; `zinc chat`: 1024).
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) max_tokens: Option<u32>,
    /// Do not open the browser.
    #[arg(long)]
    pub(crate) no_browser: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `zinc man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

/// `zinc model …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models that fit this machine, and those that are here.
    List {
        /// List the whole catalog.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Device that they are to fit, as `--device` takes it elsewhere.
        #[arg(long, value_name = "DEVICE", default_value = "auto")]
        device: String,
    },
    /// Fetch a model of the catalog, or any model of the hub: owner/name:Q4_K_M.
    Pull {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Choose the model that runs if none is named.
    Use {
        /// The id of a model that is here, or can be fetched.
        id: String,
    },
    /// Print the model that runs if none is named.
    Active {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a model, or what is left of its download.
    Rm {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
        /// Also if a process runs it.
        #[arg(long)]
        force: bool,
    },
    /// Print where a fetched model lies.
    Path {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Read a model's files and compare their SHA-256 with what it was when they came.
    Verify {
        /// Its id, or owner/name:QUANTISATION.
        id: String,
    },
    /// Say whether a model fits, with the bytes of each part, and how long its context can be.
    Fit {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        model: ModelArgs,
        #[command(flatten)]
        device: DeviceArgs,
    },
}
