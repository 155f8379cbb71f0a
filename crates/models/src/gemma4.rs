//! Gemma 4, text: as Gemma 3, but sliding and global layers differ in the width and number of heads, values are normed,
//! the last layers read the caches of earlier ones, every layer's output is scaled, small models add per-layer
//! embeddings, and one model runs experts beside the dense part.
//!
//! Scores are not scaled: the norms of queries and keys do the work. Norm weights are plain multipliers. Images and
//! audio are not read.

use zinc_gguf::Gguf;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::section::ValueId;
use zinc_graph::shape::{Shape, ShapeError};
use zinc_graph::{Blueprint, Builder, Section};

use crate::Error;
use crate::blocks::attention::{rope_factors, rotate};
use crate::blocks::experts::{ExpertForm, Experts, experts};
use crate::blocks::ffn::ffn;
use crate::blocks::per_layer::{per_layer_columns, per_layer_input};
use crate::blocks::{head, head_norm, inverse_sqrt, linear, norm, sqrt_f32};
use crate::declaration::{BlockIdx, Declaration, Fault};
use crate::hparams::{CONTEXT_MAX, EMBD_MAX, FF_MAX, HEAD_DIM_MAX, HEADS_MAX, Hparams, LAYERS_MAX, LayerSet};
use crate::keys::Keys;
use crate::rules::{Broken, Number, Rule, Rules};

/// The value of `general.architecture`.
pub const NAME: &str = "gemma4";

const SHARED_KEY: &str = "attention.shared_kv_layers";
const KV_HEADS_KEY: &str = "attention.head_count_kv";
const FF_KEY: &str = "feed_forward_length";

/// Hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemma4 {
    /// The shared ones; heads and rope are those of the global layers.
    pub hp: Hparams,
    /// The layers that see a window only.
    pub sliding: LayerSet,
    /// Keys that a sliding layer sees, the query's own included.
    pub window: u32,
    /// Heads and rope of the sliding layers.
    pub sliding_heads: Heads,
    /// Global layers have no value projection: the keys before norm and rope are their values.
    pub global_k_is_v: bool,
    /// Layers at the end that read the cache of the last earlier layer of their kind.
    pub n_shared: u32,
    /// Width inside the feed-forward part.
    pub n_ff: u32,
    /// The same in the layers that share caches.
    pub n_ff_shared: u32,
    /// Columns of the per-layer embeddings, if there are any.
    pub per_layer_width: Option<u32>,
    /// Experts beside the feed-forward part, if there are any.
    pub experts: Option<Experts>,
    /// Soft limit of the logits.
    pub final_softcap: Option<f32>,
}

/// What differs between sliding and global layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    /// Key and value heads.
    pub n_kv_heads: u32,
    /// Columns of a head.
    pub head_dim: u32,
    /// Columns of a head that rope rotates.
    pub n_rot: u32,
    /// Base of rope's frequencies.
    pub rope_base: f32,
}

/// A kind of layer.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    sliding: bool,
    shared: bool,
}

impl Gemma4 {
    fn read(file: &Gguf) -> Result<Gemma4, Error> {
        let keys = Keys::new(file, NAME);
        let layers = Layers::read(&keys)?;
        let kv_heads = layers.by_kind(&keys, KV_HEADS_KEY, |layer| layers.sliding.has(layer))?;
        let n_ff = layers.by_kind(&keys, FF_KEY, |layer| layers.is_shared(layer))?;
        let hp = Hparams::read_with_kv_heads(&keys, Some(kv_heads.other))?;
        let first_global = (0..hp.n_layers).find(|&layer| !layers.sliding.has(layer));
        Ok(Gemma4 {
            hp,
            sliding: layers.sliding,
            window: keys.require_u32("attention.sliding_window")?,
            sliding_heads: Heads {
                n_kv_heads: kv_heads.marked,
                head_dim: keys.require_u32("attention.key_length_swa")?,
                n_rot: keys.require_u32("rope.dimension_count_swa")?,
                rope_base: keys.f32("rope.freq_base_swa")?.unwrap_or(10_000.0),
            },
            global_k_is_v: first_global.is_some_and(|n| file.tensor(&format!("blk.{n}.attn_v.weight")).is_none()),
            n_shared: layers.n_shared,
            n_ff: n_ff.other,
            n_ff_shared: n_ff.marked,
            per_layer_width: keys.u32("embedding_length_per_layer_input")?.filter(|&width| width != 0),
            experts: match keys.u32("expert_count")? {
                None | Some(0) => None,
                Some(_) => Some(Experts::read(&keys)?),
            },
            final_softcap: keys.f32("final_logit_softcapping")?.filter(|&cap| cap != 0.0),
        })
    }

