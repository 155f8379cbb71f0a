//! Attention of query heads over the paged cache of keys and values:
//! `o[t][h] = sum_j p[j] V[j][g]`, `p = softmax_j(cap(scale * q[t][h] . K[j][g]))`,
//! `g = h / (n_heads / n_kv_heads)`.
//!
//! Axes: `t` tokens, `h` query heads, `g` key/value heads, `j` keys of the token's sequence with
//! `j <= pos[t]` and, with a window `W`, `j > pos[t] - W`. A sink is one more logit per head that
//! only enlarges the denominator.
//!
//! The softmax is taken online over blocks of [`KEY_BLOCK`] keys inside spans of [`SPAN`] keys, and
//! the spans are merged in order. Blocks and spans begin at fixed positions of the sequence, so a
//! query's result is the same bits in any batch, chunk of a prefill, or split over threads.
//! Source: Dao, "FlashAttention-2", 2023; Dao et al., "Flash-Decoding", 2023.

pub(crate) mod block;
mod cache;
pub(crate) mod softmax;

pub(crate) use cache::q8_row_bytes;
pub use cache::{KvPages, KvPagesMut, PAGE_TOKENS, kv_write};

use crate::context::{Context, Row, RowMut, SCRATCH_LEN, ScratchSlots};
use crate::isa::LANES;
use crate::isa::entry::EntryPoints;
use block::{BlockJob, QueryRow, StatePtr};
use cache::Q8_GROUP;
use softmax::FinishJob;

/// Keys that are scored at once.
pub(crate) const KEY_BLOCK: usize = 64;
/// Keys whose softmax is taken by itself: the unit that threads split a long context into.
const SPAN: usize = 512;
const _: () = assert!(SPAN.is_multiple_of(KEY_BLOCK) && KEY_BLOCK.is_multiple_of(PAGE_TOKENS));

/// Most columns of a head.
pub const HEAD_DIM_MAX: usize = 512;
/// Most rows (query heads of tokens) that share a pass over keys.
pub(crate) const ROWS_MAX: usize = 64;

/// f32 of one state of [`ROWS_MAX`] rows, and of a block of keys or values.
const STATE_LEN: usize = ROWS_MAX * (HEAD_DIM_MAX + 2);
const BLOCK_LEN: usize = KEY_BLOCK * HEAD_DIM_MAX;
const SCORES_LEN: usize = ROWS_MAX * KEY_BLOCK;
const _: () = assert!(2 * STATE_LEN + 2 * BLOCK_LEN + SCORES_LEN <= SCRATCH_LEN);

/// What is the same for all tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Columns of a head: a multiple of 4, [`HEAD_DIM_MAX`] at most.
    pub head_dim: usize,
    /// Multiplies the dot products.
    pub scale: f32,
    /// Keys that a query sees, itself included; 0 is all of them.
    pub window: usize,
    /// Soft limit of the scores; 0 is none.
    pub softcap: f32,
}

/// The tokens that ask, and where their keys lie.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// `[n_tokens][n_heads * head_dim]`.
    pub q: &'a [f32],
    /// Position of each token in its sequence.
    pub positions: &'a [u32],
    /// Row of `block_tables` of each token's sequence.
    pub seq_idx: &'a [u32],
    /// Pages of each sequence in order, `[n_seqs][pages_max]`.
    pub block_tables: &'a [u32],
    /// Pages in a row of `block_tables`.
    pub pages_max: usize,
    /// One more logit per head, `[n_heads]`.
    pub sinks: Option<&'a [f32]>,
}

/// Attention of every token over the keys that it sees; `out` is `[n_tokens][n_heads * head_dim]`.
/// The tokens' own keys and values must have been written. Reads each page once per pass of up to
/// [`ROWS_MAX`] rows.
///
/// # Panics
/// Lengths do not agree, or a page or position is outside the cache or the block table.
pub fn attention(
    ctx: &mut Context,
    op: &Attention,
    queries: &Queries<'_>,
    keys: KvPages<'_>,
    values: KvPages<'_>,
    out: &mut [f32],
) {
    check(op, queries, keys, values, out);
    let kernels = ctx.kernels();
    let (n_threads, slots) = (ctx.pool.n_threads(), ctx.scratch.slots());
    let rows = out.len() / op.head_dim;
    if rows == 0 {
        return;
    }
    let pass = Pass {
        op,
        queries,
        keys,
        values,
        kernels,
        slots,
        passes: Passes::new(op, queries),
        out: RowMut(out.as_mut_ptr()),
    };
    let n_items = pass.passes.count();
    let spans_most = queries.positions.iter().map(|&p| p as usize / SPAN + 1).max().unwrap_or(1);
    if n_threads == 1 || spans_most == 1 || n_items >= 2 * n_threads {
        ctx.pool.run(n_items, |slot, item| pass.whole(slot, item));
        return;
    }
    // Few rows, many keys: spans are items too, and leave their states to be merged.
    let state_len = pass.passes.rows_most() * (padded(op.head_dim) + 2);
    ctx.buffers.partials.resize(n_items * spans_most * state_len, 0.0);
    let partials = RowMut(ctx.buffers.partials.as_mut_ptr());
    ctx.pool.run(n_items * spans_most, |slot, item| {
        let partials = &partials;
        // SAFETY: each item has its own state in the buffer.
        pass.span(slot, item / spans_most, item % spans_most, unsafe { partials.0.add(item * state_len) });
    });
    ctx.pool.run(n_items, |_, item| {
        let partials = &partials;
        // SAFETY: the item's states are side by side, and complete.
        pass.finish(item, unsafe { partials.0.add(item * spans_most * state_len) }, state_len);
    });
}

