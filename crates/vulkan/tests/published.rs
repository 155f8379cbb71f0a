//! Plans of published models at their real sizes, recorded but not run: every pipeline that they need is made.
//!
//! Each model keeps one layer of each kind; its weights are zeros in the storage types of the usual files. On a
//! pretended AMD card `cargo xtask vulkan` looks at the code that the driver made of these pipelines. `ZINC_PART=1/4` takes
//! every fourth model. `ZINC_FRAGMENT=SIDExTOKENSxCOLUMNSxROW_STEPxSHARE_STEP` says where lanes have a matrix's elements, which a pretended
//! card cannot be asked: then plans for few tokens alone are made, with weights that go straight to matrix cores.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use zinc_gguf::{Bytes, DType};
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes, WeightData};
use zinc_graph::blueprint::Layer;
use zinc_graph::graph::GraphWeight;
use zinc_graph::section::WeightClass;
use zinc_graph::{Backend, Graph};
use zinc_models::declaration::{Declaration, Fault};
use zinc_models::published::{gemma3, gemma4, gpt_oss, llama, qwen3, qwen3moe, qwen35};
use zinc_testkit::environment;
use zinc_vulkan::fragments::Fragment;
use zinc_vulkan::{Device, Vulkan, device};

/// Steps that an engine takes: (tokens, rows of logits).
const BUCKETS: [(u32, u32); 11] =
    [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (64, 1), (128, 1), (256, 1), (512, 1), (512, 8)];

/// Enough for a few sequences of some length; sizes of the cache are no constants of a kernel.
const STATE: StateSizes = StateSizes { n_pages: 64, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 8 };

/// Storage types of a file.
#[derive(Clone, Copy, Debug)]
struct Mix {
    /// Most matrices.
    most: DType,
    /// What quantisers keep better: values, the way out of the feed-forward part, the head.
    better: DType,
    /// Experts, if they differ.
    experts: Option<DType>,
}

const Q4_K_M: Mix = Mix { most: DType::Q4_K, better: DType::Q6_K, experts: None };

const fn only(dtype: DType) -> Mix {
    Mix { most: dtype, better: dtype, experts: None }
}

type Declared = Result<Declaration, Fault>;

/// The models that the product is tuned for, and one of every other architecture.
fn models() -> Vec<(&'static str, Box<Declared>, Mix)> {
    let mxfp4 = Mix { experts: Some(DType::MXFP4), ..only(DType::Q8_0) };
    let q5_k_m = Mix { most: DType::Q5_K, better: DType::Q6_K, experts: None };
    vec![
        ("Qwen3-8B Q4_K_M", Box::new(qwen3::QWEN3_8B.declare()), Q4_K_M),
        ("Qwen3.5-2B Q4_K_M", Box::new(qwen35::QWEN3_5_2B.declare()), Q4_K_M),
        ("Qwen3.5-2B Q5_K_M", Box::new(qwen35::QWEN3_5_2B.declare()), q5_k_m),
        ("Qwen3.5-2B Q8_0", Box::new(qwen35::QWEN3_5_2B.declare()), only(DType::Q8_0)),
        ("Qwen3.5-2B F16", Box::new(qwen35::QWEN3_5_2B.declare()), only(DType::F16)),
        ("Qwen3.5-35B-A3B Q4_K_M", Box::new(qwen35::QWEN3_5_35B_A3B.declare()), Q4_K_M),
        ("Qwen3-30B-A3B Q4_K_M", Box::new(qwen3moe::QWEN3_30B_A3B.declare()), Q4_K_M),
        ("Llama-3.1-8B Q4_K_M", Box::new(llama::LLAMA_3_1_8B.declare()), Q4_K_M),
        ("gpt-oss-20b MXFP4", Box::new(gpt_oss::GPT_OSS_20B.declare()), mxfp4),
        ("Gemma-3-4B Q4_0", Box::new(gemma3::GEMMA3_4B.declare()), only(DType::Q4_0)),
        ("Gemma-4-26B-A4B Q4_K_M", Box::new(gemma4::GEMMA_4_26B_A4B.declare()), Q4_K_M),
    ]
}

