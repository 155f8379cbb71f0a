//! The graph as data for people: JSON and Graphviz DOT.
//!
//! Bytes and operations are those of a step of `n_tokens` tokens with a cache of `context`
//! tokens; weights count once. They are what the ops must move and compute, not measurements.

use serde::Serialize;
use zinc_gguf::DType;

use crate::backend::KvFormat;
use crate::graph::Graph;
use crate::ops::{ExpertMatmulGlu, NormDeltaNet, Op, RopeAttention};
use crate::section::Node;

/// What the figures are for.
#[derive(Clone, Copy, Debug)]
pub struct ReportFor<'a> {
    /// Storage type of each weight, in the graph's order.
    pub dtypes: &'a [DType],
    /// Tokens of the step.
    pub n_tokens: u64,
    /// Keys that attention reads.
    pub context: u64,
    /// Format of keys and values.
    pub kv_format: KvFormat,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Nodes in the graph.
    pub n_nodes: usize,
    /// Edges: one per value read, and one per reader of a resource.
    pub n_edges: usize,
    /// Longest chain of nodes.
    pub critical_path: usize,
    /// Most nodes that could run at once.
    pub width_max: usize,
    /// Bytes of all weights.
    pub weight_bytes: u64,
    /// Bytes moved by the step.
    pub bytes: u64,
    /// Floating point operations of the step.
    pub flops: u64,
    /// Tokens of the step.
    pub n_tokens: u64,
    /// Keys that attention reads.
    pub context: u64,
    /// The nodes in order.
    pub nodes: Vec<NodeReport>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// Index.
    pub id: usize,
    /// Op.
    pub op: &'static str,
    /// Layer, if the node belongs to one.
    pub layer: Option<usize>,
    /// Nodes that it waits for.
    pub after: Vec<usize>,
    /// Phase in which it runs.
    pub phase: usize,
    /// Weights read: name, type, shape.
    pub weights: Vec<String>,
    /// Values written: name and shape.
    pub outputs: Vec<String>,
    /// Bytes moved.
    pub bytes: u64,
    /// Floating point operations.
    pub flops: u64,
}

impl Report {
    /// Describes a graph.
    #[must_use]
    pub fn new(graph: &Graph, of: &ReportFor<'_>) -> Report {
        let options =
            crate::backend::PlanOptions { bucket: crate::backend::Bucket { tokens: 1, outputs: 1 }, keep_values: true };
        let plan = crate::plan::Plan::new(graph, &options);
        let mut phase_of = vec![0; graph.nodes.len()];
        for (phase, nodes) in plan.phases.iter().enumerate() {
            for &node in nodes {
                phase_of[node] = phase;
            }
        }
        let after = dependencies(graph);
        let nodes: Vec<NodeReport> = graph
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| NodeReport {
                id,
                op: node.op.name(),
                layer: graph.layer_of_node[id],
                after: after[id].clone(),
                phase: phase_of[id],
                weights: node.weights.as_slice().iter().map(|w| weight_text(graph, of, usize::from(w.0))).collect(),
                outputs: node.outputs.as_slice().iter().map(|v| value_text(graph, *v)).collect(),
                bytes: node_bytes(graph, node, of),
                flops: node_flops(graph, node, of),
            })
            .collect();
        Report {
            n_nodes: nodes.len(),
            n_edges: after.iter().map(Vec::len).sum(),
            critical_path: plan.phases.len(),
            width_max: plan.phases.iter().map(Vec::len).max().unwrap_or(0),
            weight_bytes: (0..graph.weights.len()).map(|w| weight_bytes(graph, of, w)).sum(),
            bytes: nodes.iter().map(|n| n.bytes).sum(),
            flops: nodes.iter().map(|n| n.flops).sum(),
            n_tokens: of.n_tokens,
            context: of.context,
            nodes,
        }
    }

    /// Graphviz text.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph zinc {\n  node [shape=box, fontname=\"monospace\"];\n");
        for node in &self.nodes {
            let layer = node.layer.map_or(String::new(), |l| format!("blk.{l} "));
            let output = node.outputs.first().map_or("", String::as_str);
            dot.push_str(&format!("  n{} [label=\"{layer}{}\\n{output}\"];\n", node.id, node.op));
            for from in &node.after {
                dot.push_str(&format!("  n{from} -> n{};\n", node.id));
            }
        }
        dot.push_str("}\n");
        dot
    }
}

