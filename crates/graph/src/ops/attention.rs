//! `o[t][h] = sum_j p[j] V[j][g]`, `p = softmax_j(cap(scale * q[t][h] . K[j][g]))`, `g = h / (n_heads / n_kv_heads)`
//!
//! Axes: `t` tokens, `h` query heads, `g` key/value heads, `j` keys of the token's sequence with
//! `j <= pos[t]` and, with a window `W`, `j > pos[t] - W`. Keys lie in 16-token pages named by the
//! sequence's block table. A soft-cap maps a score to `c * tanh(s / c)`. A sink is one more logit
//! per head with no value: it only enlarges the denominator.
//! Sources: Vaswani et al., 2017; Kwon et al., "PagedAttention", 2023; gpt-oss for sinks.

use crate::backend::KvFormat;
use crate::batch::{Batch, PageGroup};
use crate::conformance::{Case, CaseBuilder};
use crate::ops::{Io, Op};
use crate::reference::Resource;
use crate::section::{Builder, Operands, ResourceDecl, ResourceId, ResourceKind, ValueId, WeightId};
use crate::shape::Shape;

/// Grouped-query causal attention over the paged cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub n_heads: u32,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: u32,
    /// Columns of a head.
    pub head_dim: u32,
    /// Multiplies the dot products.
    pub scale: f32,
    /// Keys that a query sees, itself included; 0 is all of them.
    pub window: u32,
    /// Soft limit of the scores; 0 is none.
    pub softcap: f32,
}

impl Builder {
    /// The layer's own cache of keys and values.
    pub const fn kv_cache(&mut self, n_kv_heads: u32, head_dim: u32) -> ResourceId {
        self.resource(ResourceDecl { kind: ResourceKind::Kv { n_kv_heads, head_dim }, borrowed: false })
    }

    /// The cache of the layer that [`crate::blueprint::Layer::kv_of`] names.
    pub const fn kv_cache_of_other_layer(&mut self, n_kv_heads: u32, head_dim: u32) -> ResourceId {
        self.resource(ResourceDecl { kind: ResourceKind::Kv { n_kv_heads, head_dim }, borrowed: true })
    }

    /// `[Tokens, n_heads * head_dim]`; `sinks` is `[n_heads]`.
    pub const fn attention(
        &mut self,
        q: ValueId,
        cache: ResourceId,
        sinks: Option<WeightId>,
        op: Attention,
    ) -> ValueId {
        let shape = self.shape(q);
        self.check(
            "attention",
            "n_heads * head_dim must be the width of the queries",
            shape.cols,
            op.n_heads * op.head_dim,
        );
        if op.n_kv_heads == 0 || !op.n_heads.is_multiple_of(op.n_kv_heads) {
            self.fail("attention", "n_kv_heads must divide n_heads", op.n_heads, op.n_kv_heads);
        }
        if let ResourceKind::Kv { n_kv_heads, head_dim } = self.resource_kind(cache) {
            self.check("attention", "the cache must hold as many heads", op.n_kv_heads, n_kv_heads);
            self.check("attention", "the cache must hold heads of the same width", op.head_dim, head_dim);
        } else {
            self.fail("attention", "the resource must be a cache of keys and values", 1, 0);
        }
        let values = [q];
        let operands = Operands::values(&values).resource(cache);
        match sinks {
            Some(sinks) => {
                let n = self.weight_shape(sinks)[0];
                self.check("attention", "there must be one sink per query head", op.n_heads, n);
                let weights = [sinks];
                self.node(Op::Attention(op), operands.weights(&weights), &[shape])
            }
            None => self.node(Op::Attention(op), operands, &[shape]),
        }
    }
}

impl Attention {
    /// First key that the query at `position` sees.
    #[must_use]
    pub const fn first_key(&self, position: u32) -> u32 {
        if self.window == 0 { 0 } else { (position + 1).saturating_sub(self.window) }
    }

