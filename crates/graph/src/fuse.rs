//! Rewrites a graph to fused ops.
//!
//! A backend lists the fusions that it has kernels for; each is applied over the whole graph, in
//! the backend's order. A fused op's reference is the composition of its parts, so a fused graph
//! gives the same numbers by definition, which `tests/ops.rs` checks on the reference.

use crate::graph::Graph;
use crate::ops::{
    ExpertMatmul, ExpertMatmulGlu, Glu, L2Norm, NormDeltaNet, NormGlu, NormMatmul, NormMatmulGlu, NormRope, Op,
    RmsNorm, RopeAttention, RopeKvWrite, Slice, SliceGlu,
};
use crate::section::{List, Node, ValueId, WeightId};

/// A rewrite that a backend may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// `add` then `rms_norm` of the whole sum: `add_rms_norm`.
    AddRmsNorm,
    /// `matmul` without bias, then `add`: `matmul_add`.
    MatmulAdd,
    /// Two `matmul`s of one input, then `glu`: `matmul_glu`.
    MatmulGlu,
    /// `rms_norm` of the whole row that only `matmul`, `matmul_glu` and `expert_matmul_glu` read: `norm_matmul`,
    /// `norm_matmul_glu`, and `expert_matmul_glu` with a norm. For steps of few tokens: each product repeats the norm. After the
    /// fusions that make gated products.
    NormMatmul,
    /// `rms_norm` of each head, then `rope`: `norm_rope`.
    NormRope,
    /// `rms_norm` with a weight, then `glu` as its second input: `norm_glu`.
    NormGlu,
    /// `expert_sum`, then one or two `add`s: `expert_sum_add`.
    ExpertSumAdd,
    /// `rope` or `norm_rope` of keys, then `kv_write`: `rope_kv_write`.
    RopeKvWrite,
    /// `slice`s of one row, `l2_norm` of the queries and the keys, then `delta_net`: `norm_delta_net`.
    NormDeltaNet,
    /// `norm_delta_net`, then `norm_glu` of each head: `norm_delta_net`.
    DeltaNetNormGlu,
    /// Two `expert_matmul`s of one input, or the halves of one, then `glu`: `expert_matmul_glu`.
    ExpertMatmulGlu,
    /// `slice` of each head, then `norm_rope`: `norm_rope`.
    SliceNormRope,
    /// `slice`, then `glu` as its gate: `slice_glu`.
    SliceGlu,
    /// `rope` or `norm_rope` of queries and `rope_kv_write`, then `attention`: `rope_attention`. For steps of few tokens: each
    /// workgroup of a head repeats the rotation.
    RopeAttention,
}

impl Fusion {
    /// Every fusion.
    pub const ALL: [Fusion; 14] = [
        Fusion::AddRmsNorm,
        Fusion::MatmulAdd,
        Fusion::MatmulGlu,
        Fusion::ExpertMatmulGlu,
        Fusion::NormMatmul,
        Fusion::NormRope,
        Fusion::RopeKvWrite,
        Fusion::NormGlu,
        Fusion::ExpertSumAdd,
        Fusion::NormDeltaNet,
        Fusion::DeltaNetNormGlu,
        Fusion::SliceNormRope,
        Fusion::SliceGlu,
        Fusion::RopeAttention,
    ];
}

/// Applies `fusions` in order.
#[must_use]
pub fn fuse(graph: &Graph, fusions: &[Fusion]) -> Graph {
    let mut fused = graph.clone();
    for fusion in fusions {
        fused = Rewriter::new(&fused).run(*fusion);
    }
    fused
}

struct Rewriter<'a> {
    graph: &'a Graph,
    /// Nodes that read each value; outputs of the graph count as one more reader.
    n_readers: Vec<usize>,
    writer: Vec<Option<usize>>,
    nodes: Vec<Option<Node>>,
}

