//! What a model takes of a device's memory besides its state.
//!
//! A backend computes it from a graph before anything is loaded, by the same layout and the same plans that it loads and
//! compiles with; the engine adds the state and holds the sum against what there is.

use crate::Graph;
use crate::backend::StateSizes;
use crate::graph::{GraphResource, GraphValue, GraphWeight};
use crate::section::{Node, ValueId};

/// Bytes on a device that do not depend on the length of the context, and those of a page that are not its keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The weights as they lie on the device.
    pub weights_bytes: u64,
    /// Values of steps, what kernels keep between launches, and the plans themselves.
    pub workspace_bytes: u64,
    /// Entries of block tables for each page of the pool.
    pub workspace_bytes_per_page: u64,
    /// What is added where layers with a window have pages of their own: a second set of places, and its block tables'
    /// entries for each page of the pool.
    pub window_bytes: u64,
    /// As above.
    pub window_bytes_per_page: u64,
}

impl Footprint {
    /// The workspace for a state of these sizes.
    #[must_use]
    pub fn workspace_bytes(&self, state: &StateSizes) -> u64 {
        let with = |bytes: u64, per_page: u64| bytes.saturating_add(per_page.saturating_mul(u64::from(state.n_pages)));
        let usual = with(self.workspace_bytes, self.workspace_bytes_per_page);
        match state.n_window_pages {
            0 => usual,
            _ => usual.saturating_add(with(self.window_bytes, self.window_bytes_per_page)),
        }
    }
}

/// Tokens of the plans for steps of up to `step_tokens`: powers of two, and that number.
pub fn plan_tokens(step_tokens: u32) -> impl Iterator<Item = u32> {
    let powers = (0..u32::BITS).map(|bit| 1u32 << bit).take_while(move |&tokens| tokens < step_tokens);
    powers.chain((step_tokens > 0).then_some(step_tokens))
}

/// Bytes that a graph takes of the host's memory: a plan holds one.
#[must_use]
pub fn graph_bytes(graph: &Graph) -> u64 {
    let names: usize = graph.values.iter().map(|value| value.name.len()).sum::<usize>()
        + graph.weights.iter().map(|weight| weight.name.len()).sum::<usize>();
    let lists = graph.nodes.len() * size_of::<Node>()
        + graph.layer_of_node.len() * size_of::<Option<usize>>()
        + graph.values.len() * size_of::<GraphValue>()
        + graph.weights.len() * size_of::<GraphWeight>()
        + graph.resources.len() * size_of::<GraphResource>()
        + (graph.inputs.len() + graph.outputs.len()) * size_of::<ValueId>();
    (names + lists) as u64
}

#[cfg(test)]
mod tests {
    use super::{Footprint, plan_tokens};
    use crate::backend::{KvFormat, StateSizes};

    #[test]
    fn plans_are_for_powers_of_two_and_the_step() {
        let of = |step| plan_tokens(step).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(1), [1]);
        assert_eq!(of(4), [1, 2, 4]);
        assert_eq!(of(300), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    }

    #[test]
    fn pages_add_their_part() {
        let footprint = Footprint {
            weights_bytes: 1,
            workspace_bytes: 10,
            workspace_bytes_per_page: 4,
            window_bytes: 100,
            window_bytes_per_page: 3,
        };
        let state = StateSizes { n_pages: 5, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 1 };
        assert_eq!(footprint.workspace_bytes(&state), 30);
        assert_eq!(footprint.workspace_bytes(&StateSizes { n_window_pages: 2, ..state }), 145);
    }
}
