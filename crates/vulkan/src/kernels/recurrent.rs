//! Ops with a state per sequence, and the gates of the delta net.

use zinc_graph::ops::{Conv1d, DeltaNet};
use zinc_graph::section::Node;

use super::{Recorder, THREADS};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params;

/// Threads of a delta net's workgroup.
const DELTA_THREADS: u32 = 128;
/// Lanes that share a row of the state, if a subgroup has as many.
const DELTA_LANES: u32 = 16;
/// Rows of the state that those lanes hold.
const DELTA_ROWS: u32 = 4;

impl Recorder<'_> {
    pub(super) fn conv1d(&mut self, node: &Node, op: Conv1d) -> Result<Dispatch, Error> {
        let params = params::Conv1d {
            x: self.input(node, 0),
            taps: self.optional_weight(node, 0),
            state: self.resource(node.resource).0,
            y: self.output(node, 0),
            step: self.at.step,
            n_channels: op.n_channels,
        };
        let groups = [op.n_channels.div_ceil(THREADS), self.at.bucket.tokens, 1];
        self.launch(THREADS, &[op.n_taps, u32::from(op.silu)], &params, groups)
    }

    pub(super) fn delta_gates(&mut self, node: &Node) -> Result<Dispatch, Error> {
        let alpha = node.inputs.as_slice()[0];
        let (n_heads, rows) = (self.cols(alpha), self.rows(alpha));
        let params = params::DeltaGates {
            alpha: self.value(alpha),
            b: self.input(node, 1),
            a: self.optional_weight(node, 0),
            dt: self.optional_weight(node, 1),
            g: self.output(node, 0),
            beta: self.output(node, 1),
            step: self.at.step,
            n_heads,
            rows: rows.symbol,
        };
        self.launch(64, &[], &params, [n_heads.div_ceil(64), rows.most, 1])
    }

    pub(super) fn delta_net(&mut self, node: &Node, op: DeltaNet) -> Result<Dispatch, Error> {
        let params = params::DeltaNet {
            q: self.input(node, 0),
            k: self.input(node, 1),
            v: self.input(node, 2),
            g: self.input(node, 3),
            beta: self.input(node, 4),
            state: self.resource(node.resource).0,
            y: self.output(node, 0),
            step: self.at.step,
            n_k_heads: op.n_k_heads,
            n_v_heads: op.n_v_heads,
        };
        let lanes = DELTA_LANES.min(self.traits.subgroup_size);
        let rows = DELTA_THREADS / lanes * DELTA_ROWS;
        let groups = [op.v_dim.div_ceil(rows), op.n_v_heads, self.at.bucket.seqs];
        self.launch(DELTA_THREADS, &[lanes, DELTA_ROWS, op.k_dim, op.v_dim], &params, groups)
    }
}