impl<'a> Rewriter<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut n_readers = vec![0; graph.values.len()];
        let mut writer = vec![None; graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            for id in node.inputs.as_slice() {
                n_readers[usize::from(id.0)] += 1;
            }
            for id in node.outputs.as_slice() {
                writer[usize::from(id.0)] = Some(index);
            }
        }
        for id in &graph.outputs {
            n_readers[usize::from(id.0)] += 1;
        }
        Rewriter { graph, n_readers, writer, nodes: graph.nodes.iter().copied().map(Some).collect() }
    }

    fn run(mut self, fusion: Fusion) -> Graph {
        for index in 0..self.nodes.len() {
            let Some(node) = self.nodes[index] else { continue };
            match fusion {
                Fusion::AddRmsNorm => self.add_rms_norm(index, node),
                Fusion::MatmulAdd => self.matmul_add(index, node),
                Fusion::MatmulGlu => self.matmul_glu(index, node),
                Fusion::NormMatmul => self.norm_matmul(index, node),
                Fusion::NormRope => self.norm_rope(index, node),
                Fusion::RopeKvWrite => self.rope_kv_write(index, node),
                Fusion::NormGlu => self.norm_glu(index, node),
                Fusion::ExpertSumAdd => self.expert_sum_add(index, node),
                Fusion::NormDeltaNet => self.norm_delta_net(index, node),
                Fusion::DeltaNetNormGlu => self.delta_net_norm_glu(index, node),
                Fusion::ExpertMatmulGlu => self.expert_matmul_glu(index, node),
                Fusion::SliceNormRope => self.slice_norm_rope(index, node),
                Fusion::SliceGlu => self.slice_glu(index, node),
                Fusion::RopeAttention => self.rope_attention(index, node),
            }
        }
        let mut graph = self.graph.clone();
        let kept = self.nodes.iter().zip(&self.graph.layer_of_node).filter(|(node, _)| node.is_some());
        (graph.nodes, graph.layer_of_node) = kept.filter_map(|(node, layer)| node.map(|n| (n, *layer))).unzip();
        graph
    }

    /// The norm needs only the sum, so the pair moves to the place of the sum.
    fn add_rms_norm(&mut self, index: usize, node: Node) {
        let Op::RmsNorm(norm) = node.op else { return };
        let sum = node.inputs.as_slice()[0];
        let Some(at) = self.writer[usize::from(sum.0)] else { return };
        let Some(add) = self.nodes[at] else { return };
        let whole_row = norm.width == self.graph.shape(sum).cols;
        if add.op != Op::Add || !whole_row || node.weights.as_slice().is_empty() {
            return;
        }
        let mut outputs = List::new(ValueId(0));
        outputs.push(sum);
        outputs.push(node.outputs.as_slice()[0]);
        self.nodes[at] = Some(Node { op: Op::AddRmsNorm(norm), weights: node.weights, outputs, ..add });
        self.nodes[index] = None;
    }

    fn matmul_add(&mut self, index: usize, node: Node) {
        if node.op != Op::Add {
            return;
        }
        let operands = node.inputs.as_slice();
        for (product, residual) in [(operands[1], operands[0]), (operands[0], operands[1])] {
            let Some((at, matmul)) = self.lone_matmul(product) else { continue };
            let Op::Matmul(op) = matmul.op else { continue };
            let mut inputs = matmul.inputs;
            inputs.push(residual);
            self.nodes[at] = None;
            self.nodes[index] = Some(Node { op: Op::MatmulAdd(op), inputs, outputs: node.outputs, ..matmul });
            return;
        }
    }

    fn matmul_glu(&mut self, index: usize, node: Node) {
        let Op::Glu(glu) = node.op else { return };
        let operands = node.inputs.as_slice();
        let (Some((gate_at, gate)), Some((up_at, up))) = (self.lone_matmul(operands[0]), self.lone_matmul(operands[1]))
        else {
            return;
        };
        if gate.inputs != up.inputs {
            return;
        }
        let mut weights = gate.weights;
        weights.push(up.weights.as_slice()[0]);
        self.nodes[gate_at] = None;
        self.nodes[up_at] = None;
        self.nodes[index] = Some(Node { op: Op::MatmulGlu(glu), weights, outputs: node.outputs, ..gate });
    }

    /// The products read what the norm read.
    fn norm_matmul(&mut self, index: usize, node: Node) {
        let Op::RmsNorm(norm) = node.op else { return };
        let (x, y) = (node.inputs.as_slice()[0], node.outputs.as_slice()[0]);
        let whole_row = norm.width == self.graph.shape(x).cols;
        if !whole_row || node.weights.as_slice().is_empty() {
            return;
        }
        let reads = |node: &Option<Node>| node.is_some_and(|node| node.inputs.as_slice().contains(&y));
        let readers: Vec<usize> = (index..self.nodes.len()).filter(|&at| reads(&self.nodes[at])).collect();
        let fused: Vec<Node> = readers.iter().filter_map(|&at| after_norm(norm, node, self.nodes[at]?)).collect();
        // Fewer products than readers: somebody else needs the norm.
        if fused.is_empty() || fused.len() != self.n_readers[usize::from(y.0)] {
            return;
        }
        for (at, fused) in readers.into_iter().zip(fused) {
            self.nodes[at] = Some(fused);
        }
        self.nodes[index] = None;
    }

    fn norm_rope(&mut self, index: usize, node: Node) {
        let Op::Rope(rope) = node.op else { return };
        let x = node.inputs.as_slice()[0];
        let Some((at, before)) = self.lone_writer(x) else { return };
        let Op::RmsNorm(norm) = before.op else { return };
        if norm.width != rope.head_dim || before.weights.as_slice().len() != 1 {
            return;
        }
        let Some(weights) = joined(before.weights, &node) else { return };
        self.nodes[at] = None;
        self.nodes[index] = Some(Node {
            op: Op::NormRope(NormRope { slice: None, norm, rope }),
            inputs: before.inputs,
            weights,
            ..node
        });
    }

    fn rope_kv_write(&mut self, index: usize, node: Node) {
        let Op::KvWrite(write) = node.op else { return };
        let (k, v) = (node.inputs.as_slice()[0], node.inputs.as_slice()[1]);
        let Some((at, before)) = self.lone_writer(k) else { return };
        let (norm, rope) = match before.op {
            Op::Rope(rope) => (None, rope),
            Op::NormRope(NormRope { slice: None, norm, rope }) => (Some(norm), rope),
            _ => return,
        };
        let mut inputs = before.inputs;
        inputs.push(v);
        self.nodes[at] = None;
        let op = Op::RopeKvWrite(RopeKvWrite { norm, rope, write });
        self.nodes[index] = Some(Node { op, inputs, weights: before.weights, ..node });
    }

    fn norm_glu(&mut self, index: usize, node: Node) {
        let Op::Glu(glu) = node.op else { return };
        let (gate, up) = (node.inputs.as_slice()[0], node.inputs.as_slice()[1]);
        let Some((at, before)) = self.lone_writer(up) else { return };
        let Op::RmsNorm(norm) = before.op else { return };
        if before.weights.as_slice().len() != 1 {
            return;
        }
        let mut inputs = before.inputs;
        inputs.push(gate);
        self.nodes[at] = None;
        self.nodes[index] =
            Some(Node { op: Op::NormGlu(NormGlu { norm, glu }), inputs, weights: before.weights, ..node });
    }

    fn expert_sum_add(&mut self, index: usize, node: Node) {
        if node.op != Op::Add {
            return;
        }
        let operands = node.inputs.as_slice();
        for (sum, added) in [(operands[0], operands[1]), (operands[1], operands[0])] {
            let Some((at, before)) = self.lone_writer(sum) else { continue };
            let op = match before.op {
                Op::ExpertSum(op) => op,
                Op::ExpertSumAdd(op) if before.inputs.as_slice().len() == 3 => op,
                _ => continue,
            };
            let mut inputs = before.inputs;
            inputs.push(added);
            self.nodes[at] = None;
            self.nodes[index] = Some(Node { op: Op::ExpertSumAdd(op), inputs, ..node });
            return;
        }
    }

    fn norm_delta_net(&mut self, index: usize, node: Node) {
        let Op::DeltaNet(rule) = node.op else { return };
        let &[q, k, v, g, beta] = node.inputs.as_slice() else { return };
        let (Some((q_norm_at, q_norm, q)), Some((k_norm_at, k_norm, k))) = (self.lone_l2_norm(q), self.lone_l2_norm(k))
        else {
            return;
        };
        let (Some((q_at, q, row)), Some((k_at, k, k_row)), Some((v_at, v, v_row))) =
            (self.lone_slice(q), self.lone_slice(k), self.lone_slice(v))
        else {
            return;
        };
        let cols = self.graph.shape(row).cols;
        // Heads keep the alignment that they have in a value of their own.
        let fits = |slice: Slice| slice.width_in == cols && slice.offset.is_multiple_of(4) && cols.is_multiple_of(4);
        let are_of_heads = q_norm.width == rule.k_dim && k_norm.width == rule.k_dim;
        if k_row != row || v_row != row || !are_of_heads || ![q, k, v].into_iter().all(fits) {
            return;
        }
        let mut inputs = List::new(ValueId(0));
        let _has_room = [row, g, beta].into_iter().all(|input| inputs.push(input));
        for at in [q_norm_at, k_norm_at, q_at, k_at, v_at] {
            self.nodes[at] = None;
        }
        let op = Op::NormDeltaNet(NormDeltaNet { rule, q, k, v, q_norm, k_norm, then: None });
        self.nodes[index] = Some(Node { op, inputs, ..node });
    }

    fn delta_net_norm_glu(&mut self, index: usize, node: Node) {
        let Op::NormGlu(then) = node.op else { return };
        let (o, gate) = (node.inputs.as_slice()[0], node.inputs.as_slice()[1]);
        let Some((at, before)) = self.lone_writer(o) else { return };
        let Op::NormDeltaNet(op) = before.op else { return };
        if op.then.is_some() || then.norm.width != op.rule.v_dim {
            return;
        }
        let mut inputs = before.inputs;
        inputs.push(gate);
        self.nodes[at] = None;
        let op = Op::NormDeltaNet(NormDeltaNet { then: Some(then), ..op });
        self.nodes[index] = Some(Node { op, inputs, resource: before.resource, ..node });
    }

    fn expert_matmul_glu(&mut self, index: usize, node: Node) {
        let Op::Glu(glu) = node.op else { return };
        let (gate, up) = (node.inputs.as_slice()[0], node.inputs.as_slice()[1]);
        let Some((replaced, fused)) = self.experts_apart(gate, up, glu).or_else(|| self.experts_stacked(gate, up, glu))
        else {
            return;
        };
        for at in replaced {
            self.nodes[at] = None;
        }
        self.nodes[index] = Some(Node { outputs: node.outputs, ..fused });
    }

    /// Gate and up from products of their own: those nodes, and the fused one.
    fn experts_apart(&self, gate: ValueId, up: ValueId, glu: Glu) -> Option<(Vec<usize>, Node)> {
        let ((gate_at, gate), (up_at, up)) = (self.lone_writer(gate)?, self.lone_writer(up)?);
        let (Op::ExpertMatmul(product), true) = (gate.op, gate.op == up.op && gate.inputs == up.inputs) else {
            return None;
        };
        let (of_gate, of_up) = (gate.weights.as_slice(), up.weights.as_slice());
        if of_gate.len() != of_up.len() {
            return None;
        }
        let mut weights = List::new(WeightId(0));
        let mut pairs = of_gate.iter().zip(of_up).flat_map(|(gate, up)| [*gate, *up]);
        let op = Op::ExpertMatmulGlu(ExpertMatmulGlu { norm: None, product, glu, stacked: false });
        pairs.all(|w| weights.push(w)).then_some((vec![gate_at, up_at], Node { op, weights, ..gate }))
    }

    /// Gate and up as the halves of one product: the nodes that make them, and the fused one.
    fn experts_stacked(&self, gate: ValueId, up: ValueId, glu: Glu) -> Option<(Vec<usize>, Node)> {
        let ((gate_at, gate, both), (up_at, up, up_of)) = (self.lone_slice(gate)?, self.lone_slice(up)?);
        let at = self.writer[usize::from(both.0)]?;
        let before = self.nodes[at]?;
        let Op::ExpertMatmul(product) = before.op else { return None };
        let n_out = gate.width;
        let halves = Slice { width_in: product.n_out, width: n_out, offset: 0, offset_per_layer: 0 };
        let are_halves = gate == halves && up == Slice { offset: n_out, ..halves } && product.n_out == 2 * n_out;
        if up_of != both || self.n_readers[usize::from(both.0)] != 2 || !are_halves {
            return None;
        }
        let product = ExpertMatmul { n_out, ..product };
        let op = Op::ExpertMatmulGlu(ExpertMatmulGlu { norm: None, product, glu, stacked: true });
        Some((vec![at, gate_at, up_at], Node { op, ..before }))
    }

    fn slice_norm_rope(&mut self, index: usize, node: Node) {
        let Op::NormRope(op) = node.op else { return };
        let Some((at, slice, x)) = self.lone_slice(node.inputs.as_slice()[0]) else { return };
        if op.slice.is_some() || slice.width != op.rope.head_dim {
            return;
        }
        let mut inputs = node.inputs;
        inputs.as_mut_slice()[0] = x;
        self.nodes[at] = None;
        self.nodes[index] = Some(Node { op: Op::NormRope(NormRope { slice: Some(slice), ..op }), inputs, ..node });
    }

    /// Not for the halves of one product, which `expert_matmul_glu` may take.
    fn slice_glu(&mut self, index: usize, node: Node) {
        let Op::Glu(glu) = node.op else { return };
        let (gate, up) = (node.inputs.as_slice()[0], node.inputs.as_slice()[1]);
        let Some((at, slice, x)) = self.lone_slice(gate) else { return };
        if self.lone_slice(up).is_some_and(|(_, _, of)| of == x) {
            return;
        }
        let mut inputs = node.inputs;
        inputs.as_mut_slice()[0] = x;
        self.nodes[at] = None;
        self.nodes[index] = Some(Node { op: Op::SliceGlu(SliceGlu { slice, glu }), inputs, ..node });
    }

    /// Everything moves to the place of the attention, so nothing between may need what is written to the cache.
    fn rope_attention(&mut self, index: usize, node: Node) {
        let Op::Attention(attention) = node.op else { return };
        let Some((q_at, q)) = self.lone_writer(node.inputs.as_slice()[0]) else { return };
        let (slice, q_norm, rope) = match q.op {
            Op::Rope(rope) => (None, None, rope),
            Op::NormRope(NormRope { slice, norm, rope }) => (slice, Some(norm), rope),
            _ => return,
        };
        let shares_cache = |at: &usize| self.nodes[*at].is_some_and(|n| n.resource == node.resource);
        let Some(k_at) = (0..index).rev().find(shares_cache) else { return };
        let Some(Node { op: Op::RopeKvWrite(k), inputs: k_and_v, weights: k_weights, .. }) = self.nodes[k_at] else {
            return;
        };
        let n_norms = usize::from(q_norm.is_some());
        let (of_q, of_k) = (q.weights.as_slice(), k_weights.as_slice());
        // Frequency factors, if there are any, are the same.
        if (k.norm, k.rope) != (q_norm, rope) || of_q[n_norms..] != of_k[n_norms..] {
            return;
        }
        let mut inputs = q.inputs;
        let mut weights = List::new(WeightId(0));
        let all = of_q[..n_norms].iter().chain(of_k).chain(node.weights.as_slice());
        let has_room = k_and_v.as_slice().iter().all(|v| inputs.push(*v)) && { all }.all(|w| weights.push(*w));
        if !has_room {
            return;
        }
        let has_factors = of_q.len() > n_norms;
        let op = RopeAttention { slice, norm: q_norm, rope, has_factors, write: k.write, attention };
        self.nodes[q_at] = None;
        self.nodes[k_at] = None;
        self.nodes[index] = Some(Node { op: Op::RopeAttention(op), inputs, weights, ..node });
    }

    /// The `slice` that writes `value`, if only one reads it: its node, itself, and what it cuts.
    fn lone_slice(&self, value: ValueId) -> Option<(usize, Slice, ValueId)> {
        let (at, node) = self.lone_writer(value)?;
        let Op::Slice(slice) = node.op else { return None };
        (slice.offset_per_layer == 0).then_some((at, slice, node.inputs.as_slice()[0]))
    }

    /// The same for `l2_norm`.
    fn lone_l2_norm(&self, value: ValueId) -> Option<(usize, L2Norm, ValueId)> {
        let (at, node) = self.lone_writer(value)?;
        let Op::L2Norm(norm) = node.op else { return None };
        Some((at, norm, node.inputs.as_slice()[0]))
    }

    /// The node that writes `value`, if only one reads it.
    fn lone_writer(&self, value: ValueId) -> Option<(usize, Node)> {
        let at = self.writer[usize::from(value.0)]?;
        let node = self.nodes[at]?;
        (self.n_readers[usize::from(value.0)] == 1).then_some((at, node))
    }

    /// The `matmul` without bias that writes `value`, if nothing else reads it.
    fn lone_matmul(&self, value: ValueId) -> Option<(usize, Node)> {
        let (at, node) = self.lone_writer(value)?;
        let plain = matches!(node.op, Op::Matmul(_)) && node.weights.as_slice().len() == 1;
        plain.then_some((at, node))
    }
}

/// A product fused with the norm before it, or nothing for other nodes.
fn after_norm(norm: RmsNorm, before: Node, node: Node) -> Option<Node> {
    let op = match node.op {
        Op::Matmul(product) => Op::NormMatmul(NormMatmul { norm, product }),
        Op::MatmulGlu(glu) => Op::NormMatmulGlu(NormMatmulGlu { norm, glu }),
        Op::ExpertMatmulGlu(op) if op.norm.is_none() && op.product.n_parts == 1 => {
            Op::ExpertMatmulGlu(ExpertMatmulGlu { norm: Some(norm), ..op })
        }
        _ => return None,
    };
    let weights = joined(before.weights, &node)?;
    let mut inputs = node.inputs;
    inputs.as_mut_slice()[0] = before.inputs.as_slice()[0];
    Some(Node { op, inputs, weights, ..node })
}

/// The weights and then those of `node`, if a node has room for so many.
fn joined(mut weights: List<WeightId, 4>, node: &Node) -> Option<List<WeightId, 4>> {
    node.weights.as_slice().iter().all(|w| weights.push(*w)).then_some(weights)
}
