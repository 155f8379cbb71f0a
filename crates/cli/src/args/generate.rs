//! Flags of plain generation.

use std::path::PathBuf;

use clap::Args;

use crate::args::shared::{AnswerArgs, DeviceArgs, ModelArgs, SamplingArgs, Switch};

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
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
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
