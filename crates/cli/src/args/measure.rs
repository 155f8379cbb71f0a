//! Flags of the commands that measure: logits, perplexity, bench, selftest.

use std::path::PathBuf;

use clap::Args;

use crate::args::shared::{DeviceArgs, ModelArgs};

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
