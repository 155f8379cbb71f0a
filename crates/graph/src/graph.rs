//! The unrolled graph of a model: flat lists of nodes, values, weights and resources.
//!
//! Everything after the model's declaration works on it: validation, fusion, plan, reports and
//! the backends' recorders.

use crate::ops::Op;
use crate::section::{Node, ResourceKind, ValueId, WeightClass};
use crate::shape::{Rows, Shape, ShapeError};

/// A value of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphValue {
    /// Its shape.
    pub shape: Shape,
    /// For reports and traces: `blk.3.mixer`.
    pub name: String,
}

/// A weight of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphWeight {
    /// The tensor's name in the file.
    pub name: String,
    /// Axes, fastest first; unused axes are 1.
    pub shape: [u32; 3],
    /// Allowed storage.
    pub class: WeightClass,
}

/// Persistent state of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphResource {
    /// What it holds.
    pub kind: ResourceKind,
    /// The layer that owns it.
    pub layer: usize,
    /// Keys and values: the last tokens that its widest reader sees; 0 if one sees all. Follows from the nodes.
    pub window: u32,
}

/// A whole model, unrolled.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// In execution order: every value is written before it is read.
    pub nodes: Vec<Node>,
    /// The layer that each node belongs to, if any.
    pub layer_of_node: Vec<Option<usize>>,
    /// Activations.
    pub values: Vec<GraphValue>,
    /// Weights, each tensor once.
    pub weights: Vec<GraphWeight>,
    /// Persistent state.
    pub resources: Vec<GraphResource>,
    /// Values that the caller writes before a step (op and block tests; none in a model).
    pub inputs: Vec<ValueId>,
    /// Values that the caller reads after a step; of a model: logits, then greedy tokens.
    pub outputs: Vec<ValueId>,
}

impl Graph {
    /// Shape of a value.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> Shape {
        self.values[usize::from(id.0)].shape
    }

    /// The value of that name.
    #[must_use]
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        let index = self.values.iter().position(|v| v.name == name)?;
        u16::try_from(index).ok().map(ValueId)
    }

    /// Notes what the attention that reads each cache sees of it.
    pub(crate) fn note_windows(&mut self) {
        for (index, resource) in self.resources.iter_mut().enumerate() {
            let windows = self.nodes.iter().filter_map(|node| match node.op {
                Op::Attention(op) if node.resource.is_some_and(|id| usize::from(id.0) == index) => Some(op.window),
                _ => None,
            });
            let sees_all = windows.clone().any(|window| window == 0);
            resource.window = if sees_all { 0 } else { windows.max().unwrap_or(0) };
        }
    }

    /// The widest window of the caches that nobody reads whole; none if there is no such cache.
    #[must_use]
    pub fn window(&self) -> Option<u32> {
        self.resources.iter().map(|resource| resource.window).max().filter(|&window| window > 0)
    }

    /// Checks what every later stage relies on: ids in range, values written exactly once and
    /// before they are read, outputs written.
    ///
    /// # Errors
    /// The first node at fault.
    pub fn validate(&self) -> Result<(), GraphError> {
        let mut written = vec![false; self.values.len()];
        let mark = |written: &mut Vec<bool>, id: ValueId, node: usize| match written.get_mut(usize::from(id.0)) {
            Some(slot) if !*slot => {
                *slot = true;
                Ok(())
            }
            _ => Err(GraphError::WrittenTwice { node }),
        };
        for &id in &self.inputs {
            mark(&mut written, id, 0)?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for id in node.inputs.as_slice() {
                if !written.get(usize::from(id.0)).copied().unwrap_or(false) {
                    return Err(GraphError::ReadBeforeWritten { node: index, op: node.op.name() });
                }
            }
            let weights_known = node.weights.as_slice().iter().all(|w| usize::from(w.0) < self.weights.len());
            let resource_known = node.resource.is_none_or(|r| usize::from(r.0) < self.resources.len());
            if !weights_known || !resource_known {
                return Err(GraphError::ReadBeforeWritten { node: index, op: node.op.name() });
            }
            for &id in node.outputs.as_slice() {
                mark(&mut written, id, index)?;
            }
        }
        match self.outputs.iter().all(|id| written.get(usize::from(id.0)).copied().unwrap_or(false)) {
            true => Ok(()),
            false => Err(GraphError::ReadBeforeWritten { node: self.nodes.len(), op: "output" }),
        }
    }

    /// Rows of a value at a step.
    #[must_use]
    pub fn rows(&self, id: ValueId, n_tokens: usize, n_outputs: usize) -> usize {
        match self.shape(id).rows {
            Rows::Tokens => n_tokens,
            Rows::Outputs => n_outputs,
        }
    }
}

/// A graph that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A shape rule is broken.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A layer names a block that is not there.
    #[error("layer {layer} names block {block}, which the model does not have")]
    NoSuchBlock {
        /// The layer.
        layer: usize,
        /// The index it names.
        block: usize,
    },
    /// A block reads the cache of a layer that has none of that shape.
    #[error("layer {layer} reads the key/value cache of layer {of}, which has none of that shape")]
    NoCacheToBorrow {
        /// The reading layer.
        layer: usize,
        /// The layer read.
        of: usize,
    },
    /// Prologue and epilogue hold no state.
    #[error("section `{section}` declares state, which only layers may have")]
    ResourceOutsideLayer {
        /// The section.
        section: &'static str,
    },
    /// A node reads what nothing before it writes.
    #[error("node {node} ({op}) reads something that no earlier node writes")]
    ReadBeforeWritten {
        /// Index of the node.
        node: usize,
        /// Its op.
        op: &'static str,
    },
    /// Two nodes write one value.
    #[error("node {node} writes a value that is already written")]
    WrittenTwice {
        /// Index of the node.
        node: usize,
    },
    /// More than 65,535 values, weights or resources.
    #[error("the graph has more than 65,535 values, weights or resources")]
    TooLarge,
}