fn dependencies(graph: &Graph) -> Vec<Vec<usize>> {
    let mut writer = vec![None; graph.values.len()];
    let mut resource_writer = vec![None; graph.resources.len()];
    let mut after = Vec::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut from: Vec<usize> = node.inputs.as_slice().iter().filter_map(|v| writer[usize::from(v.0)]).collect();
        if let Some(resource) = node.resource {
            from.extend(resource_writer[usize::from(resource.0)]);
            if !matches!(node.op, Op::Attention(_)) {
                resource_writer[usize::from(resource.0)] = Some(index);
            }
        }
        from.sort_unstable();
        from.dedup();
        for v in node.outputs.as_slice() {
            writer[usize::from(v.0)] = Some(index);
        }
        after.push(from);
    }
    after
}

fn weight_text(graph: &Graph, of: &ReportFor<'_>, index: usize) -> String {
    let weight = &graph.weights[index];
    let [a, b, c] = weight.shape;
    let shape = match (b, c) {
        (1, 1) => format!("{a}"),
        (_, 1) => format!("{a}, {b}"),
        _ => format!("{a}, {b}, {c}"),
    };
    format!("{} {} [{shape}]", weight.name, of.dtypes[index])
}

fn value_text(graph: &Graph, id: crate::section::ValueId) -> String {
    let value = &graph.values[usize::from(id.0)];
    format!("{} [{:?}, {}]", value.name, value.shape.rows, value.shape.cols)
}

fn weight_bytes(graph: &Graph, of: &ReportFor<'_>, index: usize) -> u64 {
    let n: u64 = graph.weights[index].shape.iter().map(|&n| u64::from(n)).product();
    n / of.dtypes[index].block_len() as u64 * of.dtypes[index].block_bytes() as u64
}

/// What a node does, alike for all layers: op, and the type and shape of its matrices or else its columns.
#[must_use]
pub fn node_label(graph: &Graph, node: &Node, of: &ReportFor<'_>) -> String {
    let matrices = node.weights.as_slice().iter().map(|w| usize::from(w.0)).filter(|&w| graph.weights[w].shape[1] > 1);
    let matrices: Vec<String> = matrices
        .map(|w| {
            let [n_in, n_out, n] = graph.weights[w].shape;
            let n = if n > 1 { format!("x{n}") } else { String::new() };
            format!(" {} {n_in}x{n_out}{n}", of.dtypes[w])
        })
        .collect();
    match node.outputs.as_slice().first() {
        Some(y) if matrices.is_empty() => format!("{} {}", node.op.name(), graph.shape(*y).cols),
        _ => format!("{}{}", node.op.name(), matrices.concat()),
    }
}

/// Bytes that a node must move.
#[must_use]
pub fn node_bytes(graph: &Graph, node: &Node, of: &ReportFor<'_>) -> u64 {
    let values = node.inputs.as_slice().iter().chain(node.outputs.as_slice());
    let activations: u64 = values.map(|v| graph.shape(*v).row_bytes() as u64 * of.n_tokens).sum();
    let weights: u64 = node.weights.as_slice().iter().map(|w| weight_share(graph, node, of, usize::from(w.0))).sum();
    let state = match node.op {
        Op::Attention(a) | Op::RopeAttention(RopeAttention { attention: a, .. }) => {
            2 * of.context * of.kv_format.row_bytes(u64::from(a.n_kv_heads * a.head_dim))
        }
        // Read and written once, by one sequence.
        Op::DeltaNet(d) | Op::NormDeltaNet(NormDeltaNet { rule: d, .. }) => 2 * 4 * u64::from(d.state_len()),
        Op::Conv1d(c) => 2 * 4 * u64::from(c.n_channels) * u64::from(c.n_taps - 1),
        _ => 0,
    };
    activations + weights + state
}