#[test]
fn published_models_are_recorded() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().next()) else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    let mut device = Device::open(&candidate.id, &[]).unwrap();
    let fragment = fragment();
    if fragment.is_some() {
        device.tuning_mut().fragment = fragment;
        device.tune("direct_most=16").unwrap();
    }
    let is_wanted = |tokens: u32| fragment.is_none() || (2..=16).contains(&tokens);
    eprintln!("{} ({})", candidate.name, candidate.driver);
    let (part, n_parts) = environment::part();
    for (name, declared, mix) in models().into_iter().skip(part - 1).step_by(n_parts) {
        let graph = one_layer_of_each_kind(&declared.unwrap());
        let weights = graph.weights.iter().map(|weight| zeros(weight, mix)).collect();
        let mut vulkan = Vulkan::new(&device).unwrap();
        vulkan.load(&graph, weights, STATE).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (tokens, outputs) in BUCKETS.into_iter().filter(|(tokens, _)| is_wanted(*tokens)) {
            let options = PlanOptions { bucket: Bucket { tokens, outputs }, keep_values: false };
            vulkan.compile(&graph, &options).unwrap_or_else(|e| panic!("{name}, {tokens} tokens: {e}"));
        }
        eprintln!("{name}");
    }
}

fn fragment() -> Option<Fragment> {
    let text = std::env::var("ZINC_FRAGMENT").ok()?;
    let numbers: Vec<u32> = text.split('x').map(|n| n.parse().unwrap()).collect();
    let [side, tokens, columns, row_step, share_step] = numbers[..] else { panic!("ZINC_FRAGMENT={text}") };
    Some(Fragment { side, tokens, columns, row_step, share_step })
}

/// The model with the first layer of each kind alone.
fn one_layer_of_each_kind(model: &Declaration) -> Graph {
    let mut blueprint = model.blueprint();
    let mut kept: Vec<Layer> = Vec::new();
    for (index, layer) in blueprint.layers.iter().enumerate() {
        if kept.iter().all(|known| known.block != layer.block) {
            assert_eq!(layer.kv_of, index, "the first layer of a kind has a cache of its own");
            kept.push(Layer { block: layer.block, kv_of: kept.len() });
        }
    }
    blueprint.layers = kept;
    let graph = blueprint.unroll().unwrap();
    graph.validate().unwrap();
    graph
}

/// A weight of zeros, of the type that a file would have.
fn zeros(weight: &GraphWeight, mix: Mix) -> WeightData {
    let n_in = weight.shape[0] as usize;
    let wanted = match weight.class {
        WeightClass::Plain => DType::F32,
        WeightClass::Matrix => stored_as(&weight.name, mix),
    };
    // Rows that are no whole number of blocks are stored otherwise.
    let mut usable = [wanted, DType::Q8_0, DType::F32].into_iter().filter_map(|t| Some((t, t.row_bytes(n_in)?)));
    let (dtype, row_bytes) = usable.next().unwrap();
    let rows = weight.shape[1] as usize * weight.shape[2] as usize;
    WeightData { dtype, bytes: Bytes::from(vec![0; row_bytes * rows]) }
}

fn stored_as(name: &str, mix: Mix) -> DType {
    // Routers and the gates of a delta net are small, and files keep them whole.
    let whole = ["ffn_gate_inp", "ssm_alpha", "ssm_beta"];
    let better = ["attn_v.", "ffn_down", "output.weight"];
    let is_any = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match mix.experts {
        _ if is_any(&whole) => DType::F32,
        // A pretended card has 3 GiB in all.
        _ if name.contains("token_embd") && mix.most == DType::F16 => DType::Q8_0,
        Some(dtype) if name.contains("_exps") => dtype,
        _ if is_any(&better) => mix.better,
        _ => mix.most,
    }
}
