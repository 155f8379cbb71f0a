//! The prologue: `x[t] = scale * token_embd[ids[t]]`.

use zinc_graph::shape::ShapeError;
use zinc_graph::{Builder, Section};

use crate::hparams::Hparams;

/// From token ids to the residual stream; `scale` is 1 for most.
pub(crate) const fn prologue(hp: &Hparams, scale: f32) -> Result<Section, ShapeError> {
    let mut b = Builder::new("prologue");
    let table = b.model_matrix("token_embd.weight", hp.n_embd, hp.n_vocab);
    let x = b.embed(table, scale);
    b.name(x, "embd");
    b.output(x);
    b.finish()
}
