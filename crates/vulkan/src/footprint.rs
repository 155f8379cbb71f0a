//! What a model takes of a device's memory, before a device is opened.
//!
//! Weights and values are laid out as loading and compiling lay them out. What kernels keep between launches depends on the
//! device in part; it is counted as the device that asks for most would have it.

use std::iter;

use zinc_graph::footprint::{Footprint, plan_tokens};
use zinc_graph::ops::{NormDeltaNet, Op};
use zinc_graph::section::Node;
use zinc_graph::{Graph, fuse};

use crate::arena::Layout;
use crate::backend::FUSIONS;
use crate::kernels::attention::SPLITS_MAX;
use crate::kernels::recurrent::factor_bytes;
use crate::kernels::rows::{ARGMAX_COLUMNS, ARGMAX_PARTS_MAX};
use crate::kernels::tiles::slices_bytes_max;
use crate::memory::TENSOR_ALIGN;
use crate::scratch::BLOCK_BYTES;
use crate::step;
use crate::tuning::{ATTENTION_WORKGROUPS_MAX, DELTA_CHUNK_ABOVE, DELTA_CHUNK_TOKENS_MAX};
use crate::weights::values_bytes;

/// Frequency tables of a plan and what drivers round up. 5 kB were counted on lavapipe.
const SMALL_BYTES: u64 = 64 << 10;

/// Products side by side, whose sums do not share memory, at most: those before a delta net.
const PRODUCTS_AT_ONCE: usize = 4;

/// What `graph`, as the model declares it, takes with weights of these sizes in bytes, when steps have up to
/// `step_tokens` tokens and `n_slots` sequences may run: a plan for each size of step, as loading counts them.
#[must_use]
pub fn footprint(graph: &Graph, sizes: &[u64], step_tokens: u32, n_slots: u32) -> Footprint {
    let fused = fuse(graph, FUSIONS);
    let mut footprint = Footprint {
        weights_bytes: Layout::new(sizes, u64::MAX).bytes(),
        workspace_bytes: 0,
        workspace_bytes_per_page: 0,
        window_bytes: 0,
        window_bytes_per_page: 0,
    };
    for tokens in plan_tokens(step_tokens) {
        let rows = u64::from(tokens);
        let view_bytes = step::bytes(tokens, 0).next_multiple_of(TENSOR_ALIGN);
        let view_bytes_per_page = 4 * u64::from(tokens.min(n_slots).max(1));
        footprint.workspace_bytes += values_bytes(&fused, tokens, n_slots)
            + scratch_bytes(&fused, tokens, tokens.min(n_slots.max(1)))
            + view_bytes
            // Greedy tokens on their way to the host.
            + (4 * rows).next_multiple_of(TENSOR_ALIGN)
            + SMALL_BYTES;
        footprint.workspace_bytes_per_page += view_bytes_per_page;
        if fused.window().is_some() {
            footprint.window_bytes += view_bytes;
            footprint.window_bytes_per_page += view_bytes_per_page;
        }
    }
    footprint
}

/// Blocks of memory between launches that a plan takes.
fn scratch_bytes(graph: &Graph, tokens: u32, outputs: u32) -> u64 {
    let (mut total, mut left) = (0, 0u64);
    let mut take = |bytes: u64| {
        let bytes = bytes.next_multiple_of(TENSOR_ALIGN);
        if bytes > left {
            let block = bytes.max(BLOCK_BYTES);
            total += block;
            left = block;
        }
        left -= bytes;
    };
    let rows = u64::from(tokens);
    // One after another, delta nets use the same, and so do products.
    let (mut delta_factors, mut products) = (0, [0; PRODUCTS_AT_ONCE]);
    for node in &graph.nodes {
        let (parts, counters) = slices_bytes(graph, node, tokens);
        if parts > 0 {
            take(counters);
            // The largest ones, the least of them first.
            products[0] = products[0].max(parts);
            products.sort_unstable();
        }
        match node.op {
            Op::DeltaNet(rule) | Op::NormDeltaNet(NormDeltaNet { rule, .. }) if tokens > DELTA_CHUNK_ABOVE => {
                delta_factors = delta_factors.max(factor_bytes(tokens, rule.n_v_heads, DELTA_CHUNK_TOKENS_MAX));
            }
            Op::Attention(op) => {
                // All heads of a key head in one workgroup leave the most splits.
                let splits = (ATTENTION_WORKGROUPS_MAX / (op.n_kv_heads * tokens)).clamp(1, SPLITS_MAX);
                if splits > 1 {
                    take(4 * rows * u64::from(op.n_heads) * u64::from(splits) * u64::from(op.head_dim + 2));
                    take(4 * rows * u64::from(op.n_heads));
                }
            }
            Op::Router(op) => {
                let n_slots = rows * u64::from(op.n_used);
                take(4 * (1 + 3 * (n_slots + u64::from(op.n_experts)) + n_slots));
            }
            Op::Argmax => {
                let cols = node.inputs.as_slice().first().map_or(1, |&id| graph.shape(id).cols);
                let parts = cols.div_ceil(ARGMAX_COLUMNS).clamp(1, ARGMAX_PARTS_MAX);
                if parts > 1 {
                    take(8 * u64::from(outputs) * u64::from(parts));
                    take(4 * u64::from(outputs));
                }
            }
            _ => {}
        }
    }
    let passing = iter::once(delta_factors).chain(products);
    passing.filter(|&bytes| bytes > 0).for_each(take);
    total
}

/// Bytes that a product leaves behind where its columns are cut into slices, of sums and of counters.
fn slices_bytes(graph: &Graph, node: &Node, tokens: u32) -> (u64, u64) {
    let matrices = match node.op {
        Op::Matmul(_) | Op::MatmulAdd(_) => 1,
        Op::MatmulGlu(_) => 2,
        _ => return (0, 0),
    };
    let Some(&y) = node.outputs.as_slice().first() else { return (0, 0) };
    slices_bytes_max(graph.shape(y).cols * matrices, tokens)
}
