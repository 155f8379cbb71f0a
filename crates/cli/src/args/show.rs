//! Flags of the commands that only show something: inspect, devices, config, man.

use std::path::PathBuf;

use clap::Args;

use crate::args::chat::BrowserArgs;
use crate::args::serve::ServerArgs;
use crate::args::shared::{AnswerArgs, DeviceArgs, ModelArgs, SamplingArgs};

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
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    #[command(flatten)]
    pub(crate) browser: BrowserArgs,
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
