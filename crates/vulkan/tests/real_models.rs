//! The real models of `.cache/models` through Vulkan: the first greedy tokens after the short prompt of each golden.
//!
//! `fixtures/goldens` has llama.cpp's answers on dequantised weights with an f32 cache, which these kernels compute as
//! well. Mesa's CPU driver takes a second or more for a token, so prompts and answers are short here; the CPU backend
//! runs all of them in `crates/cli/tests/goldens.rs`. `ZINC_MODEL=smol` runs only the models whose name contains that.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;
use zinc_testkit::environment::model_file;
use zinc_testkit::session::{Session, SessionConfig};
use zinc_vulkan::{Device, Vulkan, device};

const PROMPT: &str = "short_en";
const N_GREEDY: usize = 8;
/// Every winner of these answers is ahead by at least this, far more than rounding can move.
const MARGIN_MIN: f64 = 0.05;

const MODELS: [(&str, &str); 3] = [
    ("smollm2-135m-instruct-q4_1", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    ("gemma3-270m-q4_k_m", "gemma-3-270m-q4_k_m.gguf"),
    ("qwen2.5-coder-0.5b-q4_k_m", "qwen2.5-coder-0.5b-instruct.q4.gguf"),
];

#[test]
fn greedy_tokens_of_real_models_agree() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().next()) else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    let device = Device::open(&candidate.id, &[]).unwrap();
    eprintln!("{} ({})", candidate.name, candidate.driver);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let filter = std::env::var("ZINC_MODEL").unwrap_or_default();
    for (golden, model) in MODELS.into_iter().filter(|(golden, _)| golden.contains(&filter)) {
        let Some(path) = model_file(&root, model) else { continue };
        let start = Instant::now();
        let text = std::fs::read_to_string(root.join(format!("fixtures/goldens/{golden}.json"))).unwrap();
        let (prompt, expected) = prompt_and_answer(&serde_json::from_str(&text).unwrap());
        let config = SessionConfig { context_max: 64, kv_format: KvFormat::F32, keep_values: false };
        let file = Gguf::open(&path).unwrap();
        let mut session = Session::new(Box::new(Vulkan::new(&device).unwrap()), &file, config).unwrap();
        let mut got = session.feed(&prompt, &[u32::try_from(prompt.len()).unwrap() - 1]).unwrap().greedy;
        while got.len() < expected.len() {
            let last = *got.last().unwrap();
            got.extend(session.feed(&[last], &[0]).unwrap().greedy);
        }
        assert_eq!(got, expected, "{golden}");
        eprintln!("{golden}: {N_GREEDY} tokens in {:.1} s", start.elapsed().as_secs_f32());
    }
}

fn prompt_and_answer(golden: &Value) -> (Vec<u32>, Vec<u32>) {
    let prompt = golden["prompts"].as_array().unwrap().iter().find(|p| p["name"] == PROMPT).unwrap();
    let margins = &prompt["f32"]["greedy_margin"].as_array().unwrap()[..N_GREEDY];
    assert!(margins.iter().all(|margin| margin.as_f64().unwrap() > MARGIN_MIN), "the golden decides too little");
    let mut answer = ids(&prompt["f32"]["greedy_ids"]);
    answer.truncate(N_GREEDY);
    (ids(&prompt["ids"]), answer)
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}
