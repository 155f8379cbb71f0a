//! The epilogue: `logits = cap(head * norm(x))` and the most likely token, for the rows that are wanted.

use zinc_graph::section::ValueId;
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Builder, Section};

use crate::hparams::Hparams;

/// From the residual stream to logits and greedy tokens.
pub(crate) const fn epilogue(hp: &Hparams, softcap: Option<f32>) -> Result<Section, ShapeError> {
    let mut b = Builder::new("epilogue");
    let x = b.input(Shape::tokens(hp.n_embd));
    finish(&mut b, x, hp, softcap);
    b.finish()
}

/// The body of [`epilogue`], for architectures whose epilogue takes more than the residual stream.
pub(crate) const fn finish(b: &mut Builder, x: ValueId, hp: &Hparams, softcap: Option<f32>) {
    let x = b.select_rows(x);
    let w = b.model_vector("output_norm.weight", hp.n_embd);
    let x = b.rms_norm(x, w, hp.eps);
    b.name(x, "final_norm");
    let head = b.model_matrix(if hp.tied { "token_embd.weight" } else { "output.weight" }, hp.n_embd, hp.n_vocab);
    let mut logits = b.matmul(x, head);
    if let Some(cap) = softcap {
        logits = b.softcap(logits, cap);
    }
    let greedy = b.argmax(logits);
    b.name(logits, "logits");
    b.name(greedy, "greedy");
    b.output(logits);
    b.output(greedy);
}