    pub(super) fn reference(self, io: &mut Io<'_>) {
        let (n_heads, head_dim) = (self.n_heads as usize, self.head_dim as usize);
        let Some(Resource::Kv { group, k, v, .. }) = io.resource.as_deref() else {
            unreachable!("the builder gives attention a cache")
        };
        for t in 0..io.rows {
            for h in 0..n_heads {
                let at = (t * n_heads + h) * head_dim;
                let q = &io.inputs[0][at..at + head_dim];
                let sink = io.weights.first().map(|sinks| f64::from(sinks[h]));
                let y = self.one_head(q, sink, h, t, io.batch, *group, k, v);
                io.outputs[0][at..at + head_dim].copy_from_slice(&y);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the operands of one head, used once")]
    fn one_head(
        &self,
        q: &[f32],
        sink: Option<f64>,
        h: usize,
        t: usize,
        batch: &Batch,
        pages: PageGroup,
        k: &[f32],
        v: &[f32],
    ) -> Vec<f32> {
        let head_dim = self.head_dim as usize;
        let group = h / (self.n_heads / self.n_kv_heads) as usize;
        let position = batch.positions[t];
        let row = |j: u32| {
            let slot = batch.slot_of(pages, batch.seq_idx[t], j) as usize;
            (slot * self.n_kv_heads as usize + group) * head_dim
        };
        let keys = self.first_key(position)..=position;
        let scores: Vec<f64> = keys
            .clone()
            .map(|j| {
                let dot: f64 = q.iter().zip(&k[row(j)..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let score = dot * f64::from(self.scale);
                let cap = f64::from(self.softcap);
                if cap == 0.0 { score } else { cap * (score / cap).tanh() }
            })
            .collect();
        let max = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().copied().chain(sink).map(|s| (s - max).exp()).sum();
        let mut y = vec![0.0f64; head_dim];
        for (j, score) in keys.zip(&scores) {
            let p = (score - max).exp() / sum;
            for (y, v) in y.iter_mut().zip(&v[row(j)..]) {
                *y += p * f64::from(*v);
            }
        }
        y.iter().map(|&y| y as f32).collect()
    }
}

pub(super) fn cases() -> Vec<Case> {
    let plain = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.125, window: 0, softcap: 0.0 };
    let kinds = [
        ("grouped", plain, false),
        ("one_head", Attention { n_heads: 1, n_kv_heads: 1, ..plain }, false),
        ("wide", Attention { n_heads: 2, n_kv_heads: 1, head_dim: 256, scale: 0.0625, ..plain }, false),
        ("widest", Attention { n_heads: 2, n_kv_heads: 1, head_dim: 512, scale: 0.05, ..plain }, false),
        ("groups_of_7", Attention { n_heads: 14, n_kv_heads: 2, ..plain }, false),
        ("window", Attention { window: 16, ..plain }, false),
        ("window_in_page", Attention { window: 5, ..plain }, false),
        ("softcap", Attention { softcap: 2.0, ..plain }, false),
        ("sinks", plain, true),
        ("sinks_and_window", Attention { window: 17, ..plain }, true),
    ];
    let mut cases = Vec::new();
    for (name, op, sinks) in kinds {
        let case_of = |case: CaseBuilder| {
            case.build(|b| {
                let q = b.input(Shape::tokens(op.n_heads * op.head_dim));
                let k = b.input(Shape::tokens(op.n_kv_heads * op.head_dim));
                let v = b.input(Shape::tokens(op.n_kv_heads * op.head_dim));
                let cache = b.kv_cache(op.n_kv_heads, op.head_dim);
                b.kv_write(k, v, cache);
                let sinks = if sinks { Some(b.vector("sinks", op.n_heads)) } else { None };
                let y = b.attention(q, cache, sinks, op);
                b.output(y);
            })
        };
        for steps in [&[1, 1][..], &[17], &[5, 33, 1], &[130, 1]] {
            cases.push(case_of(Case::new(format!("attention/{name}/{steps:?}"), 1e-5).steps(steps)));
        }
        let crowd: [&[u32]; 4] = [&[33, 1, 0], &[1, 20, 7], &[0, 1, 40], &[1, 1, 1]];
        cases.push(case_of(Case::new(format!("attention/{name}/crowd"), 1e-5).crowd(&crowd)));
    }
    cases.extend(own_pages());
    cases.extend(in_bytes());
    // Its output may be kept in a form that suits the product.
    cases.push(Case::new("attention/before_matmul".into(), 2e-5).crowd(&[&[40, 1, 3]]).build(|b| {
        let q = b.input(Shape::tokens(256));
        let (k, v) = (b.input(Shape::tokens(128)), b.input(Shape::tokens(128)));
        let cache = b.kv_cache(2, 64);
        b.kv_write(k, v, cache);
        let y = b.attention(q, cache, None, plain);
        let w = b.matrix("w", 256, 48);
        let z = b.matmul(y, w);
        b.output(z);
    }));
    cases
}

/// Two layers of one token's width, one of which sees a window and has pages of its own.
fn own_pages() -> Vec<Case> {
    let whole = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.125, window: 0, softcap: 0.0 };
    let mut cases = Vec::new();
    for window in [1, 5, 16, 33] {
        let case_of = |case: CaseBuilder| {
            case.own_pages().build(|b| {
                let (q, k, v) = (b.input(Shape::tokens(256)), b.input(Shape::tokens(128)), b.input(Shape::tokens(128)));
                let (cache, windowed) = (b.kv_cache(2, 64), b.kv_cache(2, 64));
                b.kv_write(k, v, cache);
                b.kv_write(v, k, windowed);
                let x = b.attention(q, cache, None, whole);
                let y = b.attention(x, windowed, None, Attention { window, ..whole });
                b.output(x);
                b.output(y);
            })
        };
        let name = format!("attention/own_pages_of_{window}");
        cases.push(case_of(Case::new(format!("{name}/steps"), 2e-5).steps(&[40, 1, 17, 1, 1, 70, 1])));
        let crowd: [&[u32]; 5] = [&[33, 1, 0], &[1, 20, 47], &[30, 1, 40], &[1, 1, 1], &[0, 60, 2]];
        cases.push(case_of(Case::new(format!("{name}/crowd"), 2e-5).crowd(&crowd)));
    }
    cases
}

/// Over a cache of signed bytes. The reference reads what comes back of them, so the tolerance is that of the others.
fn in_bytes() -> Vec<Case> {
    let plain = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.125, window: 0, softcap: 0.0 };
    let kinds = [
        ("grouped", plain),
        ("wide", Attention { n_heads: 2, n_kv_heads: 1, head_dim: 256, scale: 0.0625, ..plain }),
        ("widest", Attention { n_heads: 2, n_kv_heads: 1, head_dim: 512, scale: 0.05, ..plain }),
        ("groups_of_7", Attention { n_heads: 21, n_kv_heads: 3, ..plain }),
        ("window", Attention { window: 17, ..plain }),
        ("narrow", Attention { n_heads: 3, n_kv_heads: 3, head_dim: 32, ..plain }),
    ];
    let mut cases = Vec::new();
    for (name, op) in kinds {
        let case_of = |case: CaseBuilder| {
            case.kv_format(KvFormat::Q8).build(|b| {
                let q = b.input(Shape::tokens(op.n_heads * op.head_dim));
                let k = b.input(Shape::tokens(op.n_kv_heads * op.head_dim));
                let v = b.input(Shape::tokens(op.n_kv_heads * op.head_dim));
                let cache = b.kv_cache(op.n_kv_heads, op.head_dim);
                b.kv_write(k, v, cache);
                let y = b.attention(q, cache, None, op);
                b.output(y);
            })
        };
        for steps in [&[5, 33, 1][..], &[130, 1]] {
            cases.push(case_of(Case::new(format!("attention/q8/{name}/{steps:?}"), 1e-5).steps(steps)));
        }
        let crowd: [&[u32]; 4] = [&[33, 1, 0], &[1, 20, 7], &[0, 1, 40], &[1, 1, 1]];
        cases.push(case_of(Case::new(format!("attention/q8/{name}/crowd"), 1e-5).crowd(&crowd)));
    }
    // From magnitudes whose scales have few bits in f16 to some that no f16 holds.
    let extremes = |name: &str, values: &mut [f32]| {
        if name != "input.0" {
            values.iter_mut().enumerate().for_each(|(i, x)| *x *= [1e-7, 1e-4, 30.0, 2e5][i / 32 % 4]);
        }
    };
    cases.push(
        Case::new("attention/q8/extremes".into(), 1e-5).kv_format(KvFormat::Q8).prepare(extremes).tokens(9).build(
            |b| {
                let (q, k, v) = (b.input(Shape::tokens(128)), b.input(Shape::tokens(128)), b.input(Shape::tokens(128)));
                let cache = b.kv_cache(1, 128);
                b.kv_write(k, v, cache);
                let scale = 1e-6;
                let op = Attention { n_heads: 1, n_kv_heads: 1, head_dim: 128, scale, window: 0, softcap: 0.0 };
                let y = b.attention(q, cache, None, op);
                b.output(y);
            },
        ),
    );
    cases
}
