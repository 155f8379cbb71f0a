//! Which values are kept in f16: those that only matrix cores read.
//!
//! The matrix-matrix kernel rounds x to f16 in any case, once for every tile of rows. Rounded where it is made it gives the
//! same numbers, and half the bytes are read that often.

use zinc_graph::ops::Op;
use zinc_graph::section::{Node, ValueId};

use super::Recorder;

impl Recorder<'_> {
    /// For each value of the graph, whether its f16 is all that is read of it: its writer can round it, and matrix cores are its
    /// only readers.
    pub(super) fn find_rounded(&mut self) {
        let graph = self.at.graph;
        let mut rounded = vec![false; graph.values.len()];
        if self.tuning.matrix_side(self.traits).is_none() || self.at.keep_values {
            self.rounded = rounded;
            return;
        }
        for node in &graph.nodes {
            if let Some(output) = self.roundable_output(node) {
                rounded[usize::from(output.0)] = true;
            }
        }
        for node in &graph.nodes {
            let rounded_inputs = usize::from(self.reads_rounded(node));
            for id in &node.inputs.as_slice()[rounded_inputs..] {
                rounded[usize::from(id.0)] = false;
            }
        }
        for id in &graph.outputs {
            rounded[usize::from(id.0)] = false;
        }
        self.rounded = rounded;
    }

    /// The output of a node that its kernel can round.
    fn roundable_output(&self, node: &Node) -> Option<ValueId> {
        let outputs = node.outputs.as_slice();
        match node.op {
            Op::RmsNorm(_) | Op::NormGlu(_) | Op::Glu(_) | Op::SliceGlu(_) => Some(outputs[0]),
            Op::Attention(_) | Op::RopeAttention(_) => Some(outputs[0]),
            Op::AddRmsNorm(_) => Some(outputs[1]),
            Op::MatmulGlu(_) if self.is_many(node.inputs.as_slice()[0], node.weights.as_slice()) => Some(outputs[0]),
            _ => None,
        }
    }

    /// Whether a node takes its first input to matrix cores.
    fn reads_rounded(&self, node: &Node) -> bool {
        let Some(&x) = node.inputs.as_slice().first() else { return false };
        match node.op {
            // The first weight alone: behind it Matmul has its bias.
            Op::Matmul(_) | Op::MatmulAdd(_) => self.is_many(x, &node.weights.as_slice()[..1]),
            Op::MatmulGlu(_) => self.is_many(x, node.weights.as_slice()),
            Op::ExpertMatmul(_) => self.rows(x).most > self.tuning.expert_gemm_above,
            _ => false,
        }
    }

    /// Whether the value is kept in f16, as the kernels' constant ROUNDED.
    pub(super) fn is_rounded(&self, id: ValueId) -> u32 {
        u32::from(self.rounded[usize::from(id.0)])
    }
}
