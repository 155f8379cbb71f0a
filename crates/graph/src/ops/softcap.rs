//! `y[t][i] = cap * tanh(x[t][i] / cap)`

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId};
use crate::shape::Shape;

/// Soft limit of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softcap {
    /// The value never passed.
    pub cap: f32,
}

impl Builder {
    /// Limits every element softly to `cap`.
    pub const fn softcap(&mut self, x: ValueId, cap: f32) -> ValueId {
        let shape = self.shape(x);
        self.node(Op::Softcap(Softcap { cap }), Operands::values(&[x]), &[shape])
    }
}

impl Softcap {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let cap = f64::from(self.cap);
        for (y, x) in io.outputs[0].iter_mut().zip(io.inputs[0]) {
            *y = (cap * (f64::from(*x) / cap).tanh()) as f32;
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    [(1, 512, 1.0), (3, 77, 60.0)]
        .map(|(n_tokens, width, spread)| {
            Case::new(format!("softcap/{n_tokens}x{width}"), 2e-6).spread(spread).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(width));
                let y = b.softcap(x, 30.0);
                b.output(y);
            })
        })
        .into()
}
