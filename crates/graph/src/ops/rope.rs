//! Rotary position embedding on the first `n_rot` columns of every head:
//! `(x, y) -> m * (x cos a - y sin a, x sin a + y cos a)`, `a = pos * inv_freq[i]`, `i < n_rot / 2`
//!
//! Axes: `t` tokens, `h` heads of `head_dim` columns, `i` pairs. A pair is `(x[i], x[i + n_rot/2])`
//! ([`RopeMode::HalfSplit`]) or `(x[2i], x[2i+1])` ([`RopeMode::Adjacent`]). Angles are f32:
//! an f32 frequency times the position, as the reference implementations have it.
//! Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023.

use crate::conformance::Case;
use crate::ops::{Io, Op};
use crate::section::{Builder, Operands, ValueId, WeightId};
use crate::shape::Shape;

/// Which columns form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeMode {
    /// `(x[i], x[i + n_rot/2])`: NeoX, Qwen, Gemma, gpt-oss.
    HalfSplit,
    /// `(x[2i], x[2i+1])`: Llama files, whose rows were permuted for it.
    Adjacent,
}

/// YaRN's interpolation between scaled and unscaled frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Context extension.
    pub factor: f32,
    /// Context length of training.
    pub original_context: f32,
    /// Turns above which a frequency is left alone.
    pub beta_fast: f32,
    /// Turns below which a frequency is divided by `factor`.
    pub beta_slow: f32,
    /// Whether the limits between which frequencies are mixed are rounded outwards to whole pairs.
    pub rounded_limits: bool,
}

/// Rotation of the heads of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Columns of a head.
    pub head_dim: u32,
    /// Rotated columns of a head, even.
    pub n_rot: u32,
    /// Pairing.
    pub mode: RopeMode,
    /// Base of the frequencies.
    pub base: f32,
    /// Positions are multiplied by this (linear scaling: 1 / factor).
    pub position_scale: f32,
    /// YaRN, if the model was trained with it.
    pub yarn: Option<Yarn>,
}

impl Builder {
    /// Rotates every head of `x`.
    pub const fn rope(&mut self, x: ValueId, rope: Rope) -> ValueId {
        let shape = self.rope_rule(x, &rope);
        self.node(Op::Rope(rope), Operands::values(&[x]), &[shape])
    }

    /// Rotates every head of `x`; frequency `i` is divided by `factors[i]`.
    pub const fn rope_factors(&mut self, x: ValueId, factors: WeightId, rope: Rope) -> ValueId {
        let shape = self.rope_rule(x, &rope);
        let n = self.weight_shape(factors)[0];
        self.check("rope", "there must be one frequency factor per rotated pair", rope.n_rot / 2, n);
        self.node(Op::Rope(rope), Operands::values(&[x]).weights(&[factors]), &[shape])
    }

    const fn rope_rule(&mut self, x: ValueId, rope: &Rope) -> Shape {
        let shape = self.shape(x);
        if rope.head_dim == 0 || !shape.cols.is_multiple_of(rope.head_dim) {
            self.fail("rope", "the head must divide the row", rope.head_dim, shape.cols);
        }
        if rope.n_rot > rope.head_dim || !rope.n_rot.is_multiple_of(2) {
            self.fail("rope", "the rotated part must be even and inside the head", rope.head_dim, rope.n_rot);
        }
        shape
    }
}

impl Rope {
    /// Frequency of each pair, `[n_rot / 2]`, in f64 rounded once; `factors` divide them.
    #[must_use]
    pub fn inverse_frequencies(&self, factors: Option<&[f32]>) -> Vec<f32> {
        let n = f64::from(self.n_rot);
        let base = f64::from(self.base);
        (0..self.n_rot / 2)
            .map(|i| {
                let plain = base.powf(-2.0 * f64::from(i) / n) * f64::from(self.position_scale);
                let scaled = self.yarn.map_or(plain, |yarn| yarn.frequency(plain, f64::from(i), n, base));
                (scaled / factors.map_or(1.0, |f| f64::from(f[i as usize]))) as f32
            })
            .collect()
    }

