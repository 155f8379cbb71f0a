//! Developer commands: `cargo xtask <command>`.
//!
//! `test` sets up what the tests need and runs every check of the project; the others are its
//! parts. Nothing here is part of the product.

use std::path::PathBuf;
use std::process::ExitCode;

mod fetch;
mod kernels;
mod run;
mod serving;
mod test;
mod vocab;
mod vulkan;

const USAGE: &str = "\
cargo xtask <command>

  test     fetch the test models, then run every check: format, lints, tidy, unit and model tests, a short `load`,
           `browser`, `clients`, then `vulkan`
           (--no-vulkan leaves that part out; --complete fails where a missing package would leave a suite out)
  fetch    only fetch the test models into .cache/models (843 MB, checked by SHA-256)
  browser  the chat page in Chromium, against a scripted server and a real one (needs Node, npm, chromium)
  clients  the official OpenAI and Anthropic clients, and schemathesis, against a server (needs Python, Node, npm)
  load     64 streams for five minutes from readers that come and go (--short, --seconds, --streams, --seed,
           --program)
  cost     one stream over HTTP beside `zinc bench` (--rounds, --program, --model)
  scale-out  LiteLLM in front of two servers, one of which dies (needs Python)
  kernels  compile the GLSL kernels to SPIR-V with the pinned compiler
  vulkan   only the Vulkan backend, on Mesa's drivers for machines without a GPU; its parts are lavapipe,
           models, rdna, smoke and check, all by default; --bless writes crates/vulkan/baselines/rdna.txt anew
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
        Some(name @ ("browser" | "clients" | "load" | "cost" | "scale-out")) => serving::command(&root, name, &rest),
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
