//! What the user types: flags and commands, as `clap` reads them.
//!
//! These types hold the words of the command line; what they mean for a model is decided in the
//! commands. A flag is declared once; commands that share it flatten the type that has it.

pub(crate) mod chat;
pub(crate) mod generate;
pub(crate) mod measure;
pub(crate) mod model;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod show;
pub(crate) mod tokenize;

use clap::{Parser, Subcommand};

use crate::args::chat::ChatArgs;
use crate::args::generate::GenerateArgs;
use crate::args::measure::{BenchArgs, LogitsArgs, PerplexityArgs, SelftestArgs};
use crate::args::model::ModelCommand;
use crate::args::serve::{ServeArgs, ServerArgs};
use crate::args::shared::DeviceArgs;
use crate::args::show::{ConfigArgs, DevicesArgs, InspectArgs, ManArgs};
use crate::args::tokenize::{DetokenizeArgs, TokenizeArgs};
use crate::examples;

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
