//! Synthetic models against llama.cpp in f32: every architecture that it runs as its files are quantised in practice.
//!
//! The files are made by `cargo xtask fetch`; without them the test says so and passes, unless `ZINC_TEST_REQUIRE_MODELS`
//! is set, as `cargo xtask test` does.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise and shows what it measured"
)]

use std::path::Path;

use zinc_cpu::Cpu;
use zinc_graph::Backend;
use zinc_graph::reference::Reference;
use zinc_testkit::synthetic::load;

/// A backend that computes in f32 throughout.
struct Subject {
    make: fn() -> Box<dyn Backend>,
    /// Files up to this size are run on the whole prompt, larger ones on its first two tokens.
    whole_bytes_max: u64,
}

const SUBJECTS: &[Subject] = &[
    Subject { make: || Box::new(Reference::new()), whole_bytes_max: 20 << 20 },
    Subject { make: || Box::new(Cpu::new(2).unwrap()), whole_bytes_max: u64::MAX },
];

/// llama.cpp sums in f32 and its answers have five decimals; logits have a root mean square of about 4.
const TOLERANCE: f32 = 2e-4;

#[test]
fn each_agrees() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cases = load(&root.join("fixtures/goldens/synth-tiny.json")).unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let Some(path) = case.file_in(&root.join(".cache/synth-tiny")).unwrap() else {
            assert!(std::env::var_os("ZINC_TEST_REQUIRE_MODELS").is_none(), "{} is missing", case.name);
            eprintln!("SKIP: {}.gguf is not in .cache/synth-tiny; run `cargo xtask fetch`", case.name);
            continue;
        };
        for Subject { make, whole_bytes_max } in SUBJECTS {
            let whole = path.metadata().unwrap().len() <= *whole_bytes_max;
            let n_tokens = if whole { case.ids.len() } else { 2 };
            let outcome = case.check(&path, make(), n_tokens, TOLERANCE).unwrap_or_else(|e| panic!("{e}"));
            println!("{}: {outcome:?}", case.name);
            assert_eq!((outcome.n_rows, outcome.n_greedy), if whole { (6, 24) } else { (2, 0) }, "{}", case.name);
        }
    }
}
