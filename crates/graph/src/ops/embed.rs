//! `y[t][i] = scale * W[ids[t]][i]`
//!
//! Axes: `t` tokens, `i` the model width. `ids` comes from the batch.

use crate::conformance::{Case, matrix_types};
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// Looks rows of the embedding table up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embed {
    /// Multiplies each element (Gemma: the square root of the width); 1 otherwise.
    pub scale: f32,
}

impl Builder {
    /// `[Tokens, n_in]` of a table `[n_in, n_vocab]`.
    pub const fn embed(&mut self, table: WeightId, scale: f32) -> ValueId {
        let [width, _, _] = self.weight_shape(table);
        self.node(Op::Embed(Embed { scale }), Operands::values(&[]).weights(&[table]), &[Shape::tokens(width)])
    }
}

impl Embed {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let y = &mut io.outputs[0];
        let width = y.len() / io.rows;
        for (row, &id) in y.chunks_exact_mut(width).zip(&io.batch.ids) {
            let table_row = &io.weights[0][id as usize * width..][..width];
            for (y, w) in row.iter_mut().zip(table_row) {
                *y = w * self.scale;
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in matrix_types() {
        for (n_tokens, scale) in [(1, 1.0), (7, 16.0)] {
            let name = format!("embed/{dtype}/{n_tokens}");
            cases.push(Case::new(name, 1e-6).dtype(dtype).tokens(n_tokens).build(|b| {
                let table = b.model_matrix("table", 512, 64);
                let y = b.embed(table, scale);
                b.output(y);
            }));
        }
    }
    cases.push(Case::new("embed/Q6_K/long".to_owned(), 1e-6).dtype(zinc_gguf::DType::Q6_K).tokens(3).build(|b| {
        let table = b.model_matrix("table", 4096, 9);
        let y = b.embed(table, 1.0);
        b.output(y);
    }));
    cases
}
