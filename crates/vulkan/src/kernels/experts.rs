//! Mixtures of experts: the choice, and the sum of what the chosen gave. Their products are in `matmul`.

use zinc_graph::ops::Router;
use zinc_graph::section::Node;

use super::{Recorder, THREADS};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params;

impl Recorder<'_> {
    pub(super) fn router(&mut self, node: &Node, op: Router) -> Result<Dispatch, Error> {
        let logits = node.inputs.as_slice()[0];
        let scale = self.optional_weight(node, 0);
        let rows = self.rows(logits);
        let params = params::Router {
            logits: self.value(logits),
            scale,
            ids: self.output(node, 0),
            weights: self.output(node, 1),
            step: self.at.step,
            n_experts: op.n_experts,
            n_used: op.n_used,
            rows: rows.symbol,
        };
        let threads = op.n_experts.next_multiple_of(64).min(THREADS);
        self.launch(threads, &[u32::from(scale != 0)], &params, [1, rows.most, 1])
    }

    pub(super) fn expert_sum(&mut self, node: &Node, n_used: u32) -> Result<Dispatch, Error> {
        let y = node.outputs.as_slice()[0];
        let (width, rows) = (self.cols(y), self.rows(y));
        let params = params::ExpertSum {
            x: self.input(node, 0),
            weights: self.input(node, 1),
            y: self.value(y),
            step: self.at.step,
            width,
            n_used,
            rows: rows.symbol,
        };
        self.launch(THREADS, &[], &params, [width.div_ceil(THREADS), rows.most, 1])
    }
}
