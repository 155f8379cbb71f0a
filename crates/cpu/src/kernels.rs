//! From an op to a kernel of this crate, with its slices. The `match` is exhaustive, so an op
//! without an arm does not compile.

use zinc_graph::batch::{PageGroup, Places};
use zinc_graph::ops::{Activation as GraphActivation, Attention as GraphAttention, Op, RopeMode};
use zinc_graph::section::{Node, WeightId};
use zinc_graph::{Batch, Graph};

use crate::activation::Activation;
use crate::arena::Values;
use crate::attention::{Attention, KvPages, KvPagesMut, Queries, attention, kv_write};
use crate::backend::{State, Weight};
use crate::context::Context;
use crate::matmul::{Experts, Matrix, Product, Residual, expert_matmul, matmul_glu, products};
use crate::recurrent::{DeltaRows, conv1d, delta_gates, delta_net, l2_norm};
use crate::rope::{Pairs, rope};
use crate::rotation::Rotations;
use crate::rows::for_rows;
use crate::{elementwise, experts, norm};

/// One step in the making.
pub(crate) struct Step<'a> {
    pub(crate) ctx: &'a mut Context,
    pub(crate) graph: &'a Graph,
    pub(crate) values: Values<'a>,
    pub(crate) weights: &'a [Weight],
    pub(crate) states: &'a mut [State],
    pub(crate) groups: &'a [PageGroup],
    pub(crate) batch: &'a Batch,
    pub(crate) rotations: &'a Rotations,
}

impl<'a> Step<'a> {
    /// Runs the nodes of a phase. Products that share their input run as one.
    pub(crate) fn phase(&mut self, nodes: &[usize]) {
        let mut done = [0usize; 16];
        let mut n_done = 0;
        for (i, &index) in nodes.iter().enumerate() {
            let graph = self.graph;
            let node = &graph.nodes[index];
            if done[..n_done].contains(&index) {
                continue;
            }
            if !matches!(node.op, Op::Matmul(_)) {
                self.node(index);
                continue;
            }
            let input = node.inputs.as_slice()[0];
            let shares = |&&n: &&usize| {
                let other = &self.graph.nodes[n];
                matches!(other.op, Op::Matmul(_)) && other.inputs.as_slice()[0] == input
            };
            let group: Vec<usize> = nodes[i..].iter().filter(shares).take(done.len() - n_done).copied().collect();
            for &member in &group[1..] {
                done[n_done] = member;
                n_done += 1;
            }
            self.products(&group);
        }
    }

    fn products(&mut self, group: &[usize]) {
        let x = self.values.input(&self.graph.nodes[group[0]], 0);
        let mut all: Vec<Product<'a>> = group
            .iter()
            .map(|&index| {
                let node = &self.graph.nodes[index];
                let bias = node.weights.as_slice().get(1).map(|w| self.plain(*w));
                Product {
                    weights: self.matrix(node, 0),
                    bias,
                    residual: Residual::None,
                    y: self.values.output(node, 0),
                }
            })
            .collect();
        products(self.ctx, x, &mut all);
    }

    fn node(&mut self, index: usize) {
        let graph = self.graph;
        let node = &graph.nodes[index];
        match node.op {
            Op::Matmul(_) => self.products(&[index]),
            Op::MatmulAdd(_) => {
                let bias = node.weights.as_slice().get(1).map(|w| self.plain(*w));
                let (x, r, y) = (self.values.input(node, 0), self.values.input(node, 1), self.values.output(node, 0));
                let weights = self.matrix(node, 0);
                products(self.ctx, x, &mut [Product { weights, bias, residual: Residual::Of(r), y }]);
            }
            Op::MatmulGlu(glu) => {
                let (gate, up) = (self.matrix(node, 0), self.matrix(node, 1));
                let (x, y) = (self.values.input(node, 0), self.values.output(node, 0));
                matmul_glu(self.ctx, &gate, &up, activation(glu.activation), x, y);
            }
            Op::ExpertMatmul(op) => self.expert_matmul(node, op.n_used as usize),
            Op::KvWrite(_) | Op::Attention(_) | Op::Conv1d(_) | Op::DeltaNet(_) => self.with_state(node),
            Op::Router(op) => {
                let scale = node.weights.as_slice().first().map(|w| self.plain(*w));
                let (ids, weights) = (self.values.output(node, 0), self.values.output(node, 1));
                experts::router(op, self.values.input(node, 0), scale, ids, weights);
            }
            _ => self.rowwise(index, node),
        }
    }