    const fn check(&self) -> Result<(), Broken> {
        let mut rules = self.hp.rules();
        let sliding = &self.sliding_heads;
        rules.between("attention.sliding_window", self.window, 1, CONTEXT_MAX);
        rules.between(KV_HEADS_KEY, sliding.n_kv_heads, 1, HEADS_MAX);
        rules.divides(KV_HEADS_KEY, sliding.n_kv_heads, "the number of query heads", self.hp.n_heads);
        rules.between("attention.key_length_swa", sliding.head_dim, 1, HEAD_DIM_MAX);
        rules.between("rope.dimension_count_swa", sliding.n_rot, 2, sliding.head_dim);
        rules.divides_two("rope.dimension_count_swa", sliding.n_rot);
        rules.above_zero("rope.freq_base_swa", sliding.rope_base);
        rules.between(FF_KEY, self.n_ff, 1, FF_MAX);
        rules.between(FF_KEY, self.n_ff_shared, 1, FF_MAX);
        rules.holds(
            self.sharing_has_sources(),
            SHARED_KEY,
            self.n_shared,
            "leaves a kind of layer without a cache to read",
        );
        if let Some(width) = self.per_layer_width {
            rules.between("embedding_length_per_layer_input", width, 1, EMBD_MAX);
        }
        if let Some(experts) = &self.experts {
            experts.add_rules(&mut rules);
        }
        if let Some(cap) = self.final_softcap {
            rules.above_zero("final_logit_softcapping", cap);
        }
        rules.finish()
    }

    /// Whether each layer without a cache finds one to read.
    const fn sharing_has_sources(&self) -> bool {
        if self.n_shared >= self.hp.n_layers {
            return false;
        }
        let mut layer = self.hp.n_layers - self.n_shared;
        while layer < self.hp.n_layers {
            if self.cache_of(layer).is_none() {
                return false;
            }
            layer += 1;
        }
        true
    }

    /// The layer whose cache `layer` reads: itself, or the last of its kind before the sharing ones.
    const fn cache_of(&self, layer: u32) -> Option<u32> {
        let n_own = self.hp.n_layers.saturating_sub(self.n_shared);
        if layer < n_own {
            return Some(layer);
        }
        let mut source = n_own;
        while source > 0 {
            source -= 1;
            if self.sliding.has(source) == self.sliding.has(layer) {
                return Some(source);
            }
        }
        None
    }

    /// The model's sections and layers.
    ///
    /// # Errors
    /// The first rule that the hyperparameters break.
    pub const fn declare(&self) -> Result<Declaration, Fault> {
        if let Err(broken) = self.check() {
            return Err(Fault::Hparam(broken));
        }
        let mut model = Declaration::new();
        model.prologue(self.prologue());
        let kinds: [BlockIdx; 4] = [
            model.block(self.block(&Kind { name: "gemma4 global block", sliding: false, shared: false })),
            model.block(self.block(&Kind { name: "gemma4 sliding block", sliding: true, shared: false })),
            model.block(self.block(&Kind {
                name: "gemma4 global block without a cache",
                sliding: false,
                shared: true,
            })),
            model.block(self.block(&Kind {
                name: "gemma4 sliding block without a cache",
                sliding: true,
                shared: true,
            })),
        ];
        let mut layer = 0;
        while layer < self.hp.n_layers {
            if let Some(source) = self.cache_of(layer) {
                let kind = self.sliding.has(layer) as usize + 2 * (source != layer) as usize;
                model.layer_with_kv_of(kinds[kind], source as usize);
            }
            layer += 1;
        }
        model.epilogue(self.epilogue());
        model.finish()
    }