/// Columns of a head in working memory: whole vectors.
fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

fn check(op: &Attention, queries: &Queries<'_>, keys: KvPages<'_>, values: KvPages<'_>, out: &[f32]) {
    let n_tokens = queries.positions.len();
    let width = op.n_heads * op.head_dim;
    assert!(
        op.head_dim > 0 && op.head_dim <= HEAD_DIM_MAX && op.head_dim.is_multiple_of(4),
        "head_dim {}",
        op.head_dim
    );
    assert!(op.n_kv_heads > 0 && op.n_heads.is_multiple_of(op.n_kv_heads), "n_kv_heads divides n_heads");
    assert_eq!(queries.q.len(), n_tokens * width, "q is [n_tokens][n_heads * head_dim]");
    assert_eq!(out.len(), queries.q.len(), "out has q's shape");
    assert_eq!(queries.seq_idx.len(), n_tokens, "seq_idx is [n_tokens]");
    assert!(queries.sinks.is_none_or(|s| s.len() == op.n_heads), "sinks is [n_heads]");
    let width = op.n_kv_heads * op.head_dim;
    let (Some(n_pages), of_values) = (keys.n_pages(width), values.n_pages(width)) else {
        panic!("the cache is [n_pages][16][n_kv_heads][head_dim]")
    };
    assert_eq!(Some(n_pages), of_values, "there are as many values as keys");
    let is_grouped = op.head_dim.is_multiple_of(Q8_GROUP);
    assert!(is_grouped || !matches!(keys, KvPages::Q8(_)), "a head of {} has no whole groups of bytes", op.head_dim);
    for (&position, &seq) in queries.positions.iter().zip(queries.seq_idx) {
        let table = &queries.block_tables[seq as usize * queries.pages_max..][..queries.pages_max];
        let first = first_key(op.window, position as usize) / PAGE_TOKENS;
        let pages = &table[first..=position as usize / PAGE_TOKENS];
        assert!(pages.iter().all(|&p| (p as usize) < n_pages), "sequence {seq} names a page outside the cache");
    }
}

/// First key that the query at `position` sees.
const fn first_key(window: usize, position: usize) -> usize {
    if window == 0 { 0 } else { (position + 1).saturating_sub(window) }
}

/// How tokens and heads are cut into passes over keys: runs of tokens of one sequence at rising
/// positions, times the query heads of one key/value head.
struct Passes {
    /// First token of each run; the last entry ends the last run.
    runs: Vec<usize>,
    n_kv_heads: usize,
    /// Query heads of a pass, and passes that it takes to have all of a key/value head.
    heads: usize,
    slices: usize,
}

impl Passes {
    fn new(op: &Attention, queries: &Queries<'_>) -> Passes {
        let group = op.n_heads / op.n_kv_heads;
        let tokens_most = (ROWS_MAX / group).max(1);
        let mut runs = vec![0];
        let mut length = 1;
        for t in 1..queries.positions.len() {
            let goes_on = queries.seq_idx[t] == queries.seq_idx[t - 1]
                && queries.positions[t] == queries.positions[t - 1].wrapping_add(1)
                && length < tokens_most;
            length = if goes_on { length + 1 } else { 1 };
            if !goes_on {
                runs.push(t);
            }
        }
        runs.push(queries.positions.len());
        Passes { runs, n_kv_heads: op.n_kv_heads, heads: group.min(ROWS_MAX), slices: group.div_ceil(ROWS_MAX) }
    }

    fn count(&self) -> usize {
        (self.runs.len() - 1) * self.n_kv_heads * self.slices
    }

    /// Most rows of a pass.
    fn rows_most(&self) -> usize {
        self.runs.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0) * self.heads
    }
}

/// One call of [`attention`] as its work items see it.
struct Pass<'a> {
    op: &'a Attention,
    queries: &'a Queries<'a>,
    keys: KvPages<'a>,
    values: KvPages<'a>,
    kernels: &'static EntryPoints,
    slots: ScratchSlots,
    passes: Passes,
    out: RowMut,
}

