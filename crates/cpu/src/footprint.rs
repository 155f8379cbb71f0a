//! What a model takes of this machine's memory, before it is loaded.

use zinc_graph::backend::{Bucket, PlanOptions};
use zinc_graph::footprint::{Footprint, graph_bytes, plan_tokens};
use zinc_graph::ops::Op;
use zinc_graph::section::WeightClass;
use zinc_graph::{Graph, Plan, fuse};

use crate::backend::FUSIONS;
use crate::context::SCRATCH_LEN;

/// What `graph`, as the model declares it, takes on so many threads with weights of these sizes in bytes, when steps have
/// up to `step_tokens` tokens and give up to `outputs` rows of logits. The weights are those of the file's map: they are
/// counted because running without them in memory would mean reading them from the disk for every token.
#[must_use]
pub fn footprint(graph: &Graph, sizes: &[u64], n_threads: usize, step_tokens: u32, outputs: u32) -> Footprint {
    let copied = graph.weights.iter().zip(sizes).filter(|(weight, _)| weight.class == WeightClass::Plain);
    let weights_bytes = sizes.iter().sum::<u64>() + copied.map(|(_, size)| size).sum::<u64>();
    let fused = fuse(graph, FUSIONS);
    let mut workspace_bytes = (n_threads * SCRATCH_LEN * size_of::<f32>()) as u64;
    let mut arena_bytes = 0;
    for tokens in plan_tokens(step_tokens) {
        let bucket = Bucket { tokens, outputs: outputs.clamp(1, tokens) };
        let plan = Plan::new(&fused, &PlanOptions { bucket, keep_values: false });
        // One arena serves all plans.
        arena_bytes = arena_bytes.max(plan.arena_bytes.next_multiple_of(64) as u64);
        workspace_bytes += plan_bytes(&fused, &plan) + rotation_bytes(&fused, tokens);
    }
    Footprint {
        weights_bytes,
        workspace_bytes: workspace_bytes + arena_bytes,
        workspace_bytes_per_page: 0,
        window_bytes: 0,
        window_bytes_per_page: 0,
    }
}

/// What a compiled plan holds besides values: its graph, its phases, and which rotation each node uses.
fn plan_bytes(graph: &Graph, plan: &Plan) -> u64 {
    let n_nodes = graph.nodes.len();
    let lists = plan.offsets.len() * size_of::<Option<usize>>()
        + plan.phases.len() * size_of::<Vec<usize>>()
        // A list of one has room for four.
        + plan.phases.iter().map(|phase| phase.len().next_power_of_two().max(4)).sum::<usize>() * size_of::<usize>()
        + n_nodes * size_of::<Option<usize>>();
    graph_bytes(graph) + lists as u64
}

/// Cosines and sines of a step, for each kind of rotary embedding; at most as many kinds as differ in their numbers.
fn rotation_bytes(graph: &Graph, tokens: u32) -> u64 {
    let mut kinds = Vec::new();
    for node in &graph.nodes {
        if let Op::Rope(rope) = node.op {
            let kind = (rope, node.weights.as_slice().first().copied());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    let of_kind = |n: usize| {
        let entries = n as u64 * u64::from(tokens);
        // Lists that grow while they are filled.
        4 * (n as u64 + 2 * entries.next_power_of_two())
    };
    kinds.iter().map(|(rope, _)| of_kind(rope.inverse_frequencies(None).len())).sum()
}
