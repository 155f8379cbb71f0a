//! Builder, unrolling, fusion and plan on a small dense model.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zinc_gguf::{Bytes, DType};
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes, WeightData};
use zinc_graph::batch::Places;
use zinc_graph::blueprint::Layer;
use zinc_graph::conformance::{Seeded, random_weight};
use zinc_graph::fuse::{Fusion, fuse};
use zinc_graph::graph::GraphError;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::reference::Reference;
use zinc_graph::section::{Builder, Section, ValueId};
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Backend, Batch, Blueprint, Graph, Plan};

const WIDTH: u32 = 64;
const HEADS: u32 = 2;
const HEAD_DIM: u32 = 32;

const fn prologue() -> Result<Section, ShapeError> {
    let mut b = Builder::new("prologue");
    let table = b.model_matrix("token_embd.weight", WIDTH, 96);
    let x = b.embed(table, 1.0);
    b.output(x);
    b.finish()
}

const fn block(n_kv_heads: u32) -> Result<Section, ShapeError> {
    let mut b = Builder::new("block");
    let x = b.input(Shape::tokens(WIDTH));
    let norm = b.vector("attn_norm.weight", WIDTH);
    let h = b.rms_norm(x, norm, 1e-6);
    let (wq, wk) =
        (b.matrix("attn_q.weight", WIDTH, HEADS * HEAD_DIM), b.matrix("attn_k.weight", WIDTH, n_kv_heads * HEAD_DIM));
    let (wv, wo) = (
        b.matrix("attn_v.weight", WIDTH, n_kv_heads * HEAD_DIM),
        b.matrix("attn_output.weight", HEADS * HEAD_DIM, WIDTH),
    );
    let rope = Rope {
        head_dim: HEAD_DIM,
        n_rot: HEAD_DIM,
        mode: RopeMode::HalfSplit,
        base: 1e4,
        position_scale: 1.0,
        yarn: None,
    };
    let (q, k, v) = (b.matmul(h, wq), b.matmul(h, wk), b.matmul(h, wv));
    let (q, k) = (b.rope(q, rope), b.rope(k, rope));
    let cache = b.kv_cache(n_kv_heads, HEAD_DIM);
    b.kv_write(k, v, cache);
    let attention = Attention { n_heads: HEADS, n_kv_heads, head_dim: HEAD_DIM, scale: 0.176, window: 0, softcap: 0.0 };
    let o = b.attention(q, cache, None, attention);
    let o = b.matmul(o, wo);
    let x = b.add(x, o);
    let norm = b.vector("ffn_norm.weight", WIDTH);
    let h = b.rms_norm(x, norm, 1e-6);
    let (gate, up, down) = (
        b.matrix("ffn_gate.weight", WIDTH, 96),
        b.matrix("ffn_up.weight", WIDTH, 96),
        b.matrix("ffn_down.weight", 96, WIDTH),
    );
    let (gate, up) = (b.matmul(h, gate), b.matmul(h, up));
    let h = b.glu(gate, up, Activation::Silu);
    let h = b.matmul(h, down);
    let x = b.add(x, h);
    b.name(x, "out");
    b.output(x);
    b.finish()
}

const fn epilogue() -> Result<Section, ShapeError> {
    let mut b = Builder::new("epilogue");
    let x = b.input(Shape::tokens(WIDTH));
    let x = b.select_rows(x);
    let norm = b.model_vector("output_norm.weight", WIDTH);
    let h = b.rms_norm(x, norm, 1e-6);
    let table = b.model_matrix("token_embd.weight", WIDTH, 96);
    let logits = b.matmul(h, table);
    b.output(logits);
    let greedy = b.argmax(logits);
    b.output(greedy);
    b.finish()
}

/// The same functions run in a constant: a broken rule would not compile.
const _: () = assert!(prologue().is_ok() && block(1).is_ok() && epilogue().is_ok());

