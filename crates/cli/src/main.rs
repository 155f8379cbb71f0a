//! The binary `zinc`: reads the command line, runs one command, turns a failure into one sentence
//! and an exit code.
//!
//! The only crate that names a backend, reads the environment, or prints.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod commands;
mod conversation;
mod device;
mod failure;
mod fit;
mod interrupt;
mod loader;
mod logit_file;
mod output;
mod progress;
mod resolve;
mod session;
mod size;
mod speak;

use args::{Cli, Command};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn run(cli: &Cli) -> Outcome {
    if cli.device().is_some_and(|args| args.device == device::LIST) {
        return commands::devices::run(false);
    }
    match &cli.command {
        None if cli.server.port.is_some() => commands::serve::run_plain(&cli.server, &cli.generate),
        None => commands::generate::run(&cli.generate),
        Some(Command::Chat(args)) => commands::chat::run(args),
        Some(Command::Serve(args)) => commands::serve::run(args),
        Some(Command::Inspect(args)) => commands::inspect::run(args),
        Some(Command::Tokenize(args)) => commands::tokenize::encode(args),
        Some(Command::Detokenize(args)) => commands::tokenize::decode(args),
        Some(Command::Logits(args)) => commands::logits::run(args),
        Some(Command::Perplexity(args)) => commands::perplexity::run(args),
        Some(Command::Bench(args)) => commands::bench::run(args),
        Some(Command::Model(command)) => commands::model::run(command),
        Some(Command::Selftest(args)) => commands::selftest::run(args),
        Some(Command::Devices(args)) => commands::devices::run(args.json),
    }
}

fn report(failure: &Failure) {
    let colours = output::stderr_colours();
    let (bold, plain) = if colours { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    output::note(&format!("{bold}error:{plain} {}", failure.message));
    if let Some(remedy) = &failure.remedy {
        output::note(&output::dim(remedy, colours));
    }
}
