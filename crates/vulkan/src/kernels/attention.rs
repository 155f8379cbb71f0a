//! Rotary embedding, the cache of keys and values, attention.

use zinc_graph::backend::KvFormat;
use zinc_graph::ops::{Attention, KvWrite, NormRope, RmsNorm, Rope, RopeAttention, RopeKvWrite, RopeMode, Slice};
use zinc_graph::section::Node;

use super::{Launch, Recorder, THREADS};
use crate::error::Error;
use crate::params;
use crate::tuning::ATTENTION_WORKGROUPS_MAX;

/// Threads that share a head when it is rotated.
const ROPE_THREADS: u32 = 64;
/// Widest head that the kernels take: where they write bytes, eight columns a thread.
const HEAD_DIM_MAX: u32 = 512;
const _: () = assert!(ROPE_THREADS * PIECE >= HEAD_DIM_MAX);
/// Columns that a lane takes at a time.
const PIECE: u32 = 8;
/// Pieces of all its query heads that a lane keeps in registers, at most: few where few tokens leave the device idle.
const PIECES_MAX: u32 = 4;
const PIECES_MAX_FEW: u32 = 2;
/// Steps of up to this many tokens leave a large device idle: what counts is how soon one workgroup is done.
const TOKENS_IDLE: u32 = 4;
/// Subgroups of a workgroup of the kernel for many queries, the keys that it takes at a time, and its widest head: what shared
/// memory of 48 KiB holds.
const TILES_SUBGROUPS: u32 = 4;
const TILES_KEYS: u32 = 32;
const TILES_HEAD_MAX: u32 = 256;
/// Parts that the keys of a token are cut into at most.
pub(crate) const SPLITS_MAX: u32 = 64;
/// Keys of a step that are rotated at a time.
const KEYS_ROTATED: u32 = 4;
/// Tokens that see few keys are looked for in steps of up to so many tokens, and what few may be at most: longer were not measured.
const SHORT_TOKENS_MAX: u32 = 64;
const SHORT_KEYS_MAX: u32 = 2048;
/// Bytes of shared memory for maxima and sums of subgroups or parts.
const SHARED_LEAVE: u32 = 4096;

/// Which tokens a launch takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sees {
    Any,
    /// So many keys at most.
    UpTo(u32),
    /// More than so many.
    Above(u32),
}

impl Sees {
    /// The kernel's constants ABOVE and UP_TO.
    fn constants(self) -> [u32; 2] {
        match self {
            Sees::Any => [0, u32::MAX],
            Sees::UpTo(most) => [0, most],
            Sees::Above(least) => [least, u32::MAX],
        }
    }
}

/// What a launch of the kernel for few queries is for.
#[derive(Clone, Copy)]
struct Rows<'a> {
    op: &'a Attention,
    /// 0, or tokens that a sequence may have in the step to be taken.
    few: u32,
    sees: Sees,
    /// If queries and keys are as their products left them, with the frequencies of their rotation.
    rotated: Option<(&'a RopeAttention, u64)>,
}

impl Rows<'_> {
    /// The kernel's constants from ROTATES on; none if it does not.
    fn rotation(&self) -> Vec<u32> {
        let Some((RopeAttention { slice, norm, rope, .. }, _)) = self.rotated else { return Vec::new() };
        let pairs = if rope.mode == RopeMode::Adjacent { 2 } else { 1 };
        let head_in = slice.map_or(rope.head_dim, |slice| slice.width_in);
        let eps = norm.map_or(0.0f32, |norm| norm.eps);
        vec![pairs, u32::from(norm.is_some()), rope.n_rot, head_in, eps.to_bits()]
    }
}

