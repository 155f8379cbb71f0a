//! Cosines and sines of a step, one table for each kind of rotary embedding in the graph.

use zinc_graph::Graph;
use zinc_graph::ops::Op;

use crate::backend::Weight;

/// One kind of rotary embedding.
#[derive(Debug)]
struct Rotation {
    frequencies: Vec<f32>,
    magnitude: f32,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// All kinds, and which of them each node uses.
#[derive(Debug)]
pub(crate) struct Rotations {
    kinds: Vec<Rotation>,
    kind_of_node: Vec<Option<usize>>,
}

impl Rotations {
    /// Collects the kinds of a graph.
    pub(crate) fn new(graph: &Graph, weights: &[Weight]) -> Rotations {
        let mut kinds: Vec<Rotation> = Vec::new();
        let mut kind_of_node = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let Op::Rope(rope) = node.op else {
                kind_of_node.push(None);
                continue;
            };
            let factors = node.weights.as_slice().first().and_then(|w| weights[usize::from(w.0)].plain.as_deref());
            let (frequencies, magnitude) = (rope.inverse_frequencies(factors), rope.magnitude());
            let known = kinds.iter().position(|k| k.frequencies == frequencies && k.magnitude == magnitude);
            kind_of_node.push(Some(known.unwrap_or(kinds.len())));
            if known.is_none() {
                kinds.push(Rotation { frequencies, magnitude, cos: Vec::new(), sin: Vec::new() });
            }
        }
        Rotations { kinds, kind_of_node }
    }

    /// Computes the tables for the positions of a step.
    pub(crate) fn turn(&mut self, positions: &[u32]) {
        for kind in &mut self.kinds {
            kind.cos.clear();
            kind.sin.clear();
            for &position in positions {
                for &frequency in &kind.frequencies {
                    let (sin, cos) = (position as f32 * frequency).sin_cos();
                    kind.cos.push(cos * kind.magnitude);
                    kind.sin.push(sin * kind.magnitude);
                }
            }
        }
    }

    /// Cosines and sines, `[n_tokens][n_rot / 2]`, of a rotary node.
    pub(crate) fn of_node(&self, node: usize) -> (&[f32], &[f32]) {
        let kind = self.kind_of_node[node].expect("every rotary node has its kind");
        (&self.kinds[kind].cos, &self.kinds[kind].sin)
    }
}
