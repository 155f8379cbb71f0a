//! `rope` of queries and keys, `kv_write`, then `attention` over that cache, fused, with or without `rms_norm` of each head of
//! both before, and with or without `slice` of each head of the queries before that
//!
//! Axes: as in its parts. The keys and values of the step go into the cache and are seen by its own queries.

use crate::backend::KvFormat;
use crate::conformance::{Case, CaseBuilder};
use crate::ops::{Attention, Io, KvWrite, NormRope, RmsNorm, Rope, RopeKvWrite, RopeMode, Slice};
use crate::section::Builder;
use crate::shape::Shape;

/// Inputs: queries, keys, values. Weights: if there is a norm, that of the queries and that of the keys; then perhaps
/// frequency factors; then perhaps sinks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeAttention {
    /// Where the heads of the queries lie in a wider row, if they do; what is kept of a group is a head.
    pub slice: Option<Slice>,
    /// Norm of each head of the queries and of the keys.
    pub norm: Option<RmsNorm>,
    /// Rotation of both.
    pub rope: Rope,
    /// Whether a weight divides its frequencies.
    pub has_factors: bool,
    /// The store of keys and values.
    pub write: KvWrite,
    /// The attention.
    pub attention: Attention,
}

impl RopeAttention {
    /// Place of the frequency factors among the weights, if there are any.
    #[must_use]
    pub fn factors_at(&self) -> Option<usize> {
        self.has_factors.then_some(self.n_norms())
    }

    /// Place of the sinks among the weights, if there are any.
    #[must_use]
    pub fn sinks_at(&self) -> usize {
        self.n_norms() + usize::from(self.has_factors)
    }

    fn n_norms(&self) -> usize {
        if self.norm.is_some() { 2 } else { 0 }
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (weights, rows, batch) = (io.weights, io.rows, io.batch);
        let (norms, factors, sinks) =
            (&weights[..self.n_norms()], &weights[self.n_norms()..self.sinks_at()], &weights[self.sinks_at()..]);
        let of_head = |i: usize| norms.get(i).into_iter().chain(factors).copied().collect::<Vec<_>>();
        let mut q = vec![vec![0.0; io.outputs[0].len()]];
        let of_q = of_head(0);
        let mut rotated = Io { inputs: &io.inputs[..1], weights: &of_q, outputs: &mut q, batch, resource: None, rows };
        match self.norm {
            Some(norm) => NormRope { slice: self.slice, norm, rope: self.rope }.reference(&mut rotated),
            None => self.rope.reference(&mut rotated),
        }
        let write = RopeKvWrite { norm: self.norm, rope: self.rope, write: self.write };
        let (resource, weights) = (io.resource.as_deref_mut(), &of_head(1));
        write.reference(&mut Io { inputs: &io.inputs[1..], weights, outputs: &mut [], batch, resource, rows });
        let (inputs, resource) = ([q[0].as_slice()], io.resource.as_deref_mut());
        self.attention.reference(&mut Io {
            inputs: &inputs,
            weights: sinks,
            outputs: io.outputs,
            batch,
            resource,
            rows,
        });
    }
}

/// What a case is made of beside its steps.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    op: Attention,
    n_rot: u32,
    mode: RopeMode,
    is_normed: bool,
    has_factors: bool,
    has_sinks: bool,
    /// Queries lie beside as many columns of something else.
    is_sliced: bool,
    kv_format: KvFormat,
}

