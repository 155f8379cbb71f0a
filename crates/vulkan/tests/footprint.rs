//! What fit says a model takes of a device, against what the backend has taken when every plan is compiled.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;

use zinc_gguf::Gguf;
use zinc_graph::Backend;
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes};
use zinc_graph::footprint::plan_tokens;
use zinc_models::Model;
use zinc_vulkan::{Device, Vulkan, device, footprint};

const STEP_TOKENS: u32 = 64;
/// Keys and values that are as large as those of a small model, so that what is counted is not only scratch memory.
const KV_BYTES: u64 = 512 << 20;

#[test]
fn fit_is_what_a_device_gives() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().next()) else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    let mut wrong = Vec::new();
    let names = ["llama-a.F32.gguf", "gemma3-a.Q8_0.gguf", "gptoss-a.MXFP4.gguf", "qwen35-a.F32.gguf"];
    // Models with windows also with pages of their own for those.
    for (name, windows) in names.map(|name| (name, 0)).into_iter().chain(names[1..3].iter().map(|name| (*name, 5))) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name);
        let file = Gguf::open(&path).unwrap();
        let model = Model::from_gguf(&file).unwrap();
        let device = Device::open(&candidate.id, &[]).unwrap();
        let mut vulkan = Vulkan::new(&device).unwrap();
        let before = vulkan.allocated_bytes();
        let one = StateSizes { n_pages: 1, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 1 };
        let sizes = model.weight_sizes(&file).unwrap();
        let page_bytes = vulkan.needs(&model.graph, &sizes, one).kv_bytes;
        let n_pages = u32::try_from(KV_BYTES / page_bytes).unwrap();
        let state = StateSizes { n_pages, n_window_pages: windows * n_pages / 8, ..one };
        let needs = vulkan.needs(&model.graph, &sizes, state);
        let footprint = footprint(&model.graph, &sizes, STEP_TOKENS, state.n_slots);
        let said = footprint.weights_bytes + footprint.workspace_bytes(&state) + needs.kv_bytes + needs.recurrent_bytes;
        vulkan.load(&model.graph, model.weights(&file).unwrap(), state).unwrap();
        for tokens in plan_tokens(STEP_TOKENS) {
            let bucket = Bucket { tokens, outputs: 1 };
            vulkan.compile(&model.graph, &PlanOptions { bucket, keep_values: false }).unwrap();
        }
        let real = vulkan.allocated_bytes() - before;
        let over = (said as f64 / real as f64 - 1.0) * 100.0;
        eprintln!("{name}, {windows} eighths of windows: {said} bytes said, {real} real: {over:.2} % over");
        if said < real || over > 2.0 {
            wrong.push(format!(
                "{name}, {windows} eighths of windows: {said} bytes said, {real} real: {over:.2} % over"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