/// The part of a weight that the step reads: rows looked up, experts chosen (each token others,
/// at most), or all of it.
fn weight_share(graph: &Graph, node: &Node, of: &ReportFor<'_>, index: usize) -> u64 {
    let all = weight_bytes(graph, of, index);
    let n_rows = u64::from(graph.weights[index].shape[1]);
    let is_of_norm = usize::from(node.weights.as_slice()[0].0) == index;
    match node.op {
        Op::Embed(_) => all / n_rows * of.n_tokens.min(n_rows),
        Op::ExpertMatmulGlu(ExpertMatmulGlu { norm: Some(_), .. }) if is_of_norm => all,
        Op::ExpertMatmul(e) | Op::ExpertMatmulGlu(ExpertMatmulGlu { product: e, .. }) => {
            let n_experts = u64::from(e.n_experts);
            all / n_experts * n_experts.min(of.n_tokens.saturating_mul(u64::from(e.n_used)))
        }
        _ => all,
    }
}

/// Floating-point operations of a node.
#[must_use]
pub fn node_flops(graph: &Graph, node: &Node, of: &ReportFor<'_>) -> u64 {
    let out: u64 = node.outputs.as_slice().iter().map(|v| u64::from(graph.shape(*v).cols)).sum();
    let product = |w: usize| {
        let [n_in, n_out, _] = graph.weights[usize::from(node.weights.as_slice()[w].0)].shape;
        2 * u64::from(n_in) * u64::from(n_out)
    };
    let per_token = match node.op {
        Op::Matmul(_) | Op::MatmulAdd(_) => product(0),
        Op::MatmulGlu(_) => product(0) + product(1),
        Op::NormMatmul(_) => product(1),
        Op::NormMatmulGlu(_) => product(1) + product(2),
        Op::RopeKvWrite(p) => 4 * u64::from(p.write.n_kv_heads * p.write.head_dim),
        Op::Attention(a) => 4 * of.context * u64::from(a.n_heads * a.head_dim),
        Op::RopeAttention(p) => {
            let a = p.attention;
            4 * (of.context * u64::from(a.n_heads * a.head_dim) + u64::from((a.n_heads + a.n_kv_heads) * a.head_dim))
        }
        Op::ExpertMatmul(e) => u64::from(e.n_used) * 2 * u64::from(e.n_in) * u64::from(e.n_out),
        Op::ExpertMatmulGlu(e) => {
            u64::from(e.product.n_used) * 4 * u64::from(e.product.n_in) * u64::from(e.product.n_out)
        }
        Op::ExpertSum(e) | Op::ExpertSumAdd(e) => 2 * out * u64::from(e.n_used),
        Op::Conv1d(c) => 2 * out * u64::from(c.n_taps),
        // Per element of the state: decay, two dot products, one update.
        Op::DeltaNet(d) => 7 * u64::from(d.state_len()),
        // And what the norms and the gate cost.
        Op::NormDeltaNet(d) => {
            let keys = 8 * u64::from(d.rule.n_k_heads * d.rule.k_dim);
            7 * u64::from(d.rule.state_len()) + keys + if d.then.is_some() { 8 * out } else { 0 }
        }
        Op::KvWrite(_) | Op::SelectRows | Op::Slice(_) => 0,
        Op::RmsNorm(_) | Op::AddRmsNorm(_) | Op::L2Norm(_) | Op::NormRope(_) => 4 * out,
        Op::NormGlu(_) => 8 * out,
        Op::Rope(_) | Op::Glu(_) | Op::SliceGlu(_) | Op::Softcap(_) | Op::DeltaGates | Op::GateRows => 4 * out,
        Op::Router(r) => u64::from(r.n_experts) + 4 * out,
        Op::Embed(_) | Op::Add | Op::Argmax | Op::Scale(_) => out,
    };
    per_token * of.n_tokens
}
