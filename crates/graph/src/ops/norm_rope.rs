//! `rope(rms_norm(x))` with a norm over each head, fused, with or without `slice` of each head before it
//!
//! Axes: as in its parts.

use crate::conformance::Case;
use crate::ops::{Io, RmsNorm, Rope, RopeMode, Slice};
use crate::shape::Shape;

/// Norm of each head, then its rotation. Weights: the norm's, then perhaps frequency factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormRope {
    /// Where the heads lie in a wider row, if they do; what is kept of a group is a head.
    pub slice: Option<Slice>,
    /// The norm; its group is a head.
    pub norm: RmsNorm,
    /// The rotation.
    pub rope: Rope,
}

impl NormRope {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (mut inputs, weights, rows, batch) = (io.inputs, io.weights, io.rows, io.batch);
        let mut heads = vec![vec![0.0; io.outputs[0].len()]];
        let of_heads;
        if let Some(slice) = self.slice {
            slice.reference(&mut Io { inputs, weights: &[], outputs: &mut heads, batch, resource: None, rows });
            of_heads = [heads[0].as_slice()];
            inputs = &of_heads;
        }
        let mut x = vec![vec![0.0; io.outputs[0].len()]];
        let first = &weights[..1];
        self.norm.reference(&mut Io { inputs, weights: first, outputs: &mut x, batch, resource: None, rows });
        let inputs = [x[0].as_slice()];
        self.rope.reference(&mut Io {
            inputs: &inputs,
            weights: &weights[1..],
            outputs: io.outputs,
            batch,
            resource: None,
            rows,
        });
    }
}

/// The parts, which a backend that has the fusion fuses itself.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (mode, head_dim, n_rot, has_factors) in [
        (RopeMode::HalfSplit, 128, 128, false),
        (RopeMode::HalfSplit, 256, 64, true),
        (RopeMode::Adjacent, 64, 64, true),
    ] {
        for n_tokens in [1, 11] {
            let name = format!("norm_rope/{mode:?}/{head_dim}/{n_tokens}");
            cases.push(Case::new(name, 1e-5).tokens(n_tokens).start(1000).prepare(positive_factors).build(|b| {
                let x = b.input(Shape::tokens(3 * head_dim));
                let w = b.vector("norm", head_dim);
                let h = b.rms_norm_groups(x, Some(w), head_dim, 1e-6);
                let rope = Rope { head_dim, n_rot, mode, base: 1e6, position_scale: 1.0, yarn: None };
                let y = if has_factors {
                    let factors = b.vector("factors", n_rot / 2);
                    b.rope_factors(h, factors, rope)
                } else {
                    b.rope(h, rope)
                };
                b.output(y);
            }));
        }
    }
    for (n_tokens, offset) in [(1, 0), (11, 64), (70, 20)] {
        cases.push(Case::new(format!("norm_rope/slice/{offset}/{n_tokens}"), 1e-5).tokens(n_tokens).start(50).build(
            |b| {
                let x = b.input(Shape::tokens(3 * 128));
                let heads = b.slice_groups(x, 128, offset, 64);
                let w = b.vector("norm", 64);
                let h = b.rms_norm_groups(heads, Some(w), 64, 1e-6);
                let mode = RopeMode::HalfSplit;
                let y = b.rope(h, Rope { head_dim: 64, n_rot: 32, mode, base: 1e6, position_scale: 1.0, yarn: None });
                b.output(y);
            },
        ));
    }
    cases
}

fn positive_factors(name: &str, values: &mut [f32]) {
    if name == "factors" {
        values.iter_mut().for_each(|x| *x = 1.0 + x.abs());
    }
}