impl Kind {
    fn build(&self, b: &mut Builder) {
        let Attention { n_heads, n_kv_heads, head_dim, .. } = self.op;
        let rope = Rope { head_dim, n_rot: self.n_rot, mode: self.mode, base: 1e4, position_scale: 1.0, yarn: None };
        let n_groups = if self.is_sliced { 2 } else { 1 };
        let mut q = b.input(Shape::tokens(n_groups * n_heads * head_dim));
        let mut k = b.input(Shape::tokens(n_kv_heads * head_dim));
        let v = b.input(Shape::tokens(n_kv_heads * head_dim));
        if self.is_sliced {
            q = b.slice_groups(q, 2 * head_dim, head_dim, head_dim);
        }
        if self.is_normed {
            let (of_q, of_k) = (b.vector("q_norm", head_dim), b.vector("k_norm", head_dim));
            q = b.rms_norm_groups(q, Some(of_q), head_dim, 1e-6);
            k = b.rms_norm_groups(k, Some(of_k), head_dim, 1e-6);
        }
        if self.has_factors {
            let factors = b.vector("factors", self.n_rot / 2);
            (q, k) = (b.rope_factors(q, factors, rope), b.rope_factors(k, factors, rope));
        } else {
            (q, k) = (b.rope(q, rope), b.rope(k, rope));
        }
        let cache = b.kv_cache(n_kv_heads, head_dim);
        b.kv_write(k, v, cache);
        let sinks = if self.has_sinks { Some(b.vector("sinks", n_heads)) } else { None };
        let y = b.attention(q, cache, sinks, self.op);
        b.output(y);
    }
}

/// The parts, which a backend that has the fusion fuses itself. A key that differs in its last bit may be rounded to the
/// neighbour in f16, or to the next of 127 steps: hence the tolerances. The last step of each sequence sees what the others
/// have written.
pub(super) fn cases() -> Vec<Case> {
    let op = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.125, window: 0, softcap: 0.0 };
    let plain = Kind {
        name: "plain",
        op,
        n_rot: 64,
        mode: RopeMode::HalfSplit,
        is_normed: false,
        has_factors: false,
        has_sinks: false,
        is_sliced: false,
        kv_format: KvFormat::F16,
    };
    let normed = Kind { name: "normed", is_normed: true, ..plain };
    let of_128 = Attention { n_heads: 8, n_kv_heads: 2, head_dim: 128, scale: 0.088, ..op };
    let of_256 = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 256, scale: 0.0625, ..op };
    let kinds = [
        plain,
        normed,
        Kind { name: "adjacent", mode: RopeMode::Adjacent, has_factors: true, ..plain },
        Kind { name: "of_128", op: of_128, n_rot: 128, ..normed },
        Kind { name: "sliced", op: of_256, n_rot: 64, is_sliced: true, ..normed },
        Kind { name: "sinks", op: Attention { window: 20, ..op }, has_factors: true, has_sinks: true, ..normed },
        Kind { name: "softcap", op: Attention { softcap: 2.0, ..of_256 }, n_rot: 256, ..plain },
        // Pairs that do not lie whole eights of columns apart, and whole eights whose number is no power of two.
        Kind { name: "part", n_rot: 24, ..normed },
        Kind { name: "of_96", op: Attention { head_dim: 96, ..op }, n_rot: 96, ..plain },
        Kind { name: "q8", kv_format: KvFormat::Q8, ..plain },
        Kind { name: "q8_normed", op: of_128, n_rot: 64, kv_format: KvFormat::Q8, ..normed },
        Kind { name: "f32", kv_format: KvFormat::F32, ..normed },
    ];
    let mut cases = Vec::new();
    for kind in kinds {
        let tolerance = if kind.kv_format == KvFormat::Q8 { 5e-3 } else { 1e-3 };
        let case = |steps: &str| {
            let case = Case::new(format!("rope_attention/{}/{steps}", kind.name), tolerance).prepare(positive_factors);
            case.own_pages().kv_format(kind.kv_format)
        };
        let build = |case: CaseBuilder| case.build(|b| kind.build(b));
        cases.push(build(case("ones").steps(&[1; 19])));
        // One or several tokens of each sequence.
        cases.push(build(case("crowd").crowd(&[&[4, 1, 0], &[1, 1, 1], &[0, 1, 5], &[1, 2, 3], &[1, 1, 1]])));
    }
    // Keys in several parts, of which the last have those of the step.
    for (name, steps) in [("fours", &[[4; 66].as_slice(), &[1, 1, 3]].concat()), ("eights", &vec![8; 21])] {
        let case = Case::new(format!("rope_attention/long/{name}"), 1e-3).steps(steps);
        cases.push(case.build(|b| Kind { op: of_128, n_rot: 128, ..normed }.build(b)));
    }
    cases
}

fn positive_factors(name: &str, values: &mut [f32]) {
    if name == "factors" {
        values.iter_mut().for_each(|x| *x = 1.0 + x.abs());
    }
}