impl Recorder<'_> {
    pub(super) fn rope(&mut self, node: &Node, index: usize, op: &Rope) -> Result<Launch, Error> {
        self.rotate(node, index, op, (None, None), None)
    }

    pub(super) fn norm_rope(&mut self, node: &Node, index: usize, op: &NormRope) -> Result<Launch, Error> {
        self.rotate(node, index, &op.rope, (op.slice, Some(op.norm)), None)
    }

    pub(super) fn rope_kv_write(&mut self, node: &Node, index: usize, op: &RopeKvWrite) -> Result<Launch, Error> {
        self.rotate(node, index, &op.rope, (None, op.norm), Some(op.write))
    }

    fn rotate(
        &mut self,
        node: &Node,
        index: usize,
        op: &Rope,
        (slice, norm): (Option<Slice>, Option<RmsNorm>),
        write: Option<KvWrite>,
    ) -> Result<Launch, Error> {
        if op.head_dim > HEAD_DIM_MAX {
            return Err(Error::TooWide { op: node.op.name(), what: "head", n: op.head_dim, most: HEAD_DIM_MAX });
        }
        let x = node.inputs.as_slice()[0];
        let cols_in = self.cols(x);
        let (cols, head_in, offset) = match slice {
            Some(slice) => (cols_in / slice.width_in * slice.width, slice.width_in, slice.offset),
            None => (cols_in, op.head_dim, 0),
        };
        let (cache_k, cache_v) = if write.is_some() { self.resource(node.resource) } else { (0, 0) };
        let params = params::Rope {
            chain: 0,
            x: self.value(x) + 4 * u64::from(offset),
            y: if write.is_some() { 0 } else { self.output(node, 0) },
            v: if write.is_some() { self.input(node, 1) } else { 0 },
            cache_k,
            cache_v,
            norm: if norm.is_some() { self.optional_weight(node, 0) } else { 0 },
            frequencies: self.at.rope_tables[index].expect("compile makes a table for every rope node"),
            step: if write.is_some() { self.step_of(node.resource) } else { self.at.step },
            cols,
            cols_in,
            head_in,
            n_rot: op.n_rot,
            magnitude: op.magnitude(),
            eps: norm.map_or(0.0, |norm| norm.eps),
        };
        let adjacent = u32::from(op.mode == RopeMode::Adjacent);
        let (norm, write) = (u32::from(norm.is_some()), u32::from(write.is_some()));
        let constants = [adjacent, norm, write, self.format(), op.head_dim];
        let threads = ROPE_THREADS.max(self.traits.subgroup_size);
        self.launch(threads, &constants, &params, [cols / op.head_dim, self.at.bucket.tokens, 1])
    }

    pub(super) fn kv_write(&mut self, node: &Node, op: KvWrite) -> Result<Launch, Error> {
        let (cache_k, cache_v) = self.resource(node.resource);
        let width = op.n_kv_heads * op.head_dim;
        let (k, v) = (self.input(node, 0), self.input(node, 1));
        let params = params::KvWrite { k, v, cache_k, cache_v, step: self.step_of(node.resource), width };
        // Of bytes a lane writes eight.
        let lanes = if self.at.kv_format == KvFormat::Q8 { width / PIECE } else { width };
        let groups = [lanes.div_ceil(THREADS), self.at.bucket.tokens, 1];
        self.launch(THREADS, &[self.format()], &params, groups)
    }

    /// One kernel for sequences with few tokens in the step and one for the others, side by side.
    pub(super) fn attention(&mut self, node: &Node, op: &Attention) -> Result<Vec<Launch>, Error> {
        let tile = self
            .tuning
            .matrix_side(self.traits)
            .filter(|tile| op.head_dim.is_multiple_of(*tile) && op.head_dim <= TILES_HEAD_MAX)
            .filter(|_| self.at.kv_format != KvFormat::F32);
        let few = self.tuning.attention_few;
        match tile {
            Some(tile) if self.at.bucket.tokens > few => {
                let rows = Rows { op, few, sees: Sees::Any, rotated: None };
                let mut launches = self.attention_by_length(node, rows)?;
                launches.push(self.attention_tiles(node, op, tile, few)?);
                Ok(launches)
            }
            _ => self.attention_by_length(node, Rows { op, few: 0, sees: Sees::Any, rotated: None }),
        }
    }

    pub(super) fn rope_attention(
        &mut self,
        node: &Node,
        index: usize,
        op: &RopeAttention,
    ) -> Result<Vec<Launch>, Error> {
        let table = self.at.rope_tables[index].expect("compile makes a table for every rope node");
        let rotated = Some((op, table));
        self.attention_by_length(node, Rows { op: &op.attention, few: 0, sees: Sees::Any, rotated })
    }

    /// Tokens that see few keys and the others, side by side, in steps that leave the device idle.
    fn attention_by_length(&mut self, node: &Node, rows: Rows<'_>) -> Result<Vec<Launch>, Error> {
        let tokens = self.at.bucket.tokens;
        let short = (self.tuning.attention_short * tokens.min(SHORT_TOKENS_MAX)).min(SHORT_KEYS_MAX);
        if short == 0 || tokens > SHORT_TOKENS_MAX {
            return Ok(vec![self.attention_rows(node, rows)?]);
        }
        let of_short = self.attention_rows(node, Rows { sees: Sees::UpTo(short), ..rows })?;
        Ok(vec![of_short, self.attention_rows(node, Rows { sees: Sees::Above(short), ..rows })?])
    }

    fn attention_tiles(&mut self, node: &Node, op: &Attention, tile: u32, few: u32) -> Result<Launch, Error> {
        let (cache_k, cache_v) = self.resource(node.resource);
        let sinks = self.optional_weight(node, 0);
        let params = params::AttentionTiles {
            q: self.input(node, 0),
            cache_k,
            cache_v,
            sinks,
            y: self.output(node, 0),
            step: self.step_of(node.resource),
            n_heads: op.n_heads,
            n_kv_heads: op.n_kv_heads,
            window: op.window,
            scale: op.scale,
            softcap: op.softcap,
        };
        let width = self.traits.subgroup_size;
        let threads = TILES_SUBGROUPS * width;
        let tokens = self.at.bucket.tokens;
        // Each sequence that is taken may have one tile that is not full.
        let tiles = tokens.div_ceil(TILES_SUBGROUPS * tile) + self.at.bucket.seqs.min(tokens / (few + 1));
        let keys = if op.head_dim <= 128 { TILES_KEYS } else { TILES_KEYS / 2 };
        let constants = [
            tile,
            u32::from(sinks != 0),
            op.head_dim,
            keys,
            few,
            self.is_rounded(node.outputs.as_slice()[0]),
            self.format(),
        ];
        // The last is what it would be without being named.
        let n_named = constants.len() - usize::from(self.at.kv_format == KvFormat::F16);
        self.launch(threads, &constants[..n_named], &params, [op.n_heads, tiles, 1])
    }

    fn attention_rows(&mut self, node: &Node, rows: Rows<'_>) -> Result<Launch, Error> {
        let Rows { op, few, sees, rotated } = rows;
        self.check_head(node, op.head_dim)?;
        let (cache_k, cache_v) = self.resource(node.resource);
        let sinks = self.optional_weight(node, rotated.map_or(0, |(of, _)| of.sinks_at()));
        let width = self.traits.subgroup_size;
        let lanes = (op.head_dim / PIECE).next_power_of_two().min(width);
        let pieces = (op.head_dim / PIECE).div_ceil(lanes);
        let per_kv = op.n_heads / op.n_kv_heads;
        let tokens = self.at.bucket.tokens;
        let tuning = self.tuning;
        let is_short = matches!(sees, Sees::UpTo(_));
        let (threads, keys, pieces_max) = match tokens {
            _ if is_short => (tuning.attention_threads_short, tuning.attention_keys, 1),
            0..=TOKENS_IDLE => (tuning.attention_threads_few, tuning.attention_keys_few, PIECES_MAX_FEW),
            _ => (tuning.attention_threads, tuning.attention_keys, PIECES_MAX),
        };
        let at_once = (1..=per_kv).rev().find(|n| per_kv.is_multiple_of(*n) && n * pieces <= pieces_max).unwrap_or(1);
        let blocks = op.n_heads / at_once;
        let workgroups = tuning.attention_workgroups.min(ATTENTION_WORKGROUPS_MAX);
        let splits = if is_short { 1 } else { (workgroups / (blocks * tokens)).clamp(1, SPLITS_MAX) };
        let (mut parts, mut arrived) = (0, 0);
        if splits > 1 {
            let n = u64::from(tokens) * u64::from(op.n_heads) * u64::from(splits);
            parts = self.scratch.reserve(4 * n * u64::from(op.head_dim + 2))?;
            arrived = self.scratch.reserve(4 * u64::from(tokens * blocks))?;
        }
        let norm = rotated.and_then(|(of, _)| of.norm);
        let slice = rotated.and_then(|(of, _)| of.slice);
        let params = params::Attention {
            chain: 0,
            q: self.input(node, 0) + 4 * u64::from(slice.map_or(0, |slice| slice.offset)),
            k: rotated.map_or(0, |_| self.input(node, 1)),
            v: rotated.map_or(0, |_| self.input(node, 2)),
            cache_k,
            cache_v,
            q_norm: norm.map_or(0, |_| self.optional_weight(node, 0)),
            k_norm: norm.map_or(0, |_| self.optional_weight(node, 1)),
            frequencies: rotated.map_or(0, |(_, table)| table),
            sinks,
            y: self.output(node, 0),
            parts,
            arrived,
            step: self.step_of(node.resource),
            window: op.window,
            scale: op.scale,
            softcap: op.softcap,
            magnitude: rotated.map_or(0.0, |(of, _)| of.rope.magnitude()),
        };
        let rounded = self.is_rounded(node.outputs.as_slice()[0]);
        let mut constants = vec![self.format(), u32::from(sinks != 0), op.head_dim, at_once, lanes, splits, keys, few];
        constants.extend([rounded, per_kv / at_once, u32::from(op.softcap > 0.0)]);
        constants.extend(sees.constants());
        constants.extend(rows.rotation());
        // As far as there is shared memory for each subgroup's columns.
        let n_rotated = rotated.map_or(0, |_| at_once + 2 * KEYS_ROTATED);
        let room = self.traits.shared_bytes - SHARED_LEAVE - 4 * n_rotated * op.head_dim;
        let subgroups_max = room / (4 * at_once * op.head_dim);
        let threads = threads.max(width).min(subgroups_max.max(1) * width);
        self.launch(threads, &constants, &params, [blocks, tokens, splits])
    }

    /// Whether the kernel for few queries takes a head of so many columns.
    fn check_head(&self, node: &Node, n: u32) -> Result<(), Error> {
        let unit = PIECE.max(self.at.kv_format.head_unit());
        if n > HEAD_DIM_MAX {
            return Err(Error::TooWide { op: node.op.name(), what: "head", n, most: HEAD_DIM_MAX });
        }
        if n.is_multiple_of(unit) { Ok(()) } else { Err(Error::Head { n, unit }) }
    }

    /// The kernels' constant FORMAT, as `shaders/common/kv.glsl` has it.
    fn format(&self) -> u32 {
        match self.at.kv_format {
            KvFormat::F32 => 0,
            KvFormat::F16 => 1,
            KvFormat::Q8 => 2,
        }
    }
}
