//! One pass: rows of queries that share a key/value head, over the keys of some spans.
//!
//! Keys and values of a block become f32 in working memory and serve all rows. Scores are lanes
//! along the head's columns, as in [`crate::matmul`]; values are added key by key in rising order.

use std::ops::Range;

use zinc_gguf::quants::float::f16_to_f32;

use super::cache::{KvPages, PAGE_TOKENS, Q8_GROUP, q8_row_bytes};
use super::softmax::{exp_one, merge};
use super::{Attention, BLOCK_LEN, HEAD_DIM_MAX, KEY_BLOCK, ROWS_MAX, SCORES_LEN, STATE_LEN, padded};
use crate::context::{Row, RowMut};
use crate::isa::{COUNT, LANES, Simd};
use crate::math::{exp, softcap};
use crate::matmul::tile::{self, TileJob};

/// One query head of one token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryRow {
    /// `head_dim` f32.
    pub(crate) q: Row,
    /// `head_dim` f32 to write.
    pub(crate) out: RowMut,
    /// First key that it sees.
    pub(crate) first_key: usize,
    /// One past the last.
    pub(crate) end_key: usize,
}

/// The state of rows: see [`super::softmax`].
#[derive(Clone, Copy)]
pub(crate) struct StatePtr {
    /// Weighted values, `[n_rows][padded]`.
    pub(crate) acc: *mut f32,
    /// Largest scores, `[n_rows]`.
    pub(crate) m: *mut f32,
    /// Sums, `[n_rows]`.
    pub(crate) l: *mut f32,
}

impl StatePtr {
    /// The state in `n_rows * (padded + 2)` f32 at `base`.
    ///
    /// # Safety
    /// So many are there.
    pub(crate) unsafe fn new(base: *mut f32, n_rows: usize, padded: usize) -> StatePtr {
        // SAFETY: as the caller vouches.
        unsafe {
            let m = base.add(n_rows * padded);
            StatePtr { acc: base, m, l: m.add(n_rows) }
        }
    }
}

/// A pass over spans of keys.
pub(crate) struct BlockJob<'a> {
    pub(crate) op: &'a Attention,
    pub(crate) keys: KvPages<'a>,
    pub(crate) values: KvPages<'a>,
    /// The sequence's pages; those that hold visible keys are inside `keys` and `values`.
    pub(crate) table: &'a [u32],
    pub(crate) kv_head: usize,
    /// At most [`ROWS_MAX`].
    pub(crate) rows: &'a [QueryRow],
    /// Numbers of the spans, of `span_len` keys each.
    pub(crate) spans: Range<usize>,
    pub(crate) span_len: usize,
    /// Where the result goes.
    pub(crate) state: StatePtr,
    /// Another state, queries, a block and scores.
    pub(crate) work: *mut f32,
}

/// Working memory of a pass.
struct Work {
    state: *mut f32,
    block: *mut f32,
    queries: *mut f32,
    scores: *mut f32,
}

/// The kernel; `R` and `C` are the tile of the instruction set.
///
/// # Safety
/// The job's pointers and pages are as it says.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, const R: usize, const C: usize>(s: S, job: &BlockJob<'_>) {
    let width = padded(job.op.head_dim);
    // SAFETY: `work` has room for these.
    unsafe {
        let block = job.work.add(STATE_LEN);
        let queries = block.add(BLOCK_LEN);
        let work = Work { state: job.work, block, queries, scores: queries.add(BLOCK_LEN) };
        let mut q = [std::ptr::null(); ROWS_MAX];
        for (i, (q, row)) in q.iter_mut().zip(job.rows).enumerate() {
            *q = padded_query(job.op.head_dim, row.q.0, work.queries.add(i * width));
        }
        let q = &q[..job.rows.len()];
        for span in job.spans.clone() {
            let state =
                if span == job.spans.start { job.state } else { StatePtr::new(work.state, job.rows.len(), width) };
            one_span::<S, R, C>(s, job, q, span, state, &work);
            if span != job.spans.start {
                merge(s, job.state, state, job.rows.len(), width);
            }
        }
    }
}

/// The query itself, or a copy padded with zeros to whole vectors.
///
/// # Safety
/// `q` points at `head_dim` readable f32, `copy` at as many writable ones, padded.
unsafe fn padded_query(head_dim: usize, q: *const f32, copy: *mut f32) -> *const f32 {
    if head_dim.is_multiple_of(LANES) {
        return q;
    }
    // SAFETY: as the caller vouches.
    unsafe {
        copy.write_bytes(0, padded(head_dim));
        copy.copy_from_nonoverlapping(q, head_dim);
    }
    copy
}

