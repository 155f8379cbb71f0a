//! A model of a file: which architecture, its graph, and the file's tensors in the graph's order.

use zinc_gguf::{DType, Gguf, TensorInfo};
use zinc_graph::Graph;
use zinc_graph::backend::WeightData;
use zinc_graph::graph::GraphError;
use zinc_graph::section::ValueId;

use crate::keys::Keys;
use crate::{ARCHITECTURES, Architecture, Error, weights};

/// A model, ready for a backend.
#[derive(Clone, Debug)]
pub struct Model {
    /// The architecture's name.
    pub architecture: &'static str,
    /// What the file calls the model.
    pub name: Option<String>,
    /// All layers, validated, not fused.
    pub graph: Graph,
    /// Entries of the vocabulary.
    pub n_vocab: u32,
    /// Tokens of context in training.
    pub context_train: u32,
    /// Layers that run.
    pub n_layers: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// `[Outputs, n_vocab]`.
    pub logits: ValueId,
    /// `[Outputs, 1]` of u32: the most likely token of each row.
    pub greedy: ValueId,
}

impl Model {
    /// Reads the metadata, declares the model and unrolls it. The tensors' data may be absent.
    ///
    /// # Errors
    /// An unknown architecture, or hyperparameters that make no model. Tensors are looked at by [`Model::dtypes`].
    pub fn from_gguf(file: &Gguf) -> Result<Model, Error> {
        let architecture = architecture_of(file)?;
        let keys = Keys::new(file, architecture.name);
        let blueprint = (architecture.blueprint)(file)?;
        let in_file = |error| Error::Graph { architecture: architecture.name, error };
        let graph = blueprint.unroll().map_err(in_file)?;
        graph.validate().map_err(in_file)?;
        let &[logits, greedy] = graph.outputs.as_slice() else {
            return Err(in_file(GraphError::ReadBeforeWritten { node: graph.nodes.len(), op: "output" }));
        };
        Ok(Model {
            architecture: architecture.name,
            name: file.metadata().str("general.name")?.map(str::to_owned),
            n_vocab: graph.shape(logits).cols,
            context_train: keys.require_u32("context_length")?,
            n_layers: u32::try_from(blueprint.layers.len()).unwrap_or(u32::MAX),
            n_embd: keys.require_u32("embedding_length")?,
            logits,
            greedy,
            graph,
        })
    }

    /// The file's tensors in the order of the graph's weights: handles into its map, no bytes are copied.
    ///
    /// # Errors
    /// A missing, surplus or misshapen tensor, one of the wrong type, or data that is not in the file.
    pub fn weights(&self, file: &Gguf) -> Result<Vec<WeightData>, Error> {
        let tensors = weights::tensors(&self.graph, file, architecture_of(file)?)?;
        let handle = |t: &TensorInfo| Ok(WeightData { dtype: t.dtype, bytes: file.data_shared(t)? });
        tensors.into_iter().map(handle).collect()
    }

    /// Bytes of the file's tensors in the order of the graph's weights, after the same checks, without touching data.
    ///
    /// # Errors
    /// A missing, surplus or misshapen tensor, or one of the wrong type.
    pub fn weight_sizes(&self, file: &Gguf) -> Result<Vec<u64>, Error> {
        let tensors = weights::tensors(&self.graph, file, architecture_of(file)?)?;
        Ok(tensors.into_iter().map(TensorInfo::n_bytes).collect())
    }

    /// The storage types in the order of the graph's weights, after the same checks, without touching data.
    ///
    /// # Errors
    /// A missing, surplus or misshapen tensor, or one of the wrong type.
    pub fn dtypes(&self, file: &Gguf) -> Result<Vec<DType>, Error> {
        let tensors = weights::tensors(&self.graph, file, architecture_of(file)?)?;
        Ok(tensors.into_iter().map(|t| t.dtype).collect())
    }
}

fn architecture_of(file: &Gguf) -> Result<&'static Architecture, Error> {
    let got = file.metadata().require_str("general.architecture")?;
    ARCHITECTURES.iter().find(|a| a.name == got).ok_or_else(|| {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|a| a.name).collect();
        Error::UnknownArchitecture { got: got.to_owned(), known: known.join(", ") }
    })
}