fn model() -> Graph {
    let blueprint = Blueprint {
        prologue: prologue().unwrap(),
        blocks: vec![block(1).unwrap()],
        layers: (0..3).map(|i| Layer { block: 0, kv_of: i }).collect(),
        epilogue: epilogue().unwrap(),
    };
    blueprint.unroll().unwrap()
}

fn run(graph: &Graph) -> Vec<f32> {
    let mut random = Seeded(7);
    let mut reference = Reference::new();
    let weights = graph.weights.iter().map(|w| {
        let n = w.shape.iter().map(|&n| n as usize).product();
        WeightData { dtype: DType::F32, bytes: Bytes::from(random_weight(&mut random, DType::F32, n)) }
    });
    reference
        .load(
            graph,
            weights.collect(),
            StateSizes { n_pages: 2, n_window_pages: 0, kv_format: KvFormat::F32, n_slots: 1 },
        )
        .unwrap();
    let options = PlanOptions { bucket: Bucket { tokens: 8, outputs: 8 }, keep_values: false };
    let plan = reference.compile(graph, &options).unwrap();
    let n = 5;
    let batch = Batch {
        ids: vec![3, 90, 0, 17, 17],
        positions: (0..n).collect(),
        seq_idx: vec![0; n as usize],
        query_start: vec![0, n],
        full: Places { kv_slots: (16..16 + n).collect(), block_tables: vec![1, 0] },
        window: Places::default(),
        pages_max: 2,
        state_slots: vec![0],
        output_rows: vec![1, 4],
    };
    reference.submit(plan, &batch).unwrap();
    let mut logits = vec![0.0; 2 * 96];
    reference.read(plan, graph.outputs[0], 0, &mut logits).unwrap();
    logits
}

#[test]
fn a_tied_head_is_one_weight_and_layers_have_their_own() {
    let graph = model();
    graph.validate().unwrap();
    assert_eq!(graph.weights.iter().filter(|w| w.name == "token_embd.weight").count(), 1);
    assert_eq!(graph.weights.len(), 2 + 3 * 9);
    assert_eq!(graph.resources.len(), 3);
    assert!(graph.value_named("blk.2.out").is_some());
}

#[test]
fn fused_graphs_compute_the_same_bits() {
    let graph = model();
    let expected = run(&graph);
    assert!(expected.iter().any(|x| x.abs() > 1e-3));
    for fusions in [&[Fusion::AddRmsNorm][..], &[Fusion::MatmulAdd], &[Fusion::MatmulGlu], &Fusion::ALL] {
        let fused = fuse(&graph, fusions);
        fused.validate().unwrap();
        assert!(fused.nodes.len() < graph.nodes.len(), "{fusions:?} found nothing");
        assert_eq!(run(&fused), expected, "{fusions:?}");
    }
}

#[test]
fn fusion_counts_are_those_of_the_pattern() {
    let graph = model();
    let count = |fusions: &[Fusion], op: &str| fuse(&graph, fusions).nodes.iter().filter(|n| n.op.name() == op).count();
    // Each layer's first add feeds its ffn norm; its second feeds the next layer's attention norm,
    // but the last one feeds select_rows.
    assert_eq!(count(&[Fusion::AddRmsNorm], "add_rms_norm"), 5);
    assert_eq!(count(&[Fusion::MatmulAdd], "matmul_add"), 6);
    assert_eq!(count(&[Fusion::MatmulGlu], "matmul_glu"), 3);
}

