//! Sections: the short graphs that a model is declared with, and their const builder.
//!
//! A model is a prologue, one section per kind of block, and an epilogue. Sections have fixed
//! capacity and no heap, so that the same `const fn` runs at compile time for the catalog and at
//! load for a file. The builder's op methods live with the ops (`ops/<op>.rs`); the first broken
//! rule is kept and comes out of [`Builder::finish`].

use crate::ops::Op;
use crate::shape::{Shape, ShapeError};

/// Most nodes in one section.
pub const NODES_MAX: usize = 64;
/// Most values in one section.
pub const VALUES_MAX: usize = 96;
/// Most weights in one section.
pub const WEIGHTS_MAX: usize = 48;
/// Most values that a section takes in or gives out.
pub const CARRIED_MAX: usize = 4;
/// Most persistent resources in one section.
pub const RESOURCES_MAX: usize = 4;

/// Index of a value (an activation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u16);
/// Index of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub u16);
/// Index of a persistent resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub u16);

/// A short list that constants can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct List<T: Copy, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// An empty list; `filler` occupies the unused places.
    #[must_use]
    pub const fn new(filler: T) -> Self {
        assert!(N < 256, "a List counts with a byte");
        List { items: [filler; N], len: 0 }
    }

    /// Appends; `false` when the list is full.
    pub const fn push(&mut self, item: T) -> bool {
        if self.len as usize == N {
            return false;
        }
        self.items[self.len as usize] = item;
        self.len += 1;
        true
    }

    /// The items, in order of insertion.
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        self.items.split_at(self.len as usize).0
    }

    /// The items, to be changed in place.
    pub const fn as_mut_slice(&mut self) -> &mut [T] {
        self.items.split_at_mut(self.len as usize).0
    }
}

/// One op with its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// What is computed, with its parameters.
    pub op: Op,
    /// Values read, in the op's order.
    pub inputs: List<ValueId, 5>,
    /// Weights read, in the op's order; optional ones come last.
    pub weights: List<WeightId, 4>,
    /// Values written, in the op's order.
    pub outputs: List<ValueId, 2>,
    /// The persistent resource that the op reads or writes.
    pub resource: Option<ResourceId>,
}

/// A value inside a section.
#[derive(Clone, Copy, Debug)]
pub struct ValueDecl {
    /// Its shape.
    pub shape: Shape,
    /// A name worth showing in reports and traces.
    pub name: Option<&'static str>,
}

/// Whether a weight belongs to the block (`blk.N.` before its name) or to the whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `name` is the whole tensor name.
    Model,
    /// The tensor is `blk.N.name`, N the layer.
    Layer,
}

/// Which storage types a weight may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightClass {
    /// Read row by row through a dequantising kernel: every type of the `gguf` crate.
    Matrix,
    /// Read as plain f32: norms, biases, convolution taps, scalars.
    Plain,
}

/// A weight that a section reads.
#[derive(Clone, Copy, Debug)]
pub struct WeightDecl {
    /// Tensor name, without the `blk.N.` of a layer's tensor.
    pub name: &'static str,
    /// Whose tensor it is.
    pub scope: Scope,
    /// Axes, fastest first, as GGUF has them; unused axes are 1.
    pub shape: [u32; 3],
    /// Allowed storage.
    pub class: WeightClass,
}

/// State that outlives a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// Keys and values of one layer in 16-token pages:
    /// each `[n_pages][16][n_kv_heads][head_dim]`.
    Kv {
        /// Key and value heads.
        n_kv_heads: u32,
        /// Elements of a head.
        head_dim: u32,
    },
    /// `len` f32 per sequence slot.
    State {
        /// Elements of one slot.
        len: u32,
    },
}

/// A resource declared by a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceDecl {
    /// What it holds.
    pub kind: ResourceKind,
    /// True when the layer reads the cache of an earlier layer ([`crate::blueprint::Layer::kv_of`]).
    pub borrowed: bool,
}

/// A finished short graph.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name for messages and reports.
    pub name: &'static str,
    pub(crate) nodes: List<Node, NODES_MAX>,
    pub(crate) values: List<ValueDecl, VALUES_MAX>,
    pub(crate) weights: List<WeightDecl, WEIGHTS_MAX>,
    pub(crate) resources: List<ResourceDecl, RESOURCES_MAX>,
    pub(crate) inputs: List<ValueId, CARRIED_MAX>,
    pub(crate) outputs: List<ValueId, CARRIED_MAX>,
}

