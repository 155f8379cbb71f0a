//! `y = act(slice(x)) * up`, fused: the gate is read where it lies
//!
//! Axes: as in its parts.

use crate::conformance::Case;
use crate::ops::{Activation, Glu, Io, Slice};
use crate::shape::Shape;

/// `glu` whose gate is a cut of a wider row. Inputs: that row, `up`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceGlu {
    /// Where the gate lies.
    pub slice: Slice,
    /// The gate's function.
    pub glu: Glu,
}

impl SliceGlu {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let mut gate = vec![vec![0.0; io.inputs[1].len()]];
        let (inputs, batch, rows) = (&io.inputs[..1], io.batch, io.rows);
        self.slice.reference(&mut Io { inputs, weights: &[], outputs: &mut gate, batch, resource: None, rows });
        let inputs = [gate[0].as_slice(), io.inputs[1]];
        self.glu.reference(&mut Io { inputs: &inputs, weights: &[], outputs: io.outputs, batch, resource: None, rows });
    }
}

/// The parts, which a backend that has the fusion fuses itself.
pub(super) fn cases() -> Vec<Case> {
    let case = |(n_tokens, groups, width_in, offset, width): (u32, u32, u32, u32, u32)| {
        let name = format!("slice_glu/{n_tokens}x{groups}x{width_in}/{offset}+{width}");
        Case::new(name, 2e-6).tokens(n_tokens).build(|b| {
            let (x, up) = (b.input(Shape::tokens(groups * width_in)), b.input(Shape::tokens(groups * width)));
            let gate = b.slice_groups(x, width_in, offset, width);
            let y = b.glu(gate, up, Activation::Sigmoid);
            b.output(y);
        })
    };
    [(1, 4, 512, 256, 256), (3, 2, 77, 5, 33), (35, 1, 100, 0, 64)].map(case).into()
}