#[test]
fn values_that_live_together_do_not_share_memory() {
    for graph in [model(), fuse(&model(), &Fusion::ALL)] {
        let bucket = Bucket { tokens: 8, outputs: 8 };
        let plan = Plan::new(&graph, &PlanOptions { bucket, keep_values: false });
        let kept = Plan::new(&graph, &PlanOptions { bucket, keep_values: true });
        assert!(plan.arena_bytes * 4 < kept.arena_bytes, "buffers are reused");
        let mut owner: Vec<Option<ValueId>> = vec![None; plan.arena_bytes / 256];
        let pages = |id: ValueId| {
            let bytes = 8 * graph.shape(id).row_bytes();
            let start = plan.offsets[usize::from(id.0)].unwrap() / 256;
            start..start + bytes.div_ceil(256)
        };
        for phase in &plan.phases {
            // Within a phase nodes run in any order: all writes happen "at once", and no write may
            // destroy what a node of the same phase reads.
            for &node in phase {
                for &id in graph.nodes[node].outputs.as_slice() {
                    pages(id).for_each(|page| owner[page] = Some(id));
                }
            }
            for &node in phase {
                for &id in graph.nodes[node].inputs.as_slice() {
                    assert!(pages(id).all(|page| owner[page] == Some(id)), "node {node} reads what was overwritten");
                }
            }
        }
        for &id in &graph.outputs {
            assert!(pages(id).all(|page| owner[page] == Some(id)), "an output was overwritten");
        }
    }
}

#[test]
fn attention_waits_for_the_cache_write() {
    let graph = model();
    let plan = Plan::new(&graph, &PlanOptions { bucket: Bucket { tokens: 1, outputs: 1 }, keep_values: false });
    let phase_of =
        |op: &str| plan.phases.iter().position(|p| p.iter().any(|&n| graph.nodes[n].op.name() == op)).unwrap();
    assert!(phase_of("attention") > phase_of("kv_write"));
    let q_k_v = plan.phases.iter().find(|p| p.iter().filter(|&&n| graph.nodes[n].op.name() == "matmul").count() == 3);
    assert!(q_k_v.is_some(), "q, k and v are independent");
}

#[test]
fn broken_rules_are_told_with_numbers() {
    let mut b = Builder::new("broken");
    let x = b.input(Shape::tokens(64));
    let w = b.matrix("w", 65, 10);
    b.matmul(x, w);
    b.add(x, x);
    let error = b.finish().unwrap_err();
    assert_eq!(error.to_string(), "matmul: the weight's rows must be as long as the input (expected 64, got 65)");

    let blueprint = Blueprint {
        prologue: prologue().unwrap(),
        blocks: vec![block(1).unwrap()],
        layers: vec![Layer { block: 3, kv_of: 0 }],
        epilogue: epilogue().unwrap(),
    };
    assert_eq!(blueprint.unroll().unwrap_err(), GraphError::NoSuchBlock { layer: 0, block: 3 });
}

#[test]
fn a_batch_outside_its_limits_is_refused_by_name() {
    let limits = zinc_graph::batch::BatchLimits {
        tokens_max: 4,
        outputs_max: 4,
        n_vocab: 10,
        n_pages: 2,
        n_window_pages: 0,
        n_state_slots: 1,
    };
    let good = Batch {
        ids: vec![1, 2],
        positions: vec![0, 1],
        seq_idx: vec![0, 0],
        query_start: vec![0, 2],
        full: Places { kv_slots: vec![0, 1], block_tables: vec![0] },
        window: Places::default(),
        pages_max: 1,
        state_slots: vec![0],
        output_rows: vec![1],
    };
    good.validate(&limits).unwrap();
    type Break = fn(&mut Batch);
    let cases: [(&str, Break); 10] = [
        ("ids", |b| b.ids[1] = 10),
        ("positions", |b| b.positions[1] = 16),
        ("full.kv_slots", |b| b.full.kv_slots[0] = 32),
        ("full.block_tables", |b| b.full.block_tables[0] = 2),
        ("window.kv_slots", |b| b.window.kv_slots = vec![0, 1]),
        ("window.block_tables", |b| b.window.block_tables = vec![0]),
        ("state_slots", |b| b.state_slots[0] = 1),
        ("output_rows", |b| b.output_rows[0] = 2),
        ("seq_idx", |b| b.positions[1] = 5),
        ("query_start", |b| b.query_start[1] = 1),
    ];
    for (array, damage) in cases {
        let mut batch = good.clone();
        damage(&mut batch);
        let message = batch.validate(&limits).unwrap_err().to_string();
        assert!(message.contains(array), "{array}: {message}");
    }
}