/// # Safety
/// As [`run`]; `state` and `work` have room for the rows.
#[inline(always)]
unsafe fn one_span<S: Simd, const R: usize, const C: usize>(
    s: S,
    job: &BlockJob<'_>,
    q: &[*const f32],
    span: usize,
    state: StatePtr,
    work: &Work,
) {
    let (n_rows, width) = (job.rows.len(), padded(job.op.head_dim));
    // SAFETY: the state has room for the rows.
    unsafe {
        state.acc.write_bytes(0, n_rows * width);
        std::slice::from_raw_parts_mut(state.m, n_rows).fill(f32::NEG_INFINITY);
        std::slice::from_raw_parts_mut(state.l, n_rows).fill(0.0);
    }
    let begin = span * job.span_len;
    for base in (begin..begin + job.span_len).step_by(KEY_BLOCK) {
        // What each row sees of the block, and what any does.
        let mut seen = [(0, 0); ROWS_MAX];
        let (mut first, mut end) = (KEY_BLOCK, 0);
        for (seen, row) in seen.iter_mut().zip(job.rows) {
            let in_block = |key: usize| key.clamp(base, base + KEY_BLOCK) - base;
            *seen = (in_block(row.first_key), in_block(row.end_key));
            if seen.0 < seen.1 {
                (first, end) = (first.min(seen.0), end.max(seen.1));
            }
        }
        if first >= end {
            continue;
        }
        let seen = &seen[..n_rows];
        // SAFETY: the keys from `first` to `end` are visible to a row, so their pages exist.
        unsafe {
            load_block(s, job, job.keys, base, first..end, work.block);
            let tiled = first / 4 * 4;
            tile::run::<S, R, C>(
                s,
                &TileJob {
                    panel: work.block.add(tiled * width),
                    panel_stride: width,
                    n_rows: end - tiled,
                    x: q,
                    n_k: width,
                    out: work.scores.add(tiled),
                    out_stride: KEY_BLOCK,
                    joins: false,
                },
            );
            for (i, &seen) in seen.iter().enumerate() {
                if seen.0 < seen.1 {
                    weigh_row(s, job.op, seen, work.scores.add(i * KEY_BLOCK), state, i, width);
                }
            }
            load_block(s, job, job.values, base, first..end, work.block);
            add_values::<S, R, C>(s, seen, work, state.acc, width);
        }
    }
}

/// Keys or values `range` of the block at `base` to f32, `[KEY_BLOCK][padded]`.
///
/// # Safety
/// Their pages exist; `out` has room for a block.
#[inline(always)]
unsafe fn load_block<S: Simd>(
    s: S,
    job: &BlockJob<'_>,
    pages: KvPages<'_>,
    base: usize,
    range: Range<usize>,
    out: *mut f32,
) {
    let head_dim = job.op.head_dim;
    let (width, whole) = (padded(head_dim), head_dim / LANES * LANES);
    for i in range {
        let key = base + i;
        let slot = job.table[key / PAGE_TOKENS] as usize * PAGE_TOKENS + key % PAGE_TOKENS;
        let at = (slot * job.op.n_kv_heads + job.kv_head) * head_dim;
        // SAFETY: the slot is inside the pages, and the row inside the block.
        unsafe {
            let out = out.add(i * width);
            match pages {
                KvPages::F16(pages) => {
                    let from = pages.as_ptr().add(at);
                    for d in (0..whole).step_by(LANES) {
                        s.store(out.add(d), s.halves(from.add(d).cast()));
                    }
                    for d in whole..head_dim {
                        out.add(d).write(f16_to_f32(*from.add(d)));
                    }
                }
                KvPages::Q8(pages) => {
                    let width = job.op.n_kv_heads * head_dim;
                    let row = pages.as_ptr().add(slot * q8_row_bytes(width));
                    let column = job.kv_head * head_dim;
                    let scales = row.add(width + column / Q8_GROUP * 2);
                    for d in (0..head_dim).step_by(LANES) {
                        let scale = s.splat(s.half(scales.add(d / Q8_GROUP * 2)));
                        s.store(out.add(d), s.mul(s.signed_bytes(row.add(column + d)), scale));
                    }
                }
                KvPages::F32(pages) => out.copy_from_nonoverlapping(pages.as_ptr().add(at), head_dim),
            }
            out.add(head_dim).write_bytes(0, width - head_dim);
        }
    }
}

/// Turns a row's scores into weights, and its state to the new largest score.
///
/// # Safety
/// `scores` points at [`KEY_BLOCK`] f32; the state has row `i`.
#[inline(always)]
unsafe fn weigh_row<S: Simd>(
    s: S,
    op: &Attention,
    seen: (usize, usize),
    scores: *mut f32,
    state: StatePtr,
    i: usize,
    width: usize,
) {
    const VECTORS: usize = KEY_BLOCK / LANES;
    let (first, end) = (s.splat(seen.0 as f32), s.splat(seen.1 as f32));
    let (scale, none) = (s.splat(op.scale), s.splat(f32::NEG_INFINITY));
    let mut v = [none; VECTORS];
    let mut most = none;
    for (n, v) in v.iter_mut().enumerate() {
        // SAFETY: vector `n` is in the scores; the codebook has sixteen.
        let (score, count) = unsafe { (s.load(scores.add(n * LANES)), s.load(COUNT.floats.as_ptr())) };
        let mut score = s.mul(score, scale);
        if op.softcap != 0.0 {
            score = softcap(s, op.softcap, score);
        }
        let key = s.add(count, s.splat((n * LANES) as f32));
        *v = s.select_lt(key, first, none, s.select_lt(key, end, score, none));
        most = s.max(most, *v);
    }
    // SAFETY: the state has row `i`.
    unsafe {
        let (m, l) = (&mut *state.m.add(i), &mut *state.l.add(i));
        let most = s.max_lane(most);
        if most > *m {
            if *l != 0.0 {
                let shrink = exp_one(s, *m - most);
                *l *= shrink;
                let shrink = s.splat(shrink);
                for d in (0..width).step_by(LANES) {
                    let acc = state.acc.add(i * width + d);
                    s.store(acc, s.mul(s.load(acc), shrink));
                }
            }
            *m = most;
        }
        let m = s.splat(*m);
        let mut sums = [none; VECTORS];
        for (n, (v, sum)) in v.iter().zip(&mut sums).enumerate() {
            *sum = exp(s, s.sub(*v, m));
            s.store(scores.add(n * LANES), *sum);
        }
        const { assert!(VECTORS == 4) };
        *l += s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])));
    }
}

