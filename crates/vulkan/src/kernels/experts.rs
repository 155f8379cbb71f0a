//! Mixtures of experts: the choice, and the sum of what the chosen gave. Their products are in `matmul`.

use zinc_graph::ops::Router;
use zinc_graph::section::Node;

use super::matmul::Groups;
use super::{Launch, Recorder, THREADS};
use crate::error::Error;
use crate::params;

impl Recorder<'_> {
    /// The choice; and for many tokens the slots sorted by expert, for the products that follow.
    pub(super) fn router(&mut self, node: &Node, op: Router) -> Result<Vec<Vec<Launch>>, Error> {
        let choice = self.choice(node, op)?;
        let rows = self.rows(node.inputs.as_slice()[0]);
        if rows.most <= self.tuning.expert_gemm_above {
            return Ok(vec![vec![choice]]);
        }
        let n_slots = rows.most.saturating_mul(op.n_used);
        let tokens = self.expert_tile_tokens(n_slots, op.n_experts);
        let tiles_max = n_slots.div_ceil(tokens) + op.n_experts.min(n_slots);
        let list_at = 1 + 3 * tiles_max;
        let address = self.scratch.reserve(4 * (u64::from(list_at) + u64::from(n_slots)))?;
        let ids = node.outputs.as_slice()[0];
        self.groups.insert(ids, Groups { address, list_at, tiles_max, tokens });
        let params = params::ExpertGroups {
            ids: self.value(ids),
            groups: address,
            step: self.at.step,
            n_experts: op.n_experts,
            n_used: op.n_used,
            rows: rows.symbol,
            list_at,
        };
        let sorted = self.launch(THREADS, &[tokens], &params, [1, 1, 1])?;
        Ok(vec![vec![choice], vec![sorted]])
    }

    fn choice(&mut self, node: &Node, op: Router) -> Result<Launch, Error> {
        let logits = node.inputs.as_slice()[0];
        let scale = self.optional_weight(node, 0);
        let rows = self.rows(logits);
        let params = params::Router {
            logits: self.value(logits),
            scale,
            ids: self.output(node, 0),
            weights: self.output(node, 1),
            step: self.at.step,
            n_used: op.n_used,
            rows: rows.symbol,
        };
        let constants = [u32::from(scale != 0), op.n_experts];
        self.launch(self.traits.subgroup_size, &constants, &params, [1, rows.most, 1])
    }

    pub(super) fn expert_sum(&mut self, node: &Node, n_used: u32) -> Result<Launch, Error> {
        let y = node.outputs.as_slice()[0];
        let (width, rows) = (self.cols(y), self.rows(y));
        let more = &node.inputs.as_slice()[2..];
        let added = |i: usize| more.get(i).map_or(0, |id| self.value(*id));
        let n_added = u32::try_from(more.len()).unwrap_or(u32::MAX);
        let params = params::ExpertSum {
            x: self.input(node, 0),
            weights: self.input(node, 1),
            a: added(0),
            b: added(1),
            y: self.value(y),
            step: self.at.step,
            width,
            n_used,
            rows: rows.symbol,
        };
        self.launch(THREADS, &[n_added], &params, [width.div_ceil(THREADS), rows.most, 1])
    }
}
