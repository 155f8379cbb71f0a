//! What holds for the published hybrids, mixtures of experts and Gemma 4 once they are unrolled. That their numbers are
//! the published ones is checked when the crate is compiled.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use zinc_gguf::DType;
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions};
use zinc_graph::fuse::{Fusion, fuse};
use zinc_graph::ops::Op;
use zinc_graph::report::{Report, ReportFor};
use zinc_graph::section::{ResourceKind, WeightClass};
use zinc_graph::{Graph, Plan};
use zinc_models::declaration::{Declaration, Fault};
use zinc_models::published::{gemma4, gpt_oss, qwen3moe, qwen35};

fn unrolled(declared: Result<Declaration, Fault>) -> Graph {
    let graph = declared.unwrap().blueprint().unroll().unwrap();
    graph.validate().unwrap();
    let fused = fuse(&graph, &Fusion::ALL);
    fused.validate().unwrap();
    assert!(fused.nodes.len() < graph.nodes.len());
    graph
}

/// f32 of recurrent state that one sequence has, and the layers that have any.
fn state(graph: &Graph) -> (u32, usize) {
    let lens = graph.resources.iter().filter_map(|r| match r.kind {
        ResourceKind::State { len } => Some((r.layer, len)),
        ResourceKind::Kv { .. } => None,
    });
    let (mut layers, lens): (Vec<usize>, Vec<u32>) = lens.unzip();
    layers.dedup();
    (lens.iter().sum(), layers.len())
}

/// Keys and values that a token adds, and the layers that hold them.
fn cache(graph: &Graph) -> (u32, usize) {
    let widths: Vec<u32> = graph
        .resources
        .iter()
        .filter_map(|r| match r.kind {
            ResourceKind::Kv { n_kv_heads, head_dim } => Some(2 * n_kv_heads * head_dim),
            ResourceKind::State { .. } => None,
        })
        .collect();
    (widths.iter().sum(), widths.len())
}

#[test]
fn state_and_cache_of_the_hybrids_are_small() {
    let small = unrolled(qwen35::QWEN3_5_2B.declare());
    assert_eq!((state(&small), cache(&small)), ((18 * (262_144 + 18_432), 18), (6 * 1024, 6)));
    let large = unrolled(qwen35::QWEN3_5_35B_A3B.declare());
    assert_eq!((state(&large), cache(&large)), ((30 * (524_288 + 24_576), 30), (10 * 1024, 10)));
    for model in [qwen35::QWEN3_5_0_8B, qwen35::QWEN3_5_4B, qwen35::QWEN3_5_9B, qwen35::QWEN3_5_27B] {
        let graph = unrolled(model.declare());
        let n_layers = model.hybrid.hp.n_layers as usize;
        assert_eq!((state(&graph).1, cache(&graph).1), (n_layers / 4 * 3, n_layers / 4));
    }
}

#[test]
fn the_report_of_the_35b_has_over_700_nodes_and_as_many_in_a_row() {
    let graph = unrolled(qwen35::QWEN3_5_35B_A3B.declare());
    let dtypes: Vec<DType> = graph
        .weights
        .iter()
        .map(|w| if w.class == WeightClass::Matrix && w.shape[0] % 256 == 0 { DType::Q4_K } else { DType::F32 })
        .collect();
    let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context: 4096, kv_format: KvFormat::F16 };
    let report = Report::new(&graph, &of);
    // 30 recurrent layers of 33 nodes, 10 attending ones of 31, a prologue of 1 and an epilogue of 4.
    assert_eq!(report.n_nodes, 30 * 33 + 10 * 31 + 5);
    assert!(report.critical_path > 700, "{}", report.critical_path);
    // A token takes 8 of 256 experts: it reads a small part of the weights.
    assert!(report.bytes * 5 < report.weight_bytes, "{} of {}", report.bytes, report.weight_bytes);
    assert!(report.flops > 2 * 3_000_000_000 && report.flops < 2 * 4_000_000_000, "{}", report.flops);
}

/// Phases of a step of one token.
fn n_phases(graph: &Graph) -> usize {
    let bucket = Bucket { tokens: 1, outputs: 1 };
    Plan::new(graph, &PlanOptions { bucket, keep_values: false }).phases.len()
}

