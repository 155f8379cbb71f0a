//! Every architecture on the CPU backend: a request says the same alone and among 31 others, with
//! its prompt in chunks, its pages taken away and its prefix taken over.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use zinc_engine::EngineConfig;
use zinc_engine::config::KvSize;
use zinc_engine::request::Request;
use zinc_engine::sampler::Sampling;
use zinc_gguf::Gguf;
use zinc_graph::backend::KvFormat;
use zinc_models::Model;

use crate::tiny::{Answer, drain, engine_of_file, prompt_below, settled};

const N_OTHERS: u64 = 31;
const N_VOCAB: u32 = 512;

/// Room for everyone, prompts whole.
const ALONE: EngineConfig = EngineConfig {
    context_tokens: 256,
    sequences_max: 1,
    step_tokens: 256,
    kv: KvSize::Contexts,
    kv_format: KvFormat::F16,
    queue_max: 64,
    snapshot_bytes: 0,
    snapshot_tokens: 64,
    decode_gap_max: Duration::from_secs(60),
};

/// Prompts in chunks; the pages are for a third of those who run.
const CROWDED: EngineConfig = EngineConfig { sequences_max: 12, step_tokens: 47, snapshot_bytes: 8 << 20, ..ALONE };

/// Prompts that begin alike in threes, greedy and drawn.
fn wanted(which: u64) -> Request {
    let n_shared = 20 + 23 * u32::try_from(which % 4).unwrap();
    let shared = prompt_below(N_VOCAB, which / 3, n_shared);
    let own = prompt_below(N_VOCAB, 1000 + which, 1 + u32::try_from(which * 7 % 30).unwrap());
    let sampling = match which % 2 {
        0 => Sampling::greedy(),
        _ => Sampling { temperature: 1.1, top_p: 0.97, ..Sampling::greedy() },
    };
    Request { sampling, seed: which, ..Request::greedy([shared, own].concat(), 32) }
}

fn check(name: &str) {
    check_in(name, KvFormat::F16);
}

fn check_in(name: &str, kv_format: KvFormat) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.gguf"));
    let file = Gguf::open(&path).unwrap();
    let mut alone = engine_of_file(&file, EngineConfig { kv_format, ..ALONE });
    // Few pages for windows let fewer run, which need fewer of the others.
    let has_windows = alone.model().graph.window().is_some();
    let kv = KvSize::Tokens(if has_windows { 384 } else { 640 });
    let mut crowd = engine_of_file(&file, EngineConfig { kv, kv_format, ..CROWDED });
    let before = settled(&crowd);
    assert_eq!(
        crowd.limits().state.n_window_pages > 0,
        has_windows,
        "{name}: layers with windows have their own pages"
    );
    assert_eq!(alone.limits().state.n_window_pages, 0, "{name}: where there is nothing to save they share");
    let ids: Vec<_> = (0..=N_OTHERS).map(|which| crowd.submit(wanted(which)).unwrap()).collect();
    let answers = drain(&mut crowd);
    let stats = crowd.stats();
    assert!(stats.n_preemptions > 0, "{name}: pages run out: {stats:?}");
    assert!(stats.prefix_hit_tokens > 0, "{name}: prefixes are taken over: {stats:?}");
    assert_eq!(settled(&crowd), before, "{name}");
    let mut said = BTreeSet::new();
    for (which, id) in (0..).zip(ids) {
        let Answer { tokens, prefills, .. } = answers.of(id);
        // A third of them, of every kind, is enough to be computed twice.
        if which % 3 != which / 12 {
            continue;
        }
        let lone = alone.submit(wanted(which)).unwrap();
        let expected = drain(&mut alone).0.remove(&lone).unwrap();
        let ids: Vec<u32> = tokens.iter().map(|t| t.id).collect();
        assert_eq!(ids, expected.ids(), "{name}, request {which}, prompt in {} parts", prefills.len());
        said.extend(ids);
    }
    assert!(said.len() > 20, "{name} says something: {said:?}");
    let n_parts = |n: usize| answers.0.values().filter(|a| a.prefills.len() >= n).count();
    assert!(n_parts(2) > 5, "{name}: prompts are computed in chunks");
}

/// The second turn of a conversation: what of the first is computed again.
fn check_follow_up(name: &str, recomputed_max: u32) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(format!("{name}.gguf"));
    let file = Gguf::open(&path).unwrap();
    let config = EngineConfig {
        context_tokens: 2300,
        step_tokens: 512,
        snapshot_bytes: 64 << 20,
        snapshot_tokens: 256,
        ..ALONE
    };
    let mut engine = engine_of_file(&file, config);
    let first = Request::greedy(prompt_below(N_VOCAB, 1, 1700), 300);
    let id = engine.submit(first.clone()).unwrap();
    let answer = drain(&mut engine).0.remove(&id).unwrap();
    let said = [first.prompt, answer.ids()].concat();
    assert_eq!(said.len(), 2000);
    let second = Request::greedy([said, prompt_below(N_VOCAB, 2, 20)].concat(), 5);
    let id = engine.submit(second.clone()).unwrap();
    let answer = drain(&mut engine).0.remove(&id).unwrap();
    let cached = answer.done().usage.cached_prompt_tokens;
    assert!(2000 - cached < recomputed_max, "{name}: {} of 2000 tokens are computed again", 2000 - cached);
    let mut fresh = engine_of_file(&file, config);
    let id = fresh.submit(second).unwrap();
    assert_eq!(answer.ids(), drain(&mut fresh).of(id).ids(), "{name}");
}

macro_rules! architectures {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        /// Nobody adds an architecture without a line above.
        #[test]
        fn none_is_left_out() {
            let tested: BTreeSet<&str> = [$($name),*]
                .into_iter()
                .map(|name| {
                    let path = format!("{}/../../fixtures/tiny/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
                    Model::from_gguf(&Gguf::open(Path::new(&path)).unwrap()).unwrap().architecture
                })
                .collect();
            let untested: Vec<&str> = zinc_models::ARCHITECTURES
                .iter()
                .map(|a| a.name)
                .filter(|name| !tested.contains(name))
                .collect();
            // The one without a tiny model; its layers are those of another.
            assert!(untested.len() <= 1, "{untested:?}");
        }
    };
}

architectures! {
    adjacent_pair_rope: "llama-a.F32",
    k_quants: "qwen3-k.Q4_K",
    query_and_key_norms: "qwen3-a.Q8_0",
    sliding_windows: "gemma3-a.Q8_0",
    shared_caches: "gemma4-a.Q8_0",
    keys_that_are_values: "gemma4moe-a.Q8_0",
    experts: "qwen3moe-a.Q8_0",
    sinks: "gptoss-a.MXFP4",
    recurrent_state: "qwen35-a.Q8_0",
    recurrent_state_and_experts: "qwen35moe-a.Q8_0",
}

/// Windows, and a cache of signed bytes: a scale depends on its own token alone.
#[test]
fn bytes_in_the_cache() {
    check_in("gemma3-a.Q8_0", KvFormat::Q8);
}

#[test]
fn the_second_turn_of_a_dense_model_is_new_but_for_a_page() {
    check_follow_up("llama-a.F32", 32);
}

#[test]
fn the_second_turn_of_models_with_windows_is_new_but_for_a_page() {
    check_follow_up("gemma3-a.Q8_0", 32);
    check_follow_up("gptoss-a.MXFP4", 32);
}

#[test]
fn the_second_turn_of_a_hybrid_is_new_but_for_a_snapshot_spacing() {
    check_follow_up("qwen35-m.F32", 256);
}
