//! The tensors of a file against the weights of a graph: missing, surplus, misshapen, of the wrong type.

use std::collections::HashSet;

use zinc_gguf::{DType, Gguf, TensorInfo};
use zinc_graph::Graph;
use zinc_graph::graph::GraphWeight;
use zinc_graph::section::WeightClass;

use crate::{Architecture, Error};

/// The tensor of each weight, in the graph's order.
///
/// # Errors
/// The first weight without a fitting tensor, then the first tensor without a use.
pub(crate) fn tensors<'a>(
    graph: &Graph,
    file: &'a Gguf,
    architecture: &Architecture,
) -> Result<Vec<&'a TensorInfo>, Error> {
    let found: Vec<&TensorInfo> = graph.weights.iter().map(|w| tensor_of(w, file)).collect::<Result<_, _>>()?;
    let read: HashSet<&str> = graph.weights.iter().map(|w| w.name.as_str()).collect();
    let has_use = |t: &TensorInfo| read.contains(t.name.as_str()) || (architecture.leaves_unread)(file, &t.name);
    match file.tensors().iter().find(|t| !has_use(t)) {
        Some(t) => Err(Error::SurplusTensor { tensor: t.name.clone(), architecture: architecture.name }),
        None => Ok(found),
    }
}

fn tensor_of<'a>(weight: &GraphWeight, file: &'a Gguf) -> Result<&'a TensorInfo, Error> {
    let expected = || without_trailing_ones(&weight.shape.map(u64::from)).to_vec();
    let Some(tensor) = file.tensor(&weight.name) else {
        return Err(Error::MissingTensor { tensor: weight.name.clone(), expected: expected() });
    };
    if without_trailing_ones(&tensor.shape) != expected() {
        let (tensor, got) = (tensor.name.clone(), tensor.shape.clone());
        return Err(Error::TensorShape { tensor, expected: expected(), got });
    }
    if weight.class == WeightClass::Plain && tensor.dtype != DType::F32 {
        return Err(Error::TensorType { tensor: tensor.name.clone(), got: tensor.dtype });
    }
    Ok(tensor)
}

/// The format lets writers drop or keep axes of length 1 at the slow end.
fn without_trailing_ones(shape: &[u64]) -> &[u64] {
    let n = shape.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
    &shape[..n.min(shape.len())]
}
