//! Rotary embedding, the cache of keys and values, attention.

use zinc_graph::backend::KvFormat;
use zinc_graph::ops::{Attention, KvWrite, Rope, RopeMode};
use zinc_graph::section::Node;

use super::{Recorder, THREADS};
use crate::commands::Dispatch;
use crate::error::Error;
use crate::params;

/// Threads of an attention workgroup; the kernel's registers hold a head of 512 columns from 64 on.
const ATTENTION_THREADS: u32 = 128;
/// Widest head that the attention kernel takes.
const HEAD_DIM_MAX: u32 = 512;

impl Recorder<'_> {
    pub(super) fn rope(&mut self, node: &Node, index: usize, op: &Rope) -> Result<Dispatch, Error> {
        let x = node.inputs.as_slice()[0];
        let cols = self.cols(x);
        let params = params::Rope {
            x: self.value(x),
            y: self.output(node, 0),
            frequencies: self.at.rope_tables[index].expect("compile makes a table for every rope node"),
            step: self.at.step,
            cols,
            head_dim: op.head_dim,
            n_rot: op.n_rot,
            magnitude: op.magnitude(),
        };
        let adjacent = u32::from(op.mode == RopeMode::Adjacent);
        self.launch(THREADS, &[adjacent], &params, [cols.div_ceil(THREADS), self.at.bucket.tokens, 1])
    }

    pub(super) fn kv_write(&mut self, node: &Node, op: KvWrite) -> Result<Dispatch, Error> {
        let (cache_k, cache_v) = self.resource(node.resource);
        let width = op.n_kv_heads * op.head_dim;
        let (k, v) = (self.input(node, 0), self.input(node, 1));
        let params = params::KvWrite { k, v, cache_k, cache_v, step: self.at.step, width };
        let groups = [width.div_ceil(THREADS), self.at.bucket.tokens, 1];
        self.launch(THREADS, &[self.half()], &params, groups)
    }

    pub(super) fn attention(&mut self, node: &Node, op: &Attention) -> Result<Dispatch, Error> {
        if op.head_dim > HEAD_DIM_MAX {
            return Err(Error::TooWide { op: node.op.name(), what: "head", n: op.head_dim, most: HEAD_DIM_MAX });
        }
        let (cache_k, cache_v) = self.resource(node.resource);
        let sinks = self.optional_weight(node, 0);
        let params = params::Attention {
            q: self.input(node, 0),
            cache_k,
            cache_v,
            sinks,
            y: self.output(node, 0),
            step: self.at.step,
            n_heads: op.n_heads,
            n_kv_heads: op.n_kv_heads,
            head_dim: op.head_dim,
            window: op.window,
            scale: op.scale,
            softcap: op.softcap,
        };
        let constants = [self.half(), u32::from(sinks != 0)];
        self.launch(ATTENTION_THREADS, &constants, &params, [op.n_heads, self.at.bucket.tokens, 1])
    }

    /// The kernels' constant HALF: whether keys and values have two bytes.
    fn half(&self) -> u32 {
        u32::from(self.at.kv_format == KvFormat::F16)
    }
}
