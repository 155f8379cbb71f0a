//! `kv_write(rope(k), v)`, fused, with or without `rms_norm` of each head of `k` before it
//!
//! Axes: as in its parts. The rotated keys go into the cache and nowhere else.

use crate::backend::KvFormat;
use crate::batch::Batch;
use crate::conformance::Case;
use crate::ops::{Attention, Io, KvWrite, NormRope, RmsNorm, Rope, RopeMode};
use crate::shape::Shape;

/// Rotation of keys, then the store of keys and values. Weights: the norm's if there is one, then
/// perhaps frequency factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeKvWrite {
    /// Norm of each head of the keys.
    pub norm: Option<RmsNorm>,
    /// Rotation of the keys.
    pub rope: Rope,
    /// The store.
    pub write: KvWrite,
}

impl RopeKvWrite {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let mut k = vec![vec![0.0; io.inputs[0].len()]];
        let batch: &Batch = io.batch;
        let mut of_k =
            Io { inputs: &io.inputs[..1], weights: io.weights, outputs: &mut k, batch, resource: None, rows: io.rows };
        // Without outputs the node has no rows of its own.
        of_k.rows = batch.n_tokens();
        match self.norm {
            Some(norm) => NormRope { slice: None, norm, rope: self.rope }.reference(&mut of_k),
            None => self.rope.reference(&mut of_k),
        }
        let (inputs, resource) = ([k[0].as_slice(), io.inputs[1]], io.resource.as_deref_mut());
        self.write.reference(&mut Io {
            inputs: &inputs,
            weights: &[],
            outputs: io.outputs,
            batch,
            resource,
            rows: io.rows,
        });
    }
}

/// The parts, which a backend that has the fusion fuses itself, seen through attention of queries that are not rotated, with
/// which no fusion takes the keys along. A key that differs in its last
/// bit may be rounded to the neighbour in f16, or to the next of 127 steps: hence the tolerances.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, mode, n_rot, is_normed, window, kv_format) in [
        ("plain", RopeMode::HalfSplit, 64, false, 0, KvFormat::F16),
        ("adjacent", RopeMode::Adjacent, 64, false, 0, KvFormat::F16),
        ("normed", RopeMode::HalfSplit, 64, true, 0, KvFormat::F16),
        ("normed_part", RopeMode::HalfSplit, 24, true, 0, KvFormat::F16),
        ("q8", RopeMode::HalfSplit, 64, false, 0, KvFormat::Q8),
        ("q8_normed_part", RopeMode::Adjacent, 24, true, 0, KvFormat::Q8),
        ("own_pages", RopeMode::HalfSplit, 64, true, 20, KvFormat::F16),
    ] {
        for n_tokens in [1, 19] {
            let tolerance = if kv_format == KvFormat::Q8 { 5e-3 } else { 1e-3 };
            let case = Case::new(format!("rope_kv_write/{name}/{n_tokens}"), tolerance).steps(&[70, n_tokens]);
            cases.push(case.own_pages().kv_format(kv_format).build(|b| {
                let (q, k, v) = (b.input(Shape::tokens(256)), b.input(Shape::tokens(128)), b.input(Shape::tokens(128)));
                let rope = Rope { head_dim: 64, n_rot, mode, base: 1e4, position_scale: 1.0, yarn: None };
                let mut k_heads = k;
                if is_normed {
                    let of_k = b.vector("k_norm", 64);
                    k_heads = b.rms_norm_groups(k, Some(of_k), 64, 1e-6);
                }
                let k = b.rope(k_heads, rope);
                let cache = b.kv_cache(2, 64);
                b.kv_write(k, v, cache);
                let op = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.125, window, softcap: 0.0 };
                let y = b.attention(q, cache, None, op);
                b.output(y);
            }));
        }
    }
    cases
}
