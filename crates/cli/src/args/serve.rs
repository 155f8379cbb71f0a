//! Flags of a server.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::shared::{DeviceArgs, ModelArgs};
use crate::size;

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
