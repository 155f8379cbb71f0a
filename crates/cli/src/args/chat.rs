//! Flags of `zinc chat`.

use clap::Args;

use crate::args::serve::ServerArgs;
use crate::args::shared::{AnswerArgs, DeviceArgs, ModelArgs, SamplingArgs, Switch};

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

/// Where the chat page opens.
#[derive(Clone, Debug, Args)]
pub(crate) struct BrowserArgs {
    /// Do not open the browser.
    #[arg(long)]
    pub(crate) no_browser: bool,
}