    /// Ops that treat each row by itself and need no matrix.
    fn rowwise(&mut self, index: usize, node: &Node) {
        let values = &self.values;
        let first_input = node.inputs.as_slice().first();
        let x: &[f32] = first_input.map_or(&[], |_| values.input(node, 0));
        let y = values.output(node, 0);
        let cols = values.cols(node.outputs.as_slice()[0]);
        let weight = node.weights.as_slice().first();
        match node.op {
            Op::Embed(p) => elementwise::embed(self.ctx, &self.matrix(node, 0), &self.batch.ids, p.scale, y),
            Op::RmsNorm(p) => norm::rms_norm(self.ctx, x, weight.map(|w| self.plain(*w)), p.width as usize, p.eps, y),
            Op::AddRmsNorm(p) => {
                let w = weight.map_or(&[][..], |w| self.plain(*w));
                norm::add_rms_norm(self.ctx, x, values.input(node, 1), w, p.eps, y, values.output(node, 1));
            }
            Op::Rope(p) => {
                let pairs = if p.mode == RopeMode::HalfSplit { Pairs::HalfSplit } else { Pairs::Adjacent };
                let (cos, sin) = self.rotations.of_node(index);
                y.copy_from_slice(x);
                rope(self.ctx, y, self.batch.n_tokens(), p.head_dim as usize, pairs, cos, sin);
            }
            Op::Add => elementwise::add(x, values.input(node, 1), y),
            Op::Glu(p) => elementwise::glu(self.ctx, activation(p.activation), x, values.input(node, 1), y),
            Op::Softcap(p) => elementwise::softcap(self.ctx, p.cap, x, y),
            Op::Scale(p) => elementwise::scale(p.factor * weight.map_or(1.0, |w| self.plain(*w)[0]), x, y),
            Op::SelectRows => {
                for (y, &row) in y.chunks_exact_mut(cols).zip(&self.batch.output_rows) {
                    y.copy_from_slice(&x[row as usize * cols..][..cols]);
                }
            }
            Op::Argmax => self.argmax(x, y),
            Op::Slice(p) => {
                let (width_in, width, offset) = (p.width_in as usize, p.width as usize, p.offset as usize);
                for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width_in)) {
                    y.copy_from_slice(&x[offset..offset + width]);
                }
            }
            Op::L2Norm(p) => {
                let width = p.width as usize;
                for_rows(self.ctx, y, cols, |t, y| l2_norm(&x[t * cols..][..cols], width, p.eps, p.scale, y));
            }
            Op::DeltaGates => {
                let w = node.weights.as_slice();
                let (a, dt) = (self.plain(w[0]), self.plain(w[1]));
                delta_gates(x, values.input(node, 1), a, dt, y, values.output(node, 1));
            }
            Op::ExpertSum(p) => experts::expert_sum(self.ctx, x, values.input(node, 1), p.n_used as usize, cols, y),
            Op::GateRows => experts::gate_rows(self.ctx, x, values.input(node, 1), cols, y),
            Op::Matmul(_)
            | Op::MatmulAdd(_)
            | Op::MatmulGlu(_)
            | Op::ExpertMatmul(_)
            | Op::Router(_)
            | Op::KvWrite(_)
            | Op::Attention(_)
            | Op::Conv1d(_)
            | Op::DeltaNet(_) => {
                unreachable!("`node` has an arm for {}", node.op.name())
            }
            Op::NormMatmul(_)
            | Op::NormMatmulGlu(_)
            | Op::NormRope(_)
            | Op::NormGlu(_)
            | Op::ExpertSumAdd(_)
            | Op::RopeKvWrite(_)
            | Op::NormDeltaNet(_)
            | Op::ExpertMatmulGlu(_)
            | Op::SliceGlu(_)
            | Op::RopeAttention(_) => {
                unreachable!("{} is not in FUSIONS", node.op.name())
            }
        }
    }

    /// The index of the largest element, as bits.
    fn argmax(&mut self, x: &[f32], y: &mut [f32]) {
        let cols = x.len() / y.len().max(1);
        for_rows(self.ctx, y, 1, |row, y| {
            let mut best = [0u32];
            elementwise::argmax(&x[row * cols..][..cols], &mut best);
            y[0] = f32::from_bits(best[0]);
        });
    }

    fn expert_matmul(&mut self, node: &Node, n_used: usize) {
        let weight = &self.weights[usize::from(node.weights.as_slice()[0].0)];
        let [n_in, n_out, n_experts] = weight.shape.map(|n| n as usize);
        let all = Experts::new(weight.data.dtype, &weight.data.bytes, n_in, n_out, n_experts);
        let all = all.expect("weights are checked at load");
        let ids: Vec<u32> = self.values.input(node, 1).iter().map(|id| id.to_bits()).collect();
        let bias = node.weights.as_slice().get(1).map(|w| self.plain(*w));
        expert_matmul(self.ctx, &all, &ids, n_used, self.values.input(node, 0), bias, self.values.output(node, 0));
    }

    /// Ops that read or write a resource.
    fn with_state(&mut self, node: &Node) {
        let resource = node.resource.expect("the builder gives this op a resource");
        let values = &self.values;
        let places = self.batch.places(self.groups[usize::from(resource.0)]);
        let slots = places.kv_slots.as_slice();
        let sinks = node.weights.as_slice().first().and_then(|w| self.weights[usize::from(w.0)].plain.as_deref());
        match (node.op, &mut self.states[usize::from(resource.0)]) {
            (Op::Conv1d(op), State::Slots { data, .. }) => {
                let taps = self.weights[usize::from(node.weights.as_slice()[0].0)].plain.as_deref();
                let taps = taps.expect("the builder declares taps as plain");
                conv1d(self.ctx, op, self.batch, values.input(node, 0), taps, data, values.output(node, 0));
            }
            (Op::DeltaNet(op), State::Slots { data, .. }) => {
                let [q, k, v, g, beta] = [0, 1, 2, 3, 4].map(|i| values.input(node, i));
                delta_net(self.ctx, op, self.batch, DeltaRows { q, k, v, g, beta }, data, values.output(node, 0));
            }
            (Op::KvWrite(_), State::KvHalf { k, v }) => {
                kv_write(self.ctx, values.input(node, 0), slots, KvPagesMut::F16(k));
                kv_write(self.ctx, values.input(node, 1), slots, KvPagesMut::F16(v));
            }
            (Op::KvWrite(_), State::KvFull { k, v }) => {
                kv_write(self.ctx, values.input(node, 0), slots, KvPagesMut::F32(k));
                kv_write(self.ctx, values.input(node, 1), slots, KvPagesMut::F32(v));
            }
            (Op::KvWrite(_), State::KvBytes { k, v }) => {
                kv_write(self.ctx, values.input(node, 0), slots, KvPagesMut::Q8(k));
                kv_write(self.ctx, values.input(node, 1), slots, KvPagesMut::Q8(v));
            }
            (Op::Attention(op), State::KvBytes { k, v }) => {
                let pages = (KvPages::Q8(k), KvPages::Q8(v));
                attend(self.ctx, op, (self.batch, places), values.input(node, 0), sinks, pages, values.output(node, 0));
            }
            (Op::Attention(op), State::KvHalf { k, v }) => {
                let pages = (KvPages::F16(k), KvPages::F16(v));
                attend(self.ctx, op, (self.batch, places), values.input(node, 0), sinks, pages, values.output(node, 0));
            }
            (Op::Attention(op), State::KvFull { k, v }) => {
                let pages = (KvPages::F32(k), KvPages::F32(v));
                attend(self.ctx, op, (self.batch, places), values.input(node, 0), sinks, pages, values.output(node, 0));
            }
            _ => unreachable!("the builder gives {} a resource of its kind", node.op.name()),
        }
    }

    fn matrix(&self, node: &Node, i: usize) -> Matrix<'a> {
        let weight = &self.weights[usize::from(node.weights.as_slice()[i].0)];
        let [n_in, n_out, _] = weight.shape.map(|n| n as usize);
        Matrix::new(weight.data.dtype, &weight.data.bytes, n_in, n_out).expect("weights are checked at load")
    }

    fn plain(&self, id: WeightId) -> &'a [f32] {
        self.weights[usize::from(id.0)].plain.as_deref().expect("the builder declares this weight as plain")
    }
}

fn attend(
    ctx: &mut Context,
    op: GraphAttention,
    (batch, places): (&Batch, &Places),
    q: &[f32],
    sinks: Option<&[f32]>,
    (keys, values): (KvPages<'_>, KvPages<'_>),
    out: &mut [f32],
) {
    let shape = Attention {
        n_heads: op.n_heads as usize,
        n_kv_heads: op.n_kv_heads as usize,
        head_dim: op.head_dim as usize,
        scale: op.scale,
        window: op.window as usize,
        softcap: op.softcap,
    };
    let queries = Queries {
        q,
        positions: &batch.positions,
        seq_idx: &batch.seq_idx,
        block_tables: &places.block_tables,
        pages_max: batch.pages_max as usize,
        sinks,
    };
    attention(ctx, &shape, &queries, keys, values, out);
}

fn activation(activation: GraphActivation) -> Activation {
    match activation {
        GraphActivation::Silu => Activation::Silu,
        GraphActivation::GeluTanh => Activation::GeluTanh,
        GraphActivation::Sigmoid => Activation::Sigmoid,
        GraphActivation::Clamped { alpha, limit } => Activation::Clamped { alpha, limit },
    }
}
