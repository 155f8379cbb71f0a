//! `y[t][h][i] = x[t][h][i] / sqrt(mean_i(x[t][h][i]^2) + eps) * w[i]`
//!
//! Axes: `t` rows, `h` groups of `width` columns (one for a plain norm, a head for q/k norms),
//! `i` inside the group. Without a weight the last factor is absent.
//! Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// Root mean square norm over groups of columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// Columns of a group.
    pub width: u32,
    /// Added to the mean square.
    pub eps: f32,
}

impl Builder {
    /// Norm over the whole row, times `w`.
    pub const fn rms_norm(&mut self, x: ValueId, w: WeightId, eps: f32) -> ValueId {
        let width = self.shape(x).cols;
        self.rms_norm_groups(x, Some(w), width, eps)
    }

    /// Norm over each group of `width` columns, times `w` of that width if there is one.
    pub const fn rms_norm_groups(&mut self, x: ValueId, w: Option<WeightId>, width: u32, eps: f32) -> ValueId {
        let shape = self.shape(x);
        if width == 0 || !shape.cols.is_multiple_of(width) {
            self.fail("rms_norm", "the group must divide the row", width, shape.cols);
        }
        let op = Op::RmsNorm(RmsNorm { width, eps });
        match w {
            Some(w) => {
                let n = self.weight_shape(w)[0];
                self.check("rms_norm", "the weight must be as long as the group", width, n);
                self.node(op, Operands::values(&[x]).weights(&[w]), &[shape])
            }
            None => self.node(op, Operands::values(&[x]), &[shape]),
        }
    }

    /// Fused `s = a + b; y = rms_norm(s)`: returns `(s, y)`.
    pub const fn add_rms_norm(&mut self, a: ValueId, b: ValueId, w: WeightId, eps: f32) -> (ValueId, ValueId) {
        let shape: Shape = self.shape(a);
        self.check("add_rms_norm", "both summands must have the same width", shape.cols, self.shape(b).cols);
        let op = Op::AddRmsNorm(RmsNorm { width: shape.cols, eps });
        let s = self.node(op, Operands::values(&[a, b]).weights(&[w]), &[shape, shape]);
        (s, ValueId(s.0 + 1))
    }
}

impl RmsNorm {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (x, w) = (io.inputs[0], io.weights.first());
        self.normalise(x, w.copied(), &mut io.outputs[0]);
    }

    pub(super) fn reference_after_add(self, io: &mut Io<'_>) {
        let sum: Vec<f32> = io.inputs[0].iter().zip(io.inputs[1]).map(|(a, b)| a + b).collect();
        self.normalise(&sum, io.weights.first().copied(), &mut io.outputs[1]);
        io.outputs[0] = sum;
    }

    fn normalise(self, x: &[f32], w: Option<&[f32]>, y: &mut [f32]) {
        let width = self.width as usize;
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            let sum: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            let inverse = 1.0 / (sum / width as f64 + f64::from(self.eps)).sqrt();
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                let scale = w.map_or(1.0, |w| f64::from(w[i]));
                *y = (f64::from(*x) * inverse * scale) as f32;
            }
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n_tokens, groups, width) in [(1, 1, 64), (3, 1, 576), (7, 3, 128), (33, 1, 2048), (2, 5, 20)] {
        for weighted in [true, false] {
            let name = format!("rms_norm/{n_tokens}x{groups}x{width}{}", if weighted { "" } else { "/plain" });
            cases.push(Case::new(name, 2e-6).tokens(n_tokens).build(|b| {
                let x = b.input(Shape::tokens(groups * width));
                let w = if weighted { Some(b.vector("w", width)) } else { None };
                let y = b.rms_norm_groups(x, w, width, 1e-6);
                b.output(y);
            }));
        }
    }
    for (n_tokens, width) in [(1, 576), (5, 2048)] {
        let name = format!("add_rms_norm/{n_tokens}x{width}");
        cases.push(Case::new(name, 2e-6).tokens(n_tokens).build(|b| {
            let x = b.input(Shape::tokens(width));
            let r = b.input(Shape::tokens(width));
            let w = b.vector("w", width);
            let (s, y) = b.add_rms_norm(x, r, w, 1e-5);
            b.output(s);
            b.output(y);
        }));
    }
    cases
}
