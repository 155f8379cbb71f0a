//! Ops with a state per sequence, and the gates of the delta net.

use zinc_graph::ops::{Conv1d, DeltaNet, NormDeltaNet, Slice};
use zinc_graph::section::Node;

use super::{Launch, Recorder, THREADS, activation_words};
use crate::device::Traits;
use crate::error::Error;
use crate::params;
use crate::tuning::DeltaChunk;

/// Threads of a delta net's workgroup.
const DELTA_THREADS: u32 = 128;
/// Lanes that share a row of the state, if a subgroup has as many.
const DELTA_LANES: u32 = 16;
/// Rows of the state that those lanes hold; more where one workgroup has a head to itself and would grow too large.
const DELTA_ROWS: u32 = 4;
/// Threads of such a workgroup, at most.
const DELTA_THREADS_MAX: u32 = 512;
/// Bytes of shared memory that kernels have for reductions.
const SHARED_LEAVE: u32 = 1024;

impl Recorder<'_> {
    pub(super) fn conv1d(&mut self, node: &Node, op: Conv1d) -> Result<Launch, Error> {
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

    pub(super) fn delta_gates(&mut self, node: &Node) -> Result<Launch, Error> {
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

    pub(super) fn delta_net(&mut self, node: &Node, op: DeltaNet) -> Result<Vec<Vec<Launch>>, Error> {
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

    pub(super) fn norm_delta_net(&mut self, node: &Node, p: &NormDeltaNet) -> Result<Vec<Vec<Launch>>, Error> {
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

    /// Token by token, and sequences with many tokens in the step by chunks. `constants` are NORM, GLU and ACTIVATION.
    fn launch_delta(
        &mut self,
        op: DeltaNet,
        params: &params::DeltaNet,
        constants: [u32; 3],
    ) -> Result<Vec<Vec<Launch>>, Error> {
        let few = self.tuning.delta_chunk_above;
        // Steps of so few tokens that the gate is taken along have no chunks.
        if constants[1] == 1 || self.at.bucket.tokens <= few {
            return Ok(vec![vec![self.delta_tokens(op, params, constants, u32::MAX)?]]);
        }
        let single = self.delta_tokens(op, params, constants, few)?;
        let [factors, chunks] = self.delta_chunks(op, params, constants[0], few)?;
        Ok(vec![vec![factors, single], vec![chunks]])
    }

    fn delta_tokens(
        &mut self,
        op: DeltaNet,
        params: &params::DeltaNet,
        [norm, glu, activation]: [u32; 3],
        most: u32,
    ) -> Result<Launch, Error> {
        let lanes = DELTA_LANES.min(self.traits.subgroup_size);
        let (mut threads, mut rows) = (DELTA_THREADS, DELTA_ROWS);
        if glu == 1 {
            let of = |rows| (op.v_dim.div_ceil(rows) * lanes).next_multiple_of(self.traits.subgroup_size);
            while of(rows) > DELTA_THREADS_MAX {
                rows *= 2;
            }
            threads = of(rows);
        }
        let groups = [op.v_dim.div_ceil(threads / lanes * rows), op.n_v_heads, self.at.bucket.seqs];
        let constants = [lanes, rows, op.k_dim, op.v_dim, norm, glu, activation, most];
        self.launch(threads, &constants, params, groups)
    }

    /// What has no part of the state, of all chunks at once; and then the state through the chunks.
    fn delta_chunks(
        &mut self,
        op: DeltaNet,
        params: &params::DeltaNet,
        norm: u32,
        few: u32,
    ) -> Result<[Launch; 2], Error> {
        let cut = Cut::new(self.tuning.delta_chunk, op, self.traits);
        let tokens = self.at.bucket.tokens;
        let seqs = self.at.bucket.seqs.min(tokens / (few + 1));
        let factors = self.scratch.reserve_for_phase(factor_bytes(tokens, op.n_v_heads, cut.tokens))?;
        let of_factors = params::DeltaFactors {
            q: params.q,
            k: params.k,
            g: params.g,
            beta: params.beta,
            factors,
            step: params.step,
            n_k_heads: op.n_k_heads,
            n_v_heads: op.n_v_heads,
            key_stride: params.key_stride,
            q_eps: params.q_eps,
            k_eps: params.k_eps,
            q_scale: params.q_scale,
            k_scale: params.k_scale,
        };
        let of_chunks = params::DeltaChunks {
            q: params.q,
            k: params.k,
            v: params.v,
            factors,
            state: params.state,
            y: params.y,
            step: params.step,
            n_k_heads: op.n_k_heads,
            n_v_heads: op.n_v_heads,
            key_stride: params.key_stride,
            value_stride: params.value_stride,
        };
        let threads = (cut.tokens / 2 * (cut.tokens + 3)).next_multiple_of(64);
        // Each sequence that is taken may have one chunk that is not full.
        let groups = [tokens / cut.tokens + seqs, op.n_v_heads, 1];
        let first = self.launch(threads, &[cut.tokens, few, op.k_dim, norm], &of_factors, groups)?;
        let constants = [cut.lanes, cut.rows, cut.tokens, cut.buffers, few, op.k_dim, op.v_dim];
        let groups = [op.v_dim.div_ceil(cut.threads / cut.lanes * cut.rows), op.n_v_heads, seqs];
        Ok([first, self.launch(cut.threads, &constants, &of_chunks, groups)?])
    }
}

/// Bytes of what is known of every token and head before the state is.
pub(crate) fn factor_bytes(tokens: u32, n_heads: u32, chunk: u32) -> u64 {
    4 * u64::from(tokens) * u64::from(n_heads) * u64::from(2 * chunk + 4)
}

/// How an op is cut on a device.
struct Cut {
    tokens: u32,
    lanes: u32,
    rows: u32,
    threads: u32,
    buffers: u32,
}

impl Cut {
    /// As the tuning table has it, as far as the op and the device allow.
    fn new(wanted: DeltaChunk, op: DeltaNet, traits: &Traits) -> Cut {
        let width = traits.subgroup_size;
        let lanes = wanted.lanes.min(width).min((op.k_dim / 4).next_power_of_two()).max(2);
        let rows = wanted.rows.min(lanes / 2);
        // Room for keys and queries, what is known of the tokens, and products of pairs or of rows.
        let bytes = |tokens: u32, buffers: u32| {
            let of_rows = 2 * wanted.threads.max(width) / lanes * rows;
            4 * tokens * (buffers * (2 * op.k_dim + 2 * tokens + 8) + of_rows.max(2 * tokens + 6)) + SHARED_LEAVE
        };
        let tokens =
            [16, 8].into_iter().find(|&n| n <= wanted.tokens && bytes(n, 1) <= traits.shared_bytes).unwrap_or(4);
        let buffers = if bytes(tokens, 2) <= traits.shared_bytes { 2 } else { 1 };
        let lanes = lanes.min(2 * rows * tokens);
        let threads = wanted.threads.min(op.v_dim.div_ceil(rows) * lanes).next_multiple_of(width);
        Cut { tokens, lanes, rows, threads, buffers }
    }
}
