//! What fit says a model takes, against every byte that an engine on the CPU really has.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zinc_cpu::Cpu;
use zinc_engine::config::KvSize;
use zinc_engine::fit::Room;
use zinc_engine::{Engine, EngineConfig, Request};
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;
use zinc_models::Model;

/// The system's memory, counted.
struct Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(n: usize) {
    let live = LIVE.fetch_add(n, Ordering::Relaxed) + n;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        grow(new);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, new) }
    }
}

#[global_allocator]
static MEMORY: Counted = Counted;

const STEP_TOKENS: u32 = 256;
const N_THREADS: usize = 2;
/// As much as a small model has in weights, so that what is counted is not only books.
const STATE_BYTES: u64 = 64 << 20;

/// What fit says, and what there is at most while prompts of every size are computed and answered.
fn said_and_real(name: &str, kv_format: KvFormat) -> (u64, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name);
    let file = Gguf::open(&path).unwrap();
    let model = Model::from_gguf(&file).unwrap();
    let sizes = model.weight_sizes(&file).unwrap();
    let config = EngineConfig {
        context_tokens: 2 * STEP_TOKENS,
        sequences_max: 1,
        step_tokens: STEP_TOKENS,
        kv: KvSize::Bytes(STATE_BYTES),
        kv_format,
        queue_max: 4,
        snapshot_bytes: STATE_BYTES / 8,
        // As the program has it: snapshots do not cut a step.
        snapshot_tokens: STEP_TOKENS,
        decode_gap_max: Duration::from_secs(60),
    };
    // As many sequences' worth of pages as make the state large; one runs.
    let page_bytes = EngineConfig { kv: KvSize::Tokens(16), ..config }.limits(&model.graph).unwrap().kv_bytes;
    let n_pages = u32::try_from(STATE_BYTES / page_bytes.max(1)).unwrap();
    let config = EngineConfig { kv: KvSize::Tokens(n_pages * 16), ..config };
    let footprint = zinc_cpu::footprint(&model.graph, &sizes, N_THREADS, STEP_TOKENS, 1);
    let room = Room { graph: &model.graph, footprint, budget_bytes: 0 };
    let said = room.needs(config).unwrap().total_bytes();

    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let weights = model.weights(&file).unwrap();
    let mapped: u64 = weights.iter().map(|weight| weight.bytes.len() as u64).sum();
    let n_vocab = model.n_vocab;
    let mut engine = Engine::new(Box::new(Cpu::new(N_THREADS).unwrap()), model.clone(), weights, config).unwrap();
    for n in [1, 2, 3, 5, 9, 17, 33, 65, 129, 256] {
        let prompt = (0..n).map(|i| (i * 7 + n) % n_vocab).collect();
        engine.submit(Request::greedy(prompt, 3)).unwrap();
        while !engine.is_idle() {
            engine.step().unwrap();
        }
    }
    let peak = PEAK.load(Ordering::Relaxed) - before;
    (said, mapped + peak as u64)
}

/// Within two parts of a hundred, and never under.
#[test]
fn fit_is_what_an_engine_takes() {
    let mut wrong = Vec::new();
    for name in
        ["llama-a.F32.gguf", "gemma3-a.Q8_0.gguf", "qwen3-a.F32.gguf", "gptoss-a.MXFP4.gguf", "qwen35-a.F32.gguf"]
    {
        for kv_format in KvFormat::ALL {
            let (said, real) = said_and_real(name, kv_format);
            let over = (said as f64 / real as f64 - 1.0) * 100.0;
            eprintln!("{name} {kv_format:?}: {said} bytes said, {real} real: {over:.2} % over");
            if said < real || over > 2.0 {
                wrong.push(format!("{name} {kv_format:?}: {said} bytes said, {real} real: {over:.2} % over"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