impl Pass<'_> {
    /// All spans of an item, merged in order.
    fn whole(&self, slot: usize, item: usize) {
        let scratch = self.slots.get(slot);
        let rows = self.rows(item);
        // The longest windows come last: later tokens have more keys.
        let first = rows.iter().map(|r| r.first_key).min().unwrap_or(0) / SPAN;
        let last = rows.iter().map(|r| r.end_key).max().unwrap_or(1).saturating_sub(1) / SPAN;
        // SAFETY: the slot's memory has two states and the working memory of a block.
        unsafe {
            let state = StatePtr::new(scratch, rows.len(), padded(self.op.head_dim));
            self.attend(item, &rows, first..last + 1, state, scratch.add(STATE_LEN));
        }
        self.finish_rows(item, &rows, scratch, 0, 1);
    }

    /// One span of an item; its state goes to `state`.
    fn span(&self, slot: usize, item: usize, span: usize, state: *mut f32) {
        let rows = self.rows(item);
        // SAFETY: `state` has room for the item's rows; the slot's memory as in `whole`.
        unsafe {
            let state = StatePtr::new(state, rows.len(), padded(self.op.head_dim));
            self.attend(item, &rows, span..span + 1, state, self.slots.get(slot).add(STATE_LEN));
        }
    }

    /// Merges the spans' states of an item, `state_len` apart, in order.
    fn finish(&self, item: usize, states: *mut f32, state_len: usize) {
        let rows = self.rows(item);
        let last = rows.iter().map(|r| r.end_key).max().unwrap_or(1).saturating_sub(1) / SPAN;
        self.finish_rows(item, &rows, states, state_len, last + 1);
    }

    /// # Safety
    /// `state` has room for the rows, `work` for another state, a block, queries and scores.
    unsafe fn attend(
        &self,
        item: usize,
        rows: &[QueryRow],
        spans: std::ops::Range<usize>,
        state: StatePtr,
        work: *mut f32,
    ) {
        let (run, kv_head, _) = self.place(item);
        let seq = self.queries.seq_idx[self.passes.runs[run]] as usize;
        let table = &self.queries.block_tables[seq * self.queries.pages_max..][..self.queries.pages_max];
        let job = BlockJob {
            op: self.op,
            keys: self.keys,
            values: self.values,
            table,
            kv_head,
            rows,
            spans,
            span_len: SPAN,
            state,
            work,
        };
        // SAFETY: as the caller vouches; pages and positions were checked on entry.
        unsafe { (self.kernels.attend)(&job) };
    }

    fn finish_rows(&self, item: usize, rows: &[QueryRow], states: *mut f32, state_len: usize, n_states: usize) {
        let head_dim = self.op.head_dim;
        let (_, kv_head, slice) = self.place(item);
        let first_head = self.first_head(kv_head, slice);
        let job = FinishJob {
            rows,
            states,
            state_len,
            n_states,
            head_dim,
            padded: padded(head_dim),
            sinks: self.queries.sinks,
            first_head,
            heads: self.heads(slice),
        };
        // SAFETY: the states hold these rows, and the rows' outputs are this item's alone.
        unsafe { (self.kernels.finish)(&job) };
    }

    /// Run, key/value head and slice of its query heads.
    fn place(&self, item: usize) -> (usize, usize, usize) {
        let per_run = self.passes.n_kv_heads * self.passes.slices;
        (item / per_run, item % per_run / self.passes.slices, item % self.passes.slices)
    }

    fn first_head(&self, kv_head: usize, slice: usize) -> usize {
        kv_head * (self.op.n_heads / self.op.n_kv_heads) + slice * self.passes.heads
    }

    fn heads(&self, slice: usize) -> usize {
        (self.op.n_heads / self.op.n_kv_heads - slice * self.passes.heads).min(self.passes.heads)
    }

    /// The rows of an item: token by token, its heads side by side.
    fn rows(&self, item: usize) -> Vec<QueryRow> {
        let (run, kv_head, slice) = self.place(item);
        let head_dim = self.op.head_dim;
        let first_head = self.first_head(kv_head, slice);
        let tokens = self.passes.runs[run]..self.passes.runs[run + 1];
        let mut rows = Vec::with_capacity(tokens.len() * self.passes.heads);
        for t in tokens {
            let position = self.queries.positions[t] as usize;
            for head in first_head..first_head + self.heads(slice) {
                let at = (t * self.op.n_heads + head) * head_dim;
                rows.push(QueryRow {
                    q: Row(self.queries.q[at..at + head_dim].as_ptr()),
                    out: RowMut(self.out.0.wrapping_add(at)),
                    first_key: first_key(self.op.window, position),
                    end_key: position + 1,
                });
            }
        }
        rows
    }
}
