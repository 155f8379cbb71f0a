//! Developer commands: `cargo xtask <command>`.
//!
//! `test` sets up what the tests need and runs every check of the project; the others are its
//! parts. Nothing here is part of the product.

use std::path::PathBuf;
use std::process::ExitCode;

mod clients;
mod fetch;
mod kernels;
mod run;
mod test;
mod vocab;
mod vulkan;

const USAGE: &str = "\
cargo xtask <command>

  test     fetch the test models, then run every check: format, lints, tidy, unit and model tests, then `vulkan`
           (--no-vulkan leaves that part out)
  fetch    only fetch the test models into .cache/models (843 MB, checked by SHA-256)
  clients  run the official OpenAI and Anthropic clients against a server (needs Python, Node and the fetched models)
  kernels  compile the GLSL kernels to SPIR-V with the pinned compiler
  vulkan   only the Vulkan backend, on Mesa's drivers for machines without a GPU; its parts are lavapipe,
           rdna and smoke, all by default, and models (every tiny model, an hour); --bless writes crates/vulkan/baselines/rdna.txt anew
  tidy     only check the rules of the tree (sizes, imports, names, links)
";

fn main() -> ExitCode {
    let root = repository_root();
    let mut words = std::env::args().skip(1);
    let (command, rest) = (words.next(), words.collect::<Vec<String>>());
    let result = match command.as_deref() {
        Some("test") => test::all(&root, &rest),
        Some("vulkan") => vulkan::Request::parse(&rest).and_then(|request| vulkan::run(&root, &request)),
        Some("fetch") => fetch::all(&root),
        Some("clients") => clients::all(&root),
        Some("kernels") => kernels::build(&root),
        Some("tidy") => xtask::tidy::report(&root),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn repository_root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).expect("xtask lies in the root of the repository")
}
