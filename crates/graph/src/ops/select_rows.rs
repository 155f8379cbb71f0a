//! `y[r][i] = x[output_rows[r]][i]`
//!
//! Only rows whose logits are wanted pass the head. `output_rows` comes from the batch.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::{Rows, Shape};

impl Builder {
    /// `[Outputs, cols]` of `[Tokens, cols]`.
    pub const fn select_rows(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.check("select_rows", "the input must have a row per token", Rows::Tokens as u32, shape.rows as u32);
        self.node(Op::SelectRows, Operands::values(&[x]), &[Shape::outputs(shape.cols)])
    }
}

pub(super) fn reference(io: &mut Io<'_>) {
    if io.rows == 0 {
        return;
    }
    let cols = io.outputs[0].len() / io.rows;
    for (y, &row) in io.outputs[0].chunks_exact_mut(cols).zip(&io.batch.output_rows) {
        y.copy_from_slice(&io.inputs[0][row as usize * cols..][..cols]);
    }
}

pub(super) fn cases() -> Vec<Case> {
    let wanted: [(&str, u32, &[u32]); 4] =
        [("one", 1, &[0]), ("last", 9, &[8]), ("some", 9, &[0, 3, 8]), ("none", 4, &[])];
    wanted
        .map(|(name, n_tokens, rows)| {
            Case::new(format!("select_rows/{name}"), 0.0).tokens(n_tokens).outputs(rows).build(|b| {
                let x = b.input(Shape::tokens(100));
                let y = b.select_rows(x);
                b.output(y);
            })
        })
        .into()
}
