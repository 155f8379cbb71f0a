//! A model as constants can hold it: its sections and the kind of each layer.
//!
//! An architecture fills a [`Declaration`] in a `const fn`. At load it becomes a [`Blueprint`]; at compile time
//! [`crate::check`] looks at it. The first broken rule is kept and comes out of [`Declaration::finish`].

use zinc_graph::blueprint::Layer;
use zinc_graph::section::{Scope, WeightDecl};
use zinc_graph::shape::ShapeError;
use zinc_graph::{Blueprint, Section};

use crate::Error;
use crate::hparams::LAYERS_MAX;
use crate::rules::Broken;

/// Most kinds of block in one model.
pub const BLOCKS_MAX: usize = 6;

/// A table that stands beside the parameters: derived from the configuration, not trained.
const FREQUENCY_TABLE: &str = "rope_freqs.weight";

/// Why a set of hyperparameters declares no model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A hyperparameter breaks a rule.
    Hparam(Broken),
    /// The sections break a shape rule.
    Shape(ShapeError),
}

impl Fault {
    /// The error of a file of `architecture`, whose keys begin with that name.
    #[must_use]
    pub fn in_file(self, architecture: &'static str) -> Error {
        match self {
            Fault::Hparam(broken) => Error::Hparam { key: broken.key_in_file(architecture), broken },
            Fault::Shape(error) => Error::Graph { architecture, error: error.into() },
        }
    }
}

/// A whole model, declared.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    prologue: Option<Section>,
    blocks: [Option<Section>; BLOCKS_MAX],
    n_blocks: usize,
    layers: [Layer; LAYERS_MAX as usize],
    n_layers: usize,
    epilogue: Option<Section>,
    fault: Option<Fault>,
}

/// Index of a kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIdx(usize);

impl Declaration {
    /// Nothing yet.
    #[expect(clippy::new_without_default, reason = "a declaration without sections is no model")]
    #[must_use]
    pub const fn new() -> Declaration {
        Declaration {
            prologue: None,
            blocks: [None; BLOCKS_MAX],
            n_blocks: 0,
            layers: [Layer { block: 0, kv_of: 0 }; LAYERS_MAX as usize],
            n_layers: 0,
            epilogue: None,
            fault: None,
        }
    }

    /// Sets the section before the layers.
    pub const fn prologue(&mut self, section: Result<Section, ShapeError>) {
        self.prologue = self.keep(section);
    }

    /// Sets the section after the layers.
    pub const fn epilogue(&mut self, section: Result<Section, ShapeError>) {
        self.epilogue = self.keep(section);
    }

    /// Adds a kind of block.
    pub const fn block(&mut self, section: Result<Section, ShapeError>) -> BlockIdx {
        let index = self.n_blocks;
        assert!(index < BLOCKS_MAX, "an architecture has at most BLOCKS_MAX kinds of block");
        self.blocks[index] = self.keep(section);
        self.n_blocks += 1;
        BlockIdx(index)
    }

    /// Appends a layer with its own cache.
    pub const fn layer(&mut self, block: BlockIdx) {
        self.layer_with_kv_of(block, self.n_layers);
    }

    /// Appends `n` layers of one kind, each with its own cache.
    pub const fn layers(&mut self, block: BlockIdx, n: u32) {
        let mut i = 0;
        while i < n {
            self.layer(block);
            i += 1;
        }
    }

    /// Appends a layer that reads the cache of an earlier layer.
    pub const fn layer_with_kv_of(&mut self, block: BlockIdx, kv_of: usize) {
        assert!(self.n_layers < LAYERS_MAX as usize, "the number of layers is checked before they are declared");
        self.layers[self.n_layers] = Layer { block: block.0, kv_of };
        self.n_layers += 1;
    }

    /// The declaration, or the first rule that was broken.
    ///
    /// # Errors
    /// The first broken shape rule.
    pub const fn finish(self) -> Result<Declaration, Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self),
        }
    }

    /// The model with its sections on the heap, to be unrolled.
    #[must_use]
    pub fn blueprint(&self) -> Blueprint {
        const WHOLE: &str = "an architecture declares a prologue and an epilogue";
        Blueprint {
            prologue: self.prologue.expect(WHOLE),
            blocks: self.blocks.iter().copied().flatten().collect(),
            layers: self.layers[..self.n_layers].to_vec(),
            epilogue: self.epilogue.expect(WHOLE),
        }
    }

    /// Trained parameters of the whole model; a tensor read twice (a tied head) counts once.
    #[must_use]
    pub const fn n_parameters(&self) -> u64 {
        let mut sum = 0;
        let mut kind = 0;
        while kind < self.n_blocks {
            sum += n_layers_of(self, kind) * of_layer(&self.blocks[kind]);
            kind += 1;
        }
        sum + of_model(&self.prologue, &None) + of_model(&self.epilogue, &self.prologue)
    }

    const fn keep(&mut self, section: Result<Section, ShapeError>) -> Option<Section> {
        match section {
            Ok(section) => Some(section),
            Err(error) => {
                if self.fault.is_none() {
                    self.fault = Some(Fault::Shape(error));
                }
                None
            }
        }
    }
}

const fn n_layers_of(model: &Declaration, kind: usize) -> u64 {
    let (mut n, mut layer) = (0, 0);
    while layer < model.n_layers {
        if model.layers[layer].block == kind {
            n += 1;
        }
        layer += 1;
    }
    n
}

/// Elements of the weights that each layer has for itself.
const fn of_layer(section: &Option<Section>) -> u64 {
    let Some(section) = section else { return 0 };
    let (weights, mut sum, mut i) = (section.weights(), 0, 0);
    while i < weights.len() {
        if matches!(weights[i].scope, Scope::Layer) {
            sum += n_elements(&weights[i]);
        }
        i += 1;
    }
    sum
}

/// Elements of the model's weights that `section` reads and `earlier` does not.
const fn of_model(section: &Option<Section>, earlier: &Option<Section>) -> u64 {
    let Some(section) = section else { return 0 };
    let (weights, mut sum, mut i) = (section.weights(), 0, 0);
    while i < weights.len() {
        let counts = !same(weights[i].name, FREQUENCY_TABLE) && !reads(earlier, weights[i].name);
        if matches!(weights[i].scope, Scope::Model) && counts {
            sum += n_elements(&weights[i]);
        }
        i += 1;
    }
    sum
}

const fn reads(section: &Option<Section>, name: &str) -> bool {
    let Some(section) = section else { return false };
    let (weights, mut i) = (section.weights(), 0);
    while i < weights.len() {
        if same(weights[i].name, name) {
            return true;
        }
        i += 1;
    }
    false
}

const fn n_elements(weight: &WeightDecl) -> u64 {
    weight.shape[0] as u64 * weight.shape[1] as u64 * weight.shape[2] as u64
}

/// Equality of strings usable in constants.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
