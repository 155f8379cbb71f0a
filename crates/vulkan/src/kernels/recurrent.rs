//! Ops with a state per sequence, and the gates of the delta net.

use zinc_graph::ops::{Conv1d, DeltaNet, NormDeltaNet, Slice};
use zinc_graph::section::Node;

use super::{Recorder, THREADS, activation_words};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params;

/// Threads of a delta net's workgroup.
const DELTA_THREADS: u32 = 128;
/// Lanes that share a row of the state, if a subgroup has as many.
const DELTA_LANES: u32 = 16;
/// Rows of the state that those lanes hold; more where one workgroup has a head to itself and would grow too large.
const DELTA_ROWS: u32 = 4;
/// Threads of such a workgroup, at most.
const DELTA_THREADS_MAX: u32 = 512;

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
            norm: 0,
            gate: 0,
            step: self.at.step,
            n_k_heads: op.n_k_heads,
            n_v_heads: op.n_v_heads,
            key_stride: op.n_k_heads * op.k_dim,
            value_stride: op.n_v_heads * op.v_dim,
            q_eps: 0.0,
            k_eps: 0.0,
            q_scale: 1.0,
            k_scale: 1.0,
            eps: 0.0,
            alpha: 0.0,
            limit: 0.0,
        };
        self.launch_delta(op, &params, [0, 0, 0])
    }

    pub(super) fn norm_delta_net(&mut self, node: &Node, p: &NormDeltaNet) -> Result<Dispatch, Error> {
        let op = p.rule;
        let row = self.input(node, 0);
        let at = |slice: Slice| row + 4 * u64::from(slice.offset);
        let stride = self.cols(node.inputs.as_slice()[0]);
        let (activation, alpha, limit) = p.then.map_or((0, 0.0, 0.0), |then| activation_words(then.glu.activation));
        let params = params::DeltaNet {
            q: at(p.q),
            k: at(p.k),
            v: at(p.v),
            g: self.input(node, 1),
            beta: self.input(node, 2),
            state: self.resource(node.resource).0,
            y: self.output(node, 0),
            norm: self.optional_weight(node, 0),
            gate: if p.then.is_some() { self.input(node, 3) } else { 0 },
            step: self.at.step,
            n_k_heads: op.n_k_heads,
            n_v_heads: op.n_v_heads,
            key_stride: stride,
            value_stride: stride,
            q_eps: p.q_norm.eps,
            k_eps: p.k_norm.eps,
            q_scale: p.q_norm.scale,
            k_scale: p.k_norm.scale,
            eps: p.then.map_or(0.0, |then| then.norm.eps),
            alpha,
            limit,
        };
        self.launch_delta(op, &params, [1, u32::from(p.then.is_some()), activation])
    }

    /// `constants` are NORM, GLU and ACTIVATION.
    fn launch_delta(
        &mut self,
        op: DeltaNet,
        params: &params::DeltaNet,
        constants: [u32; 3],
    ) -> Result<Dispatch, Error> {
        let lanes = DELTA_LANES.min(self.traits.subgroup_size);
        let (mut threads, mut rows) = (DELTA_THREADS, DELTA_ROWS);
        if constants[1] == 1 {
            let of = |rows| (op.v_dim.div_ceil(rows) * lanes).next_multiple_of(self.traits.subgroup_size);
            while of(rows) > DELTA_THREADS_MAX {
                rows *= 2;
            }
            threads = of(rows);
        }
        let groups = [op.v_dim.div_ceil(threads / lanes * rows), op.n_v_heads, self.at.bucket.seqs];
        let [norm, glu, activation] = constants;
        let constants = [lanes, rows, op.k_dim, op.v_dim, norm, glu, activation];
        self.launch(threads, &constants, params, groups)
    }
}