/// Adds the block's values, weighted, to the rows.
///
/// # Safety
/// `work` holds weights and values of the block; `acc` is `[n_rows][width]`.
#[inline(always)]
unsafe fn add_values<S: Simd, const R: usize, const C: usize>(
    s: S,
    seen: &[(usize, usize)],
    work: &Work,
    acc: *mut f32,
    width: usize,
) {
    for (i, seen) in seen.chunks(C).enumerate() {
        let rows = i * C;
        // Keys that all rows of the tile see; the others are added row by row, in order.
        let first = seen.iter().map(|s| s.0).max().unwrap_or(0);
        let end = seen.iter().map(|s| s.1).min().unwrap_or(0).max(first);
        // SAFETY: the rows exist, and ranges are inside the block.
        unsafe {
            for (r, seen) in seen.iter().enumerate() {
                weighted::<S, R, 1>(s, rows + r, seen.0..first.min(seen.1), work, acc, width);
            }
            match seen.len() {
                1 => weighted::<S, R, 1>(s, rows, first..end, work, acc, width),
                2 => weighted::<S, R, 2>(s, rows, first..end, work, acc, width),
                3 => weighted::<S, R, 3>(s, rows, first..end, work, acc, width),
                4 => weighted::<S, R, 4>(s, rows, first..end, work, acc, width),
                5 => weighted::<S, R, 5>(s, rows, first..end, work, acc, width),
                _ => weighted::<S, R, 6>(s, rows, first..end, work, acc, width),
            }
            for (r, seen) in seen.iter().enumerate() {
                weighted::<S, R, 1>(s, rows + r, end.max(seen.0)..seen.1, work, acc, width);
            }
        }
    }
}

/// Adds values `keys`, weighted, to rows `row..row + C`.
///
/// # Safety
/// As [`add_values`].
#[inline(always)]
unsafe fn weighted<S: Simd, const R: usize, const C: usize>(
    s: S,
    row: usize,
    keys: Range<usize>,
    work: &Work,
    acc: *mut f32,
    width: usize,
) {
    if keys.start >= keys.end {
        return;
    }
    let mut d = 0;
    while d + R * LANES <= width {
        // SAFETY: `R` vectors at `d` are inside the rows.
        unsafe { weighted_columns::<S, R, C>(s, row, keys.clone(), work, acc, width, d) };
        d += R * LANES;
    }
    while d < width {
        // SAFETY: a vector at `d` is inside the rows.
        unsafe { weighted_columns::<S, 1, C>(s, row, keys.clone(), work, acc, width, d) };
        d += LANES;
    }
}

/// Columns `d..d + 16 D` of [`weighted`], held in registers over all keys.
///
/// # Safety
/// As [`add_values`]; the columns are inside the rows.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "the index is also the place in memory")]
unsafe fn weighted_columns<S: Simd, const D: usize, const C: usize>(
    s: S,
    row: usize,
    keys: Range<usize>,
    work: &Work,
    acc: *mut f32,
    width: usize,
    d: usize,
) {
    let mut sums = [[s.splat(0.0); D]; C];
    // SAFETY: as the caller vouches.
    unsafe {
        for c in 0..C {
            for n in 0..D {
                sums[c][n] = s.load(acc.add((row + c) * width + d + n * LANES));
            }
        }
        for key in keys {
            let mut v = [s.splat(0.0); D];
            for n in 0..D {
                v[n] = s.load(work.block.add(key * width + d + n * LANES));
            }
            for c in 0..C {
                let p = s.splat(*work.scores.add((row + c) * KEY_BLOCK + key));
                for n in 0..D {
                    sums[c][n] = s.fma(p, v[n], sums[c][n]);
                }
            }
        }
        for c in 0..C {
            for n in 0..D {
                s.store(acc.add((row + c) * width + d + n * LANES), sums[c][n]);
            }
        }
    }
}

const _: () = assert!(SCORES_LEN == ROWS_MAX * KEY_BLOCK && ROWS_MAX * HEAD_DIM_MAX <= BLOCK_LEN);