/// A recurrent layer: cuts, norms of keys and queries, norm with gate. One that attends: the cut of the
/// queries, their rotation. Experts: `glu`.
#[test]
fn fusions_take_phases_out_of_the_hybrids() {
    let late = [
        Fusion::NormDeltaNet,
        Fusion::DeltaNetNormGlu,
        Fusion::ExpertMatmulGlu,
        Fusion::SliceNormRope,
        Fusion::SliceGlu,
        Fusion::RopeAttention,
    ];
    let early: Vec<Fusion> = Fusion::ALL.into_iter().filter(|fusion| !late.contains(fusion)).collect();
    for (declared, recurrent, attending, with_experts) in
        [(qwen35::QWEN3_5_2B.declare(), 18, 6, 0), (qwen35::QWEN3_5_35B_A3B.declare(), 30, 10, 40)]
    {
        let before = fuse(&unrolled(declared), &early);
        let after = fuse(&before, &late);
        after.validate().unwrap();
        let n = |op: &str| after.nodes.iter().filter(|node| node.op.name() == op).count();
        assert_eq!((n("norm_delta_net"), n("slice_glu"), n("expert_matmul_glu")), (recurrent, attending, with_experts));
        assert_eq!(n("rope_attention"), attending);
        assert_eq!(n("slice") + n("l2_norm") + n("delta_net") + n("norm_glu") + n("glu"), 0);
        assert_eq!(n_phases(&before) - n_phases(&after), 3 * recurrent + 2 * attending + with_experts);
    }
}

/// Router, shared expert and chosen experts each take the norm before them along.
#[test]
fn experts_take_their_norm_along() {
    let graph = unrolled(qwen35::QWEN3_5_35B_A3B.declare());
    let products = [Fusion::MatmulGlu, Fusion::MatmulAdd, Fusion::ExpertMatmulGlu];
    let before = fuse(&graph, &products);
    let after = fuse(&before, &[Fusion::NormMatmul]);
    after.validate().unwrap();
    let n_normed = |graph: &Graph| {
        let has_norm = |op: &Op| matches!(op, Op::ExpertMatmulGlu(p) if p.norm.is_some());
        graph.nodes.iter().filter(|node| has_norm(&node.op)).count()
    };
    assert_eq!((n_normed(&before), n_normed(&after)), (0, 40));
    // Two a layer, the first before attention or the delta net, and the last one of all.
    let n_norms = |graph: &Graph| graph.nodes.iter().filter(|node| matches!(node.op, Op::RmsNorm(_))).count();
    assert_eq!(n_norms(&before) - n_norms(&after), 2 * 40 + 1);
}

#[test]
fn windows_alternate() {
    for model in [gpt_oss::GPT_OSS_20B, gpt_oss::GPT_OSS_120B] {
        let graph = unrolled(model.declare());
        let windows: Vec<u32> = windows(&graph);
        assert_eq!(windows.len(), model.hp.n_layers as usize);
        assert!(windows.iter().enumerate().all(|(layer, w)| *w == if layer % 2 == 0 { 128 } else { 0 }));
    }
    let graph = unrolled(qwen3moe::QWEN3_30B_A3B.declare());
    assert!(windows(&graph).iter().all(|w| *w == 0));
}

fn windows(graph: &Graph) -> Vec<u32> {
    let attention = graph.nodes.iter().filter_map(|n| match n.op {
        Op::Attention(a) => Some(a.window),
        _ => None,
    });
    attention.collect()
}

#[test]
fn layers_that_share_caches_read_the_last_of_their_kind() {
    for (model, n_own, period) in [(gemma4::GEMMA_4_E2B, 15, 5), (gemma4::GEMMA_4_E4B, 24, 6)] {
        let graph = unrolled(model.declare());
        assert_eq!(cache(&graph).1, n_own);
        for (node, layer) in graph.nodes.iter().zip(&graph.layer_of_node) {
            let (Op::Attention(_), Some(layer), Some(resource)) = (node.op, *layer, node.resource) else { continue };
            let is_global = layer % period == period - 1;
            let expected = match layer < n_own {
                true => layer,
                false if is_global => n_own - 1,
                false => n_own - 2,
            };
            assert_eq!(graph.resources[usize::from(resource.0)].layer, expected, "layer {layer}");
        }
    }
}

#[test]
fn each_layer_takes_its_own_per_layer_columns() {
    let graph = unrolled(gemma4::GEMMA_4_E2B.declare());
    let offsets: Vec<u32> = graph
        .nodes
        .iter()
        .filter_map(|node| match node.op {
            Op::Slice(slice) => Some(slice.offset),
            _ => None,
        })
        .collect();
    assert_eq!(offsets, (0..35).map(|layer| layer * 256).collect::<Vec<_>>());
    for model in [gemma4::GEMMA_4_12B, gemma4::GEMMA_4_26B_A4B, gemma4::GEMMA_4_31B] {
        let graph = unrolled(model.declare());
        assert_eq!(cache(&graph).1, model.hp.n_layers as usize);
        // In global layers the keys are the values.
        assert_eq!(
            graph.weights.iter().filter(|w| w.name.ends_with("attn_v.weight")).count(),
            model.hp.n_layers as usize * 5 / 6
        );
    }
}