    const fn prologue(&self) -> Result<Section, ShapeError> {
        let mut b = Builder::new("prologue");
        let table = b.model_matrix("token_embd.weight", self.hp.n_embd, self.hp.n_vocab);
        let x = b.embed(table, sqrt_f32(self.hp.n_embd));
        b.name(x, "embd");
        b.output(x);
        if let Some(width) = self.per_layer_width {
            let all = per_layer_columns(&mut b, x, &self.hp, width);
            b.name(all, "per_layer");
            b.output(all);
        }
        b.finish()
    }

    const fn epilogue(&self) -> Result<Section, ShapeError> {
        let mut b = Builder::new("epilogue");
        let x = b.input(Shape::tokens(self.hp.n_embd));
        if let Some(width) = self.per_layer_width {
            b.input(Shape::tokens(self.hp.n_layers * width));
        }
        head::finish(&mut b, x, &self.hp, self.final_softcap);
        b.finish()
    }

    const fn block(&self, kind: &Kind) -> Result<Section, ShapeError> {
        let eps = self.hp.eps;
        let mut b = Builder::new(kind.name);
        let x = b.input(Shape::tokens(self.hp.n_embd));
        let per_layer = match self.per_layer_width {
            Some(width) => Some((b.input(Shape::tokens(self.hp.n_layers * width)), width)),
            None => None,
        };

        let h = norm(&mut b, x, "attn_norm.weight", eps);
        let mixer = self.attention(&mut b, h, kind);
        b.name(mixer, "mixer");
        let h = norm(&mut b, mixer, "post_attention_norm.weight", eps);
        let x = b.add(x, h);

        let h = norm(&mut b, x, "ffn_norm.weight", eps);
        let n_ff = if kind.shared { self.n_ff_shared } else { self.n_ff };
        let mlp = ffn(&mut b, h, n_ff, Activation::GeluTanh);
        b.name(mlp, "mlp");
        let h = match &self.experts {
            Some(chosen) => {
                let dense = norm(&mut b, mlp, "post_ffw_norm_1.weight", eps);
                let mixture = self.mixture(&mut b, x, chosen);
                b.add(dense, mixture)
            }
            None => mlp,
        };
        let h = norm(&mut b, h, "post_ffw_norm.weight", eps);
        let mut x = b.add(x, h);

        if let Some((all, width)) = per_layer {
            let h = per_layer_input(&mut b, x, all, width, eps);
            x = b.add(x, h);
        }
        let scale = b.vector("layer_output_scale.weight", 1);
        let out = b.scale_by(x, scale);

        b.name(out, "out");
        b.output(out);
        b.finish()
    }

    /// The experts' part of a layer, from the residual stream; the router norms it without a weight of its own kind.
    const fn mixture(&self, b: &mut Builder, x: ValueId, chosen: &Experts) -> ValueId {
        let scale = b.vector("ffn_gate_inp.scale", self.hp.n_embd);
        let routed = b.rms_norm(x, scale, self.hp.eps);
        let routed = b.scale(routed, inverse_sqrt(self.hp.n_embd));
        let h = norm(b, x, "pre_ffw_norm_2.weight", self.hp.eps);
        let form = ExpertForm { activation: Activation::GeluTanh, has_bias: false, has_scale: true };
        let y = experts(b, routed, h, chosen, &form);
        norm(b, y, "post_ffw_norm_2.weight", self.hp.eps)
    }

    const fn attention(&self, b: &mut Builder, x: ValueId, kind: &Kind) -> ValueId {
        let Hparams { n_embd, n_heads, eps, .. } = self.hp;
        let Heads { n_kv_heads, head_dim, n_rot, rope_base: base } = self.heads(kind);
        let rope = Rope { head_dim, n_rot, mode: RopeMode::HalfSplit, base, position_scale: 1.0, yarn: None };
        // The table leaves the first quarter of a global head's pairs alone and stops the rest.
        let factors = if kind.sliding { None } else { Some(rope_factors(b, &rope)) };

        let q = linear(b, x, "attn_q.weight", n_heads * head_dim);
        let q = head_norm(b, q, "attn_q_norm.weight", head_dim, eps);
        let q = rotate(b, q, factors, rope);
        let cache = if kind.shared {
            b.kv_cache_of_other_layer(n_kv_heads, head_dim)
        } else {
            let k = linear(b, x, "attn_k.weight", n_kv_heads * head_dim);
            let k_is_v = !kind.sliding && self.global_k_is_v;
            let v = if k_is_v { k } else { linear(b, x, "attn_v.weight", n_kv_heads * head_dim) };
            let k = head_norm(b, k, "attn_k_norm.weight", head_dim, eps);
            let k = rotate(b, k, factors, rope);
            let v = b.rms_norm_groups(v, None, head_dim, eps);
            let cache = b.kv_cache(n_kv_heads, head_dim);
            b.kv_write(k, v, cache);
            cache
        };
        let window = if kind.sliding { self.window } else { 0 };
        let o =
            b.attention(q, cache, None, Attention { n_heads, n_kv_heads, head_dim, scale: 1.0, window, softcap: 0.0 });
        linear(b, o, "attn_output.weight", n_embd)
    }

