//! The binary `zinc`: reads the command line, runs one command, turns a failure into one sentence
//! and an exit code.
//!
//! The only crate that names a backend, reads the environment, or prints.

use std::process::ExitCode;

mod args;
mod cards;
mod commands;
mod config;
mod conversation;
mod device;
mod examples;
mod failure;
mod fit;
mod interrupt;
mod loader;
mod logit_file;
mod output;
mod profile;
mod progress;
mod resolve;
mod session;
mod size;
mod speak;

use args::Command;
use config::CommandLine;
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    match config::command_line().and_then(|line| run(&line)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.kind as u8)
        }
    }
}

fn run(line: &CommandLine) -> Outcome {
    let cli = &line.cli;
    if cli.device().is_some_and(|args| args.device == device::LIST) {
        return commands::devices::run(false);
    }
    match &cli.command {
        None if cli.check => commands::check::run(&cli.generate, &cli.server),
        None if line.is_port_typed => commands::serve::run_plain(&cli.server, &cli.generate),
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
        Some(Command::Config(args)) => commands::config::run(&line.settings, &line.matches, args.json),
        Some(Command::Completions { shell }) => commands::completions::completions(*shell),
        Some(Command::Man(args)) => commands::completions::man(args),
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
