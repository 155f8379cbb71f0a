//! From a graph to memory and phases.
//!
//! Nodes are put into phases: a node's phase comes after those of everything it depends on, so the
//! nodes of a phase are independent and a GPU needs one barrier between phases. Values whose
//! lifetimes (in phases) do not overlap share memory. Sizes are those of the plan's bucket.

use crate::backend::PlanOptions;
use crate::graph::Graph;
use crate::ops::Op;
use crate::section::ValueId;

/// Alignment of every value, in bytes.
pub const VALUE_ALIGN: usize = 256;

/// Where everything of one bucket lies and in which order it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Byte offset of each value in the arena; values that nothing writes have none.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Node indices by phase.
    pub phases: Vec<Vec<usize>>,
}

impl Plan {
    /// Plans a validated graph.
    #[must_use]
    pub fn new(graph: &Graph, options: &PlanOptions) -> Plan {
        let phase_of = phases(graph);
        let n_phases = phase_of.iter().map(|p| p + 1).max().unwrap_or(0);
        let mut by_phase = vec![Vec::new(); n_phases];
        for (node, &phase) in phase_of.iter().enumerate() {
            by_phase[phase].push(node);
        }
        let (offsets, arena_bytes) = place(graph, &phase_of, n_phases, options);
        Plan { offsets, arena_bytes, phases: by_phase }
    }
}

/// Phase of each node: one more than the latest node it depends on.
fn phases(graph: &Graph) -> Vec<usize> {
    let mut phase_of_value = vec![0usize; graph.values.len()];
    // The next phase that may read or write each resource.
    let mut after_write = vec![0usize; graph.resources.len()];
    let mut after_read = vec![0usize; graph.resources.len()];
    let mut phase_of_node = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs = node.inputs.as_slice().iter().map(|id| phase_of_value[usize::from(id.0)]);
        let mut phase = inputs.max().unwrap_or(0);
        if let Some(resource) = node.resource {
            let r = usize::from(resource.0);
            if writes_resource(&node.op) {
                phase = phase.max(after_write[r]).max(after_read[r]);
                after_write[r] = phase + 1;
            } else {
                phase = phase.max(after_write[r]);
                after_read[r] = after_read[r].max(phase + 1);
            }
        }
        for id in node.outputs.as_slice() {
            phase_of_value[usize::from(id.0)] = phase + 1;
        }
        phase_of_node.push(phase);
    }
    phase_of_node
}

/// Attention only reads; everything else that names a resource changes it, and ops with a
/// recurrent state read it as well.
fn writes_resource(op: &Op) -> bool {
    !matches!(op, Op::Attention(_))
}

/// First-fit placement by lifetime; returns offsets and the arena's size.
fn place(graph: &Graph, phase_of: &[usize], n_phases: usize, options: &PlanOptions) -> (Vec<Option<usize>>, usize) {
    let lifetimes = lifetimes(graph, phase_of, n_phases);
    let mut order: Vec<usize> = (0..graph.values.len()).filter(|&v| lifetimes[v].is_some()).collect();
    order.sort_by_key(|&v| lifetimes[v].map(|(from, _)| from));
    let mut offsets = vec![None; graph.values.len()];
    let mut live: Vec<(usize, usize, usize)> = Vec::new(); // offset, end, last phase
    let mut arena = 0;
    for value in order {
        let Some((from, to)) = lifetimes[value] else { continue };
        if !options.keep_values {
            live.retain(|&(_, _, last)| last >= from);
        }
        live.sort_unstable();
        let id = ValueId(u16::try_from(value).expect("a graph has at most 65,535 values"));
        let rows = graph.rows(id, options.bucket.tokens as usize, options.bucket.outputs as usize);
        let bytes = (rows * graph.shape(id).row_bytes()).next_multiple_of(VALUE_ALIGN);
        let mut offset = 0;
        for &(start, end, _) in &live {
            if offset + bytes <= start {
                break;
            }
            offset = offset.max(end);
        }
        live.push((offset, offset + bytes, to));
        arena = arena.max(offset + bytes);
        offsets[value] = Some(offset);
    }
    (offsets, arena)
}

/// First and last phase of each value; inputs live from the start, outputs to the end.
fn lifetimes(graph: &Graph, phase_of: &[usize], n_phases: usize) -> Vec<Option<(usize, usize)>> {
    let mut lifetimes: Vec<Option<(usize, usize)>> = vec![None; graph.values.len()];
    for id in &graph.inputs {
        lifetimes[usize::from(id.0)] = Some((0, 0));
    }
    for (node, &phase) in graph.nodes.iter().zip(phase_of) {
        for id in node.outputs.as_slice() {
            lifetimes[usize::from(id.0)] = Some((phase, phase));
        }
        for id in node.inputs.as_slice() {
            if let Some((_, last)) = &mut lifetimes[usize::from(id.0)] {
                *last = (*last).max(phase);
            }
        }
    }
    for id in &graph.outputs {
        if let Some((_, last)) = &mut lifetimes[usize::from(id.0)] {
            *last = n_phases;
        }
    }
    lifetimes
}
