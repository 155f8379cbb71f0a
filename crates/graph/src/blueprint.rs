//! A model as data: its sections and the list of layers, and how they unroll into one [`Graph`].
//!
//! The first carried value is the residual stream: each block takes all carried values and gives
//! a new residual stream; the others pass by unchanged from the prologue to the last block.

use crate::graph::{Graph, GraphError, GraphResource, GraphValue, GraphWeight};
use crate::ops::Op;
use crate::section::{Node, ResourceId, Scope, Section, ValueId, WeightId};
use crate::shape::ShapeError;

/// One layer of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Index into [`Blueprint::blocks`].
    pub block: usize,
    /// The earlier layer whose cache a borrowing block reads; its own index otherwise.
    pub kv_of: usize,
}

/// A whole model before it is unrolled.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// From token ids to the residual stream.
    pub prologue: Section,
    /// One section per kind of block.
    pub blocks: Vec<Section>,
    /// The layers in order.
    pub layers: Vec<Layer>,
    /// From the residual stream to logits.
    pub epilogue: Section,
}

impl Blueprint {
    /// Unrolls the layers into one graph.
    ///
    /// # Errors
    /// Sections that do not fit together, or a cache borrowed from a layer that has none.
    pub fn unroll(&self) -> Result<Graph, GraphError> {
        let mut unroller = Unroller { graph: Graph::default(), kv_of_layer: vec![None; self.layers.len()] };
        let mut carried = unroller.append(&self.prologue, None, &[])?;
        for (index, layer) in self.layers.iter().enumerate() {
            let block =
                self.blocks.get(layer.block).ok_or(GraphError::NoSuchBlock { layer: index, block: layer.block })?;
            let out = unroller.append(block, Some((index, layer.kv_of)), &carried)?;
            if out.len() != 1 {
                return Err(carried_error(block.name, 1, out.len()));
            }
            carried[0] = out[0];
        }
        let outputs = unroller.append(&self.epilogue, None, &carried)?;
        unroller.graph.outputs = outputs;
        unroller.graph.note_windows();
        Ok(unroller.graph)
    }
}

impl Graph {
    /// A graph of one section; its inputs are written by the caller (tests of ops and blocks).
    ///
    /// # Errors
    /// As [`Blueprint::unroll`].
    pub fn from_section(section: &Section) -> Result<Graph, GraphError> {
        let mut unroller = Unroller { graph: Graph::default(), kv_of_layer: vec![None; 1] };
        for &input in section.inputs.as_slice() {
            let decl = section.values.as_slice()[input.0 as usize];
            let id = unroller.push_value(GraphValue { shape: decl.shape, name: format!("input.{}", input.0) })?;
            unroller.graph.inputs.push(id);
        }
        let inputs = unroller.graph.inputs.clone();
        unroller.graph.outputs = unroller.append(section, Some((0, 0)), &inputs)?;
        unroller.graph.note_windows();
        Ok(unroller.graph)
    }
}

fn carried_error(section: &'static str, expected: usize, got: usize) -> GraphError {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let rule = "must be given the values that the section before gives";
    GraphError::Shape(ShapeError { op: section, rule, expected: count(expected), got: count(got) })
}

struct Unroller {
    graph: Graph,
    /// The cache that each layer owns.
    kv_of_layer: Vec<Option<ResourceId>>,
}

impl Unroller {
    /// Appends a section and returns its outputs.
    fn append(
        &mut self,
        section: &Section,
        layer: Option<(usize, usize)>,
        carried: &[ValueId],
    ) -> Result<Vec<ValueId>, GraphError> {
        let inputs = section.inputs.as_slice();
        if inputs.len() != carried.len() {
            return Err(carried_error(section.name, inputs.len(), carried.len()));
        }
        let values = self.map_values(section, layer, carried)?;
        let weights = self.map_weights(section, layer)?;
        let resources = self.map_resources(section, layer)?;
        for node in section.nodes() {
            let mut node: Node = *node;
            for id in node.inputs.as_mut_slice().iter_mut().chain(node.outputs.as_mut_slice()) {
                *id = values[id.0 as usize];
            }
            for id in node.weights.as_mut_slice() {
                *id = weights[id.0 as usize];
            }
            node.resource = node.resource.map(|id| resources[id.0 as usize]);
            node.op = at_layer(node.op, layer)?;
            self.graph.nodes.push(node);
            self.graph.layer_of_node.push(layer.map(|(index, _)| index));
        }
        Ok(section.outputs.as_slice().iter().map(|id| values[id.0 as usize]).collect())
    }