impl Section {
    /// The weights that the section reads.
    #[must_use]
    pub const fn weights(&self) -> &[WeightDecl] {
        self.weights.as_slice()
    }

    /// The nodes, in execution order.
    #[must_use]
    pub const fn nodes(&self) -> &[Node] {
        self.nodes.as_slice()
    }

    /// The resources that the section declares.
    #[must_use]
    pub const fn resources(&self) -> &[ResourceDecl] {
        self.resources.as_slice()
    }
}

/// Builds a [`Section`] in a constant.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    section: Section,
    error: Option<ShapeError>,
}

const NO_SHAPE: Shape = Shape::tokens(0);

/// A capacity of this file as it stands in an error.
#[expect(clippy::cast_possible_truncation, reason = "capacities are below 256")]
const fn small(capacity: usize) -> u32 {
    capacity as u32
}

impl Builder {
    /// An empty section.
    #[must_use]
    pub const fn new(name: &'static str) -> Builder {
        let node = Node {
            op: Op::Add,
            inputs: List::new(ValueId(0)),
            weights: List::new(WeightId(0)),
            outputs: List::new(ValueId(0)),
            resource: None,
        };
        let weight = WeightDecl { name: "", scope: Scope::Model, shape: [0; 3], class: WeightClass::Plain };
        let resource = ResourceDecl { kind: ResourceKind::State { len: 0 }, borrowed: false };
        Builder {
            section: Section {
                name,
                nodes: List::new(node),
                values: List::new(ValueDecl { shape: NO_SHAPE, name: None }),
                weights: List::new(weight),
                resources: List::new(resource),
                inputs: List::new(ValueId(0)),
                outputs: List::new(ValueId(0)),
            },
            error: None,
        }
    }

    /// A value that comes from the section before.
    pub const fn input(&mut self, shape: Shape) -> ValueId {
        let id = self.value(shape);
        if !self.section.inputs.push(id) {
            self.fail("section", "takes at most 4 values", 4, 5);
        }
        id
    }

    /// Hands a value to the next section, or to the caller after the last.
    pub const fn output(&mut self, value: ValueId) {
        if !self.section.outputs.push(value) {
            self.fail("section", "gives at most 4 values", 4, 5);
        }
    }

    /// Names a value for reports and traces.
    pub const fn name(&mut self, value: ValueId, name: &'static str) {
        if self.error.is_none() {
            self.section.values.as_mut_slice()[value.0 as usize].name = Some(name);
        }
    }

    /// A matrix `[n_in, n_out]` of the current layer, of any storage type.
    pub const fn matrix(&mut self, name: &'static str, n_in: u32, n_out: u32) -> WeightId {
        self.weight(WeightDecl { name, scope: Scope::Layer, shape: [n_in, n_out, 1], class: WeightClass::Matrix })
    }

    /// Matrices `[n_in, n_out, n_experts]` of the current layer, of any storage type.
    pub const fn experts(&mut self, name: &'static str, n_in: u32, n_out: u32, n: u32) -> WeightId {
        self.weight(WeightDecl { name, scope: Scope::Layer, shape: [n_in, n_out, n], class: WeightClass::Matrix })
    }

    /// A plain f32 vector `[n]` of the current layer.
    pub const fn vector(&mut self, name: &'static str, n: u32) -> WeightId {
        self.weight(WeightDecl { name, scope: Scope::Layer, shape: [n, 1, 1], class: WeightClass::Plain })
    }

    /// A matrix `[n_in, n_out]` of the whole model, of any storage type.
    pub const fn model_matrix(&mut self, name: &'static str, n_in: u32, n_out: u32) -> WeightId {
        self.weight(WeightDecl { name, scope: Scope::Model, shape: [n_in, n_out, 1], class: WeightClass::Matrix })
    }

    /// A plain f32 vector `[n]` of the whole model.
    pub const fn model_vector(&mut self, name: &'static str, n: u32) -> WeightId {
        self.weight(WeightDecl { name, scope: Scope::Model, shape: [n, 1, 1], class: WeightClass::Plain })
    }

