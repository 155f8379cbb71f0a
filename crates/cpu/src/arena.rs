//! The activations of a step: one block of memory that the plan divides.

use zinc_graph::section::{Node, ValueId};
use zinc_graph::{Batch, Graph, Plan};

/// The block of memory; plans of one backend share it, as one step runs at a time.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    lines: Vec<Line>,
}

/// Keeps values aligned to cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "memory that values address by pointer")] [f32; 16]);

impl Arena {
    /// Grows to `bytes`.
    pub(crate) fn grow(&mut self, bytes: usize) {
        let n = bytes.div_ceil(size_of::<Line>());
        if n > self.lines.len() {
            // Not a byte more: the fit counts them.
            self.lines.reserve_exact(n - self.lines.len());
            self.lines.resize(n, Line([0.0; 16]));
        }
    }

    /// The values of a plan for a batch.
    pub(crate) fn values<'a>(&'a mut self, graph: &'a Graph, plan: &'a Plan, batch: &Batch) -> Values<'a> {
        assert!(plan.arena_bytes <= self.lines.len() * size_of::<Line>(), "the arena grew when the plan was made");
        let base = self.lines.as_mut_ptr().cast();
        Values { base, graph, plan, n_tokens: batch.n_tokens(), n_outputs: batch.n_outputs() }
    }

    /// `len` f32 from byte `offset`.
    pub(crate) fn bytes_at(&mut self, offset: usize, len: usize) -> &mut [f32] {
        assert!(offset + len * 4 <= self.lines.len() * size_of::<Line>(), "inside the arena");
        // SAFETY: inside the allocation, aligned to four bytes by the plan, and borrowed mutably through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<u8>().add(offset).cast(), len) }
    }
}

/// The values of one step.
pub(crate) struct Values<'a> {
    base: *mut u8,
    graph: &'a Graph,
    plan: &'a Plan,
    n_tokens: usize,
    n_outputs: usize,
}

impl<'a> Values<'a> {
    /// Input `i` of a node, `[rows][cols]`.
    pub(crate) fn input(&self, node: &Node, i: usize) -> &'a [f32] {
        let (at, len) = self.place(node.inputs.as_slice()[i]);
        // SAFETY: the plan keeps the value's memory from its writer to its last reader, inside the
        // arena, and no node writes what it reads.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Output `i` of a node, `[rows][cols]`: disjoint from all that is read meanwhile, by the plan's promise.
    pub(crate) fn output(&self, node: &Node, i: usize) -> &'a mut [f32] {
        let (at, len) = self.place(node.outputs.as_slice()[i]);
        // SAFETY: as for inputs; each output is taken once, by the node that writes it.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }

    /// Columns of a value.
    pub(crate) fn cols(&self, id: ValueId) -> usize {
        self.graph.shape(id).cols as usize
    }

    fn place(&self, id: ValueId) -> (*mut f32, usize) {
        let offset = self.plan.offsets[usize::from(id.0)].expect("the plan places every value that a node names");
        let rows = self.graph.rows(id, self.n_tokens, self.n_outputs);
        // SAFETY: the offset lies inside the arena.
        (unsafe { self.base.add(offset) }.cast(), rows * self.cols(id))
    }
}