    fn map_values(
        &mut self,
        section: &Section,
        layer: Option<(usize, usize)>,
        carried: &[ValueId],
    ) -> Result<Vec<ValueId>, GraphError> {
        let inputs = section.inputs.as_slice();
        let mut map = Vec::with_capacity(section.values.as_slice().len());
        for (i, decl) in section.values.as_slice().iter().enumerate() {
            let place = inputs.iter().position(|id| id.0 as usize == i);
            let id = match place {
                Some(place) => {
                    let given = self.graph.values[carried[place].0 as usize].shape;
                    if !given.same(decl.shape) {
                        return Err(carried_error(section.name, decl.shape.cols as usize, given.cols as usize));
                    }
                    carried[place]
                }
                None => {
                    let suffix = decl.name.map_or_else(|| i.to_string(), str::to_owned);
                    let name = match layer {
                        Some((index, _)) => format!("blk.{index}.{suffix}"),
                        None => format!("{}.{suffix}", section.name),
                    };
                    self.push_value(GraphValue { shape: decl.shape, name })?
                }
            };
            map.push(id);
        }
        Ok(map)
    }

    fn push_value(&mut self, value: GraphValue) -> Result<ValueId, GraphError> {
        let id = u16::try_from(self.graph.values.len()).map_err(|_| GraphError::TooLarge)?;
        self.graph.values.push(value);
        Ok(ValueId(id))
    }

    /// A tensor named twice (a tied head) is one weight.
    fn map_weights(&mut self, section: &Section, layer: Option<(usize, usize)>) -> Result<Vec<WeightId>, GraphError> {
        let mut map = Vec::new();
        for decl in section.weights() {
            let name = match (decl.scope, layer) {
                (Scope::Layer, Some((index, _))) => format!("blk.{index}.{}", decl.name),
                _ => decl.name.to_owned(),
            };
            let known = match decl.scope {
                Scope::Model => self.graph.weights.iter().position(|w| w.name == name),
                Scope::Layer => None,
            };
            let index = known.unwrap_or(self.graph.weights.len());
            if known.is_none() {
                self.graph.weights.push(GraphWeight { name, shape: decl.shape, class: decl.class });
            }
            map.push(WeightId(u16::try_from(index).map_err(|_| GraphError::TooLarge)?));
        }
        Ok(map)
    }

    fn map_resources(
        &mut self,
        section: &Section,
        layer: Option<(usize, usize)>,
    ) -> Result<Vec<ResourceId>, GraphError> {
        let mut map = Vec::new();
        for decl in section.resources() {
            let (index, kv_of) = layer.ok_or(GraphError::ResourceOutsideLayer { section: section.name })?;
            if decl.borrowed {
                let owner = self.kv_of_layer.get(kv_of).copied().flatten();
                let id = owner.ok_or(GraphError::NoCacheToBorrow { layer: index, of: kv_of })?;
                if self.graph.resources[id.0 as usize].kind != decl.kind {
                    return Err(GraphError::NoCacheToBorrow { layer: index, of: kv_of });
                }
                map.push(id);
                continue;
            }
            let id = ResourceId(u16::try_from(self.graph.resources.len()).map_err(|_| GraphError::TooLarge)?);
            self.graph.resources.push(GraphResource { kind: decl.kind, layer: index, window: 0 });
            if matches!(decl.kind, crate::section::ResourceKind::Kv { .. }) {
                self.kv_of_layer[index] = Some(id);
            }
            map.push(id);
        }
        Ok(map)
    }
}

/// Ops whose parameters depend on the layer get them here.
fn at_layer(op: Op, layer: Option<(usize, usize)>) -> Result<Op, GraphError> {
    match op {
        Op::Slice(slice) => Ok(Op::Slice(slice.at_layer(layer.map(|(index, _)| index))?)),
        op => Ok(op),
    }
}