    /// Any weight, spelled out.
    pub const fn weight(&mut self, decl: WeightDecl) -> WeightId {
        let id = WeightId(self.section.weights.len as u16);
        if !self.section.weights.push(decl) {
            self.fail("section", "reads at most 48 weights", small(WEIGHTS_MAX), 49);
            return WeightId(0);
        }
        id
    }

    /// A persistent resource of the current layer.
    pub const fn resource(&mut self, decl: ResourceDecl) -> ResourceId {
        let id = ResourceId(self.section.resources.len as u16);
        if !self.section.resources.push(decl) {
            self.fail("section", "holds at most 4 resources", small(RESOURCES_MAX), 5);
            return ResourceId(0);
        }
        id
    }

    /// The section, or the first rule that was broken.
    ///
    /// # Errors
    /// The first broken shape rule.
    pub const fn finish(self) -> Result<Section, ShapeError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.section),
        }
    }

    /// Shape of a value built so far.
    #[must_use]
    pub const fn shape(&self, value: ValueId) -> Shape {
        if self.error.is_some() {
            return NO_SHAPE;
        }
        self.section.values.as_slice()[value.0 as usize].shape
    }

    /// Shape of a declared weight.
    #[must_use]
    pub const fn weight_shape(&self, weight: WeightId) -> [u32; 3] {
        if self.error.is_some() {
            return [0; 3];
        }
        self.section.weights.as_slice()[weight.0 as usize].shape
    }

    pub(crate) const fn resource_kind(&self, resource: ResourceId) -> ResourceKind {
        if self.error.is_some() {
            return ResourceKind::State { len: 0 };
        }
        self.section.resources.as_slice()[resource.0 as usize].kind
    }

    pub(crate) const fn value(&mut self, shape: Shape) -> ValueId {
        let id = ValueId(self.section.values.len as u16);
        if !self.section.values.push(ValueDecl { shape, name: None }) {
            self.fail("section", "holds at most 96 values", small(VALUES_MAX), 97);
            return ValueId(0);
        }
        id
    }

    /// Keeps the first broken rule; later ones follow from it.
    pub(crate) const fn fail(&mut self, op: &'static str, rule: &'static str, expected: u32, got: u32) {
        if self.error.is_none() {
            self.error = Some(ShapeError { op, rule, expected, got });
        }
    }

    /// Checks a rule: `got` must equal `expected`.
    pub(crate) const fn check(&mut self, op: &'static str, rule: &'static str, expected: u32, got: u32) {
        if expected != got {
            self.fail(op, rule, expected, got);
        }
    }

    /// Appends a node and returns its first output.
    pub(crate) const fn node(&mut self, op: Op, operands: Operands<'_>, outputs: &[Shape]) -> ValueId {
        if self.error.is_some() {
            return ValueId(0);
        }
        let mut node = Node {
            op,
            inputs: List::new(ValueId(0)),
            weights: List::new(WeightId(0)),
            outputs: List::new(ValueId(0)),
            resource: operands.resource,
        };
        let mut i = 0;
        while i < operands.values.len() {
            node.inputs.push(operands.values[i]);
            i += 1;
        }
        i = 0;
        while i < operands.weights.len() {
            node.weights.push(operands.weights[i]);
            i += 1;
        }
        let first = ValueId(self.section.values.len as u16);
        i = 0;
        while i < outputs.len() {
            let id = self.value(outputs[i]);
            node.outputs.push(id);
            i += 1;
        }
        if !self.section.nodes.push(node) {
            self.fail("section", "holds at most 64 nodes", small(NODES_MAX), 65);
        }
        first
    }
}

/// What a node reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a> {
    pub(crate) values: &'a [ValueId],
    pub(crate) weights: &'a [WeightId],
    pub(crate) resource: Option<ResourceId>,
}

impl<'a> Operands<'a> {
    pub(crate) const fn values(values: &'a [ValueId]) -> Self {
        Operands { values, weights: &[], resource: None }
    }

    pub(crate) const fn weights(mut self, weights: &'a [WeightId]) -> Self {
        self.weights = weights;
        self
    }

    pub(crate) const fn resource(mut self, resource: ResourceId) -> Self {
        self.resource = Some(resource);
        self
    }
}