    /// The factor `m` on cosine and sine.
    #[must_use]
    pub fn magnitude(&self) -> f32 {
        self.yarn.map_or(1.0, |yarn| 0.1f32.mul_add(yarn.factor.ln(), 1.0))
    }

    /// Columns of pair `i` inside a head.
    #[must_use]
    pub const fn pair(&self, i: usize) -> (usize, usize) {
        match self.mode {
            RopeMode::HalfSplit => (i, i + self.n_rot as usize / 2),
            RopeMode::Adjacent => (2 * i, 2 * i + 1),
        }
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let frequencies = self.inverse_frequencies(io.weights.first().copied());
        let magnitude = f64::from(self.magnitude());
        let (head_dim, cols) = (self.head_dim as usize, io.cols(0));
        io.outputs[0].copy_from_slice(io.inputs[0]);
        for (row, &position) in io.outputs[0].chunks_exact_mut(cols).zip(&io.batch.positions) {
            for head in row.chunks_exact_mut(head_dim) {
                for (i, &frequency) in frequencies.iter().enumerate() {
                    let angle = f64::from(position as f32 * frequency);
                    let (sin, cos) = (angle.sin() * magnitude, angle.cos() * magnitude);
                    let (a, b) = self.pair(i);
                    let (x, y) = (f64::from(head[a]), f64::from(head[b]));
                    head[a] = (x * cos - y * sin) as f32;
                    head[b] = (x * sin + y * cos) as f32;
                }
            }
        }
    }
}

impl Yarn {
    /// Frequency `i` between `plain / factor` and `plain`.
    fn frequency(self, plain: f64, i: f64, n_rot: f64, base: f64) -> f64 {
        let turns = |r: f32| {
            let wavelengths = f64::from(self.original_context) / (std::f64::consts::TAU * f64::from(r));
            n_rot * wavelengths.ln() / (2.0 * base.ln())
        };
        let (low, high) = match (turns(self.beta_fast), turns(self.beta_slow)) {
            (low, high) if self.rounded_limits => (low.floor(), high.ceil()),
            limits => limits,
        };
        let (low, high) = (low.max(0.0), high.min(n_rot - 1.0));
        let ramp = ((i - low) / (high - low).max(1e-3)).clamp(0.0, 1.0);
        plain / f64::from(self.factor) * ramp + plain * (1.0 - ramp)
    }
}

pub(super) fn cases() -> Vec<Case> {
    let plain = Rope { head_dim: 64, n_rot: 64, mode: RopeMode::HalfSplit, base: 1e6, position_scale: 1.0, yarn: None };
    let yarn = Yarn { factor: 32.0, original_context: 4096.0, beta_fast: 32.0, beta_slow: 1.0, rounded_limits: false };
    let kinds = [
        ("half_split", plain),
        ("adjacent", Rope { mode: RopeMode::Adjacent, base: 1e4, ..plain }),
        ("partial", Rope { head_dim: 256, n_rot: 64, base: 1e7, ..plain }),
        ("linear", Rope { position_scale: 0.125, ..plain }),
        ("yarn", Rope { base: 150_000.0, yarn: Some(yarn), ..plain }),
        ("yarn_rounded", Rope { base: 150_000.0, yarn: Some(Yarn { rounded_limits: true, ..yarn }), ..plain }),
    ];
    let mut cases = Vec::new();
    for (name, rope) in kinds {
        for (n_tokens, start, heads) in [(1, 0, 1), (1, 4097, 3), (7, 0, 2), (33, 1000, 5)] {
            let label = format!("rope/{name}/{n_tokens}@{start}");
            cases.push(Case::new(label, 2e-4).tokens(n_tokens).start(start).build(|b| {
                let x = b.input(Shape::tokens(heads * rope.head_dim));
                let y = b.rope(x, rope);
                b.output(y);
            }));
        }
        cases.push(Case::new(format!("rope/{name}/factors"), 2e-4).tokens(9).build(|b| {
            let x = b.input(Shape::tokens(2 * rope.head_dim));
            let factors = b.vector("rope_freqs", rope.n_rot / 2);
            let y = b.rope_factors(x, factors, rope);
            b.output(y);
        }));
    }
    cases
}