    const fn heads(&self, kind: &Kind) -> Heads {
        if kind.sliding {
            return self.sliding_heads;
        }
        let Hparams { n_kv_heads, head_dim, n_rot, rope_base, .. } = self.hp;
        Heads { n_kv_heads, head_dim, n_rot, rope_base }
    }
}

/// What is known of the layers before the numbers that files give layer by layer.
struct Layers {
    n_layers: u32,
    sliding: LayerSet,
    n_shared: u32,
}

/// A number of two kinds of layer.
struct ByKind {
    marked: u32,
    other: u32,
}

impl Layers {
    fn read(keys: &Keys<'_>) -> Result<Layers, Error> {
        let n_layers = keys.require_u32("block_count")?;
        let n_shared = keys.u32(SHARED_KEY)?.unwrap_or(0);
        let mut rules = Rules::new();
        rules.between("block_count", n_layers, 1, LAYERS_MAX);
        rules.holds(n_shared < n_layers, SHARED_KEY, n_shared, "leaves no layers of block_count");
        rules.finish().map_err(|broken| keys.broken(broken))?;
        Ok(Layers { n_layers, sliding: keys.layer_set("attention.sliding_window_pattern")?, n_shared })
    }

    fn is_shared(&self, layer: u32) -> bool {
        layer >= self.n_layers - self.n_shared
    }

    /// A number that a file gives once or layer by layer, and that is the same in all layers of a kind. A kind without
    /// layers has the number of the other.
    fn by_kind(&self, keys: &Keys<'_>, key: &'static str, is_marked: impl Fn(u32) -> bool) -> Result<ByKind, Error> {
        let values = keys.u32_or_per_layer(key)?.ok_or_else(|| zinc_gguf::Error::MissingKey { key: keys.full(key) })?;
        let n_layers = self.n_layers;
        let of_layer = |layer: u32| match values.as_slice() {
            [value] => Some(*value),
            values if values.len() == n_layers as usize => values.get(layer as usize).copied(),
            _ => None,
        };
        let (mut marked, mut other) = (None, None);
        for layer in 0..n_layers {
            let kind = if is_marked(layer) { &mut marked } else { &mut other };
            let value = of_layer(layer);
            if value.is_none() || kind.is_some_and(|known| Some(known) != value) {
                let got = Number::Count(value.unwrap_or(u32::try_from(values.len()).unwrap_or(u32::MAX)));
                let rule = Rule::Other("is not one number for each kind of layer");
                return Err(keys.broken(Broken { key, got, rule }));
            }
            *kind = value;
        }
        let any = marked.or(other).unwrap_or(0);
        Ok(ByKind { marked: marked.unwrap_or(any), other: other.unwrap_or(any) })
    }
}

pub(crate) fn blueprint(file: &Gguf) -> Result<Blueprint, Error> {
    let model = Gemma4::read(file)?.declare().map_err(|fault| fault.in_file(NAME))?;
    Ok(model.blueprint())
}

/// Some files keep the key and value projections of layers that read another's cache.
pub(crate) fn leaves_unread(file: &Gguf, tensor: &str) -> bool {
    let keys = Keys::new(file, NAME);
    let count = |key| keys.u32(key).ok().flatten().unwrap_or(0);
    let n_own = count("block_count").saturating_sub(count(SHARED_KEY));
    let Some((layer, name)) = tensor.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else { return false };
    let unused = matches!(name, "attn_k.weight" | "attn_v.weight" | "attn_k_norm.weight");
    unused && layer.parse::<u32>().is_ok_and(|layer| layer >= n_own)
}
