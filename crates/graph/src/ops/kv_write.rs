//! `K[page][place][h][i] = k[t][h][i]`, `V[...] = v[t][h][i]`, with page and place from `kv_slots[t]`
//!
//! Axes: `t` tokens, `h` key/value heads, `i` inside the head. The pool's format rounds the values
//! ([`KvFormat::store`]).
//! The node has no output: attention depends on it through the resource.

use crate::backend::KvFormat;
use crate::conformance::Case;
use crate::ops::{Attention, Io, Op};
use crate::reference::Resource;
use crate::section::{Builder, Operands, ResourceId, ResourceKind, ValueId};
use crate::shape::Shape;

/// Stores the keys and values of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvWrite {
    /// Key and value heads.
    pub n_kv_heads: u32,
    /// Columns of a head.
    pub head_dim: u32,
}

impl Builder {
    /// Writes `k` and `v`, each `[Tokens, n_kv_heads * head_dim]`, into the cache.
    pub const fn kv_write(&mut self, k: ValueId, v: ValueId, cache: ResourceId) {
        let ResourceKind::Kv { n_kv_heads, head_dim } = self.resource_kind(cache) else {
            self.fail("kv_write", "the resource must be a cache of keys and values", 1, 0);
            return;
        };
        let width = n_kv_heads * head_dim;
        self.check("kv_write", "keys must be n_kv_heads * head_dim wide", width, self.shape(k).cols);
        self.check("kv_write", "values must be n_kv_heads * head_dim wide", width, self.shape(v).cols);
        let op = Op::KvWrite(KvWrite { n_kv_heads, head_dim });
        self.node(op, Operands::values(&[k, v]).resource(cache), &[]);
    }
}

impl KvWrite {
    pub(super) fn reference(self, io: &mut Io<'_>) {
        let width = (self.n_kv_heads * self.head_dim) as usize;
        let Some(Resource::Kv { group, k, v, format }) = io.resource.as_deref_mut() else {
            unreachable!("the builder gives kv_write a cache")
        };
        for (t, &slot) in io.batch.places(*group).kv_slots.iter().enumerate() {
            for (cache, x) in [(&mut *k, io.inputs[0]), (&mut *v, io.inputs[1])] {
                format.store(&x[t * width..][..width], &mut cache[slot as usize * width..][..width]);
            }
        }
    }
}

/// What was written is seen through attention with one key: its weight is 1, so the value comes
/// back as the format rounded it.
pub(super) fn cases() -> Vec<Case> {
    let sizes = [(1, 1, 64), (7, 2, 128), (33, 1, 256)];
    // Three groups, and a row that ends in the middle of a word.
    let in_bytes = [(1, 1, 96), (7, 2, 128), (33, 1, 256), (3, 3, 32)];
    let all = sizes.map(|size| (KvFormat::F16, size)).into_iter().chain(in_bytes.map(|size| (KvFormat::Q8, size)));
    all.map(|(format, (n_tokens, heads, head_dim))| {
        let what = if format == KvFormat::Q8 { "q8/" } else { "" };
        let name = format!("kv_write/{what}{n_tokens}x{heads}x{head_dim}");
        Case::new(name, 2e-6).kv_format(format).tokens(n_tokens).build(|b| {
            let width = heads * head_dim;
            let k = b.input(Shape::tokens(width));
            let v = b.input(Shape::tokens(width));
            let cache = b.kv_cache(heads, head_dim);
            b.kv_write(k, v, cache);
            let one_key =
                Attention { n_heads: heads, n_kv_heads: heads, head_dim, scale: 1.0, window: 1, softcap: 0.0 };
            let y = b.attention(k, cache, None, one_key);
            b.output(y);
        })
    })
    .collect()
}
