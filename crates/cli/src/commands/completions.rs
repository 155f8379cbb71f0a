//! `zinc completions` and `zinc man`: what shells and `man` read, made from the same definitions as the help.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::show::ManArgs;
use crate::failure::{Failure, Outcome};
use crate::output::print;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zinc", &mut text);
    print(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    match &args.folder {
        Some(folder) => pages(folder),
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text).map_err(Failure::failed)?;
            print(&String::from_utf8_lossy(&text))
        }
    }
}

/// A page for each command.
fn pages(folder: &Path) -> Outcome {
    let failure = |error: std::io::Error| Failure::failed(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failure)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), folder).map_err(failure)
}
