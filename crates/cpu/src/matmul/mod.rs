//! Products of weight matrices with rows of activations: `y[t][o] = sum_k W[o][k] x[t][k]`.
//!
//! Axes: `t` rows of `x` (tokens), `k` inputs, `o` outputs. Threads take blocks of outputs. Few
//! rows go through [`few`]: weights become f32 in registers. More go through [`tile`]: a panel of
//! weights becomes f32 in the second-level cache, and passes all rows of `x`. Both read each
//! weight once per call (once per [`BLOCK_TOKENS`] rows of `x`) and give the same bits.

mod experts;
pub(crate) mod few;
pub(crate) mod tile;

pub use experts::{Experts, expert_matmul};

use zinc_gguf::DType;

use crate::activation::Activation;
use crate::context::{Buffers, Context, Row, RowMut, SCRATCH_LEN};
use crate::error::Error;
use crate::isa::entry::EntryPoints;
use few::{CHUNK, FewJob, STEP, TOKENS_MAX};
use tile::{ExpandJob, TileJob};

/// Rows of `x` that a panel serves before weights are unpacked again: bounds the working memory.
const BLOCK_TOKENS: usize = 512;
/// Most outputs of a work item, for many rows of `x` and for few.
const ITEM_ROWS: usize = 32;
const ITEM_ROWS_FEW: usize = 256;
/// Work items per thread that are wanted, so that threads end together. Phases of few rows are short: half of their
/// outputs go in items of [`LARGE`] small ones, for little handing out, and the small ones come last, for little waiting.
/// Of a decoded token's processor time on two threads 3 % is waiting, where four equal items a thread leave 5.5 %.
const ITEMS_PER_THREAD: usize = 4;
const ITEMS_PER_THREAD_FEW: usize = 16;
const LARGE: usize = 4;

/// f32 of a panel, and of one block of sums.
const PANEL_LEN: usize = ITEM_ROWS * CHUNK;
const SUMS_LEN: usize = BLOCK_TOKENS * ITEM_ROWS;
const _: () = assert!(PANEL_LEN + 2 * SUMS_LEN <= SCRATCH_LEN && TOKENS_MAX * ITEM_ROWS_FEW <= SUMS_LEN);

/// A weight matrix in its storage type: `n_out` rows of `n_in` weights.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    dtype: DType,
    bytes: &'a [u8],
    n_in: usize,
    n_out: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix over its bytes, as a GGUF file has them.
    ///
    /// # Errors
    /// `n_in` is no whole number of blocks, or the bytes are not those of that shape.
    pub fn new(dtype: DType, bytes: &'a [u8], n_in: usize, n_out: usize) -> Result<Matrix<'a>, Error> {
        let row_bytes = dtype.row_bytes(n_in).filter(|_| n_in > 0).ok_or(Error::RowLength { dtype, n_in })?;
        let expected = row_bytes.saturating_mul(n_out);
        if bytes.len() != expected {
            return Err(Error::MatrixBytes { dtype, n_in, n_rows: n_out, expected, got: bytes.len() });
        }
        Ok(Matrix { dtype, bytes, n_in, n_out })
    }

    /// Storage type.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Weights of a row.
    #[must_use]
    pub const fn n_in(&self) -> usize {
        self.n_in
    }

    /// Rows.
    #[must_use]
    pub const fn n_out(&self) -> usize {
        self.n_out
    }

    fn row_bytes(&self) -> usize {
        self.bytes.len() / self.n_out.max(1)
    }

    /// Row `row` to f32, on the caller's thread.
    pub(crate) fn expand_row(&self, kernels: &EntryPoints, row: usize, mut each_chunk: impl FnMut(usize, &[f32])) {
        assert!(row < self.n_out, "row {row} of a matrix with {} rows", self.n_out);
        let w = self.bytes[row * self.row_bytes()..].as_ptr();
        let mut chunk = [0.0f32; CHUNK];
        for k in (0..self.n_in).step_by(CHUNK) {
            let n_k = CHUNK.min(self.n_in - k);
            // SAFETY: `row` is a row, `k` a whole number of units into it, and a chunk has room
            // for `n_k` rounded up to a step.
            unsafe {
                let w = w.add(k / self.dtype.block_len() * self.dtype.block_bytes());
                (kernels.expand)(self.dtype)(&ExpandJob {
                    w,
                    row_bytes: 0,
                    n_rows: 1,
                    n_k,
                    out: chunk.as_mut_ptr(),
                    out_stride: 0,
                });
            }
            each_chunk(k, &chunk[..n_k]);
        }
    }
}

/// What is added to a product.
#[derive(Clone, Copy, Debug)]
pub enum Residual<'a> {
    /// Nothing: `y = W x + b`.
    None,
    /// What `y` holds: `y += W x + b`.
    Own,
    /// Another value of `y`'s shape: `y = r + (W x + b)`.
    Of(&'a [f32]),
}

/// One matrix of a phase and where its product goes.
#[derive(Debug)]
pub struct Product<'a> {
    /// The matrix.
    pub weights: Matrix<'a>,
    /// `[n_out]`.
    pub bias: Option<&'a [f32]>,
    /// Added after the bias.
    pub residual: Residual<'a>,
    /// `[n_tokens][n_out]`.
    pub y: &'a mut [f32],
}

/// `y = W x (+ b)`: `x` `[n_tokens][n_in]`, `y` `[n_tokens][n_out]`. Reads `weights.bytes` once.
///
/// # Panics
/// The lengths do not agree.
pub fn matmul(ctx: &mut Context, weights: &Matrix<'_>, x: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
    products(ctx, x, &mut [Product { weights: *weights, bias, residual: Residual::None, y }]);
}

/// Several matrices times the same `x`, in one parallel phase (queries, keys and values).
///
/// # Panics
/// The lengths do not agree.
pub fn products(ctx: &mut Context, x: &[f32], products: &mut [Product<'_>]) {
    let Some(first) = products.first() else { return };
    let n_in = first.weights.n_in;
    let n_tokens = n_rows(x, n_in);
    let kernels = ctx.kernels();
    let (n_threads, slots) = (ctx.pool.n_threads(), ctx.scratch.slots());
    let x_rows = input_rows(&mut ctx.buffers, x, n_in);
    let mut targets = Vec::with_capacity(products.len());
    let mut n_items = 0;
    for product in products {
        let weights = product.weights;
        assert_eq!(weights.n_in, n_in, "matrices of one phase share their input");
        assert_eq!(product.y.len(), n_tokens * weights.n_out, "y is [n_tokens][n_out]");
        assert!(product.bias.is_none_or(|b| b.len() == weights.n_out), "the bias is [n_out]");
        let y = RowMut(product.y.as_mut_ptr());
        let residual = match product.residual {
            Residual::None => None,
            Residual::Own => Some(Row(y.0)),
            Residual::Of(r) => {
                assert_eq!(r.len(), product.y.len(), "the residual has y's shape");
                Some(Row(r.as_ptr()))
            }
        };
        let blocks = Blocks::new(weights.n_out, n_tokens, n_threads);
        targets.push(Target { weights, bias: product.bias, residual, y, blocks, first_item: n_items });
        n_items += blocks.count;
    }
    let targets = &targets;
    ctx.pool.run(n_items, |slot, item| {
        let target = targets.iter().rfind(|t| t.first_item <= item).expect("items start at 0");
        target.run(kernels, item - target.first_item, x_rows, slots.get(slot));
    });
}

/// `y = act(G x) * (U x)`: `x` `[n_tokens][n_in]`, `y` `[n_tokens][n_out]`, in one phase.
///
/// # Panics
/// The lengths do not agree.
pub fn matmul_glu(
    ctx: &mut Context,
    gate: &Matrix<'_>,
    up: &Matrix<'_>,
    activation: Activation,
    x: &[f32],
    y: &mut [f32],
) {
    let (n_in, n_out) = (gate.n_in, gate.n_out);
    assert_eq!((up.n_in, up.n_out), (n_in, n_out), "gate and up have one shape");
    let n_tokens = n_rows(x, n_in);
    assert_eq!(y.len(), n_tokens * n_out, "y is [n_tokens][n_out]");
    let kernels = ctx.kernels();
    let (n_threads, slots) = (ctx.pool.n_threads(), ctx.scratch.slots());
    let x_rows = input_rows(&mut ctx.buffers, x, n_in);
    let blocks = Blocks::new(n_out, n_tokens, n_threads);
    let y = RowMut(y.as_mut_ptr());
    ctx.pool.run(blocks.count, |slot, item| {
        let y = &y;
        let (row, n_rows) = blocks.rows(item, n_out);
        let scratch = slots.get(slot);
        for (block, x_rows) in x_rows.chunks(BLOCK_TOKENS).enumerate() {
            // SAFETY: the slot's memory has a panel and two blocks of sums; `x_rows` are rows of
            // `n_in` padded to a step; each item writes its own columns of `y`.
            unsafe {
                let (panel, gates) = (scratch, scratch.add(PANEL_LEN));
                let ups = gates.add(SUMS_LEN);
                sums(kernels, gate, row, n_rows, x_rows, panel, gates);
                sums(kernels, up, row, n_rows, x_rows, panel, ups);
                let stride = sums_stride(x_rows.len());
                for t in 0..x_rows.len() {
                    let gate = std::slice::from_raw_parts(gates.add(t * stride), n_rows);
                    let up = std::slice::from_raw_parts(ups.add(t * stride), n_rows);
                    let y = std::slice::from_raw_parts_mut(y.0.add((block * BLOCK_TOKENS + t) * n_out + row), n_rows);
                    (kernels.glu)(activation, gate, up, y);
                }
            }
        }
    });
}

/// Rows of `x`.
fn n_rows(x: &[f32], n_in: usize) -> usize {
    assert!(n_in > 0 && x.len().is_multiple_of(n_in), "x is [n_tokens][n_in]");
    x.len() / n_in
}

/// The rows of `x`, padded with zeros to a whole number of steps where they are not.
fn input_rows<'a>(buffers: &'a mut Buffers, x: &[f32], n_in: usize) -> &'a [Row] {
    let Buffers { padded, x_rows, .. } = buffers;
    let (x, stride) = padded_rows(padded, x, n_in);
    x_rows.clear();
    x_rows.extend(x.chunks_exact(stride).map(|row| Row(row.as_ptr())));
    x_rows
}

/// `x` itself, or a copy whose rows are padded to a whole number of steps, and the rows' distance.
fn padded_rows<'a>(padded: &'a mut Vec<f32>, x: &'a [f32], n_in: usize) -> (&'a [f32], usize) {
    if n_in.is_multiple_of(STEP) {
        return (x, n_in);
    }
    let stride = n_in.next_multiple_of(STEP);
    padded.clear();
    padded.resize(x.len() / n_in * stride, 0.0);
    for (row, x) in padded.chunks_exact_mut(stride).zip(x.chunks_exact(n_in)) {
        row[..n_in].copy_from_slice(x);
    }
    (padded, stride)
}

/// How the outputs of a matrix are cut into work items: `n_large` of `large` rows, then those of `small` rows.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    small: usize,
    large: usize,
    n_large: usize,
    count: usize,
}

impl Blocks {
    fn new(n_out: usize, n_tokens: usize, n_threads: usize) -> Blocks {
        let is_few = n_tokens <= TOKENS_MAX;
        let (most, per_thread) =
            if is_few { (ITEM_ROWS_FEW, ITEMS_PER_THREAD_FEW) } else { (ITEM_ROWS, ITEMS_PER_THREAD) };
        let small = n_out.div_ceil(n_threads * per_thread).next_multiple_of(4).clamp(8, most);
        let large = small * (most / small).min(LARGE);
        // As many for each thread.
        let n_large = if is_few { n_out / 2 / large / n_threads * n_threads } else { 0 };
        let n_small = (n_out - n_large * large).div_ceil(small);
        Blocks { small, large, n_large, count: if n_tokens == 0 { 0 } else { n_large + n_small } }
    }

    /// First row and number of rows of an item.
    fn rows(&self, item: usize, n_out: usize) -> (usize, usize) {
        let row = item.min(self.n_large) * self.large + item.saturating_sub(self.n_large) * self.small;
        let most = if item < self.n_large { self.large } else { self.small };
        (row, most.min(n_out - row))
    }
}

/// A product as its work items see it.
struct Target<'a> {
    weights: Matrix<'a>,
    bias: Option<&'a [f32]>,
    residual: Option<Row>,
    y: RowMut,
    blocks: Blocks,
    first_item: usize,
}

impl Target<'_> {
    fn run(&self, kernels: &EntryPoints, item: usize, x_rows: &[Row], scratch: *mut f32) {
        let n_out = self.weights.n_out;
        let (row, n_rows) = self.blocks.rows(item, n_out);
        for (block, x_rows) in x_rows.chunks(BLOCK_TOKENS).enumerate() {
            // SAFETY: the slot's memory has a panel and a block of sums; `x_rows` are rows of
            // `n_in` padded to a step; each item writes its own columns of `y`, and reads the
            // residual at the same place.
            unsafe {
                let out = scratch.add(PANEL_LEN);
                sums(kernels, &self.weights, row, n_rows, x_rows, scratch, out);
                let stride = sums_stride(x_rows.len());
                for t in 0..x_rows.len() {
                    let at = (block * BLOCK_TOKENS + t) * n_out + row;
                    let sums = std::slice::from_raw_parts_mut(out.add(t * stride), n_rows);
                    if let Some(bias) = self.bias {
                        sums.iter_mut().zip(&bias[row..]).for_each(|(y, b)| *y += b);
                    }
                    if let Some(residual) = self.residual {
                        let residual = std::slice::from_raw_parts(residual.0.add(at), n_rows);
                        sums.iter_mut().zip(residual).for_each(|(y, r)| *y += r);
                    }
                    self.y.0.add(at).copy_from_nonoverlapping(sums.as_ptr(), n_rows);
                }
            }
        }
    }
}

/// Distance between the inputs' sums that [`sums`] leaves.
const fn sums_stride(n_tokens: usize) -> usize {
    if n_tokens <= TOKENS_MAX { ITEM_ROWS_FEW } else { ITEM_ROWS }
}

/// Sums of rows `row..row + n_rows` of `weights` with each of `x_rows`: `out[t * stride + r]`.
///
/// # Safety
/// The rows exist; `x_rows` (1 to [`BLOCK_TOKENS`]) point at `n_in` f32 padded to a step; `panel`
/// and `out` at [`PANEL_LEN`] and [`SUMS_LEN`] writable f32; the processor has the kernels.
unsafe fn sums(
    kernels: &EntryPoints,
    weights: &Matrix<'_>,
    row: usize,
    n_rows: usize,
    x_rows: &[Row],
    panel: *mut f32,
    out: *mut f32,
) {
    let (dtype, n_in, row_bytes) = (weights.dtype, weights.n_in, weights.row_bytes());
    let w = weights.bytes[row * row_bytes..(row + n_rows) * row_bytes].as_ptr();
    if x_rows.len() <= TOKENS_MAX {
        let x = std::array::from_fn(|c| x_rows[c.min(x_rows.len() - 1)].0);
        // SAFETY: as the caller vouches; `out` has room for `TOKENS_MAX` inputs.
        unsafe {
            (kernels.few)(dtype, x_rows.len())(&FewJob {
                w,
                row_bytes,
                n_rows,
                n_in,
                x,
                out,
                out_stride: ITEM_ROWS_FEW,
            })
        };
        return;
    }
    let mut x = [std::ptr::null(); BLOCK_TOKENS];
    let x = &mut x[..x_rows.len()];
    for k in (0..n_in).step_by(CHUNK) {
        let n_k = CHUNK.min(n_in - k);
        // SAFETY: as the caller vouches; `k` is a whole number of blocks into the rows. The panel
        // has whole tiles of rows; what lies in surplus rows is summed and never read.
        unsafe {
            let w = w.add(k / dtype.block_len() * dtype.block_bytes());
            (kernels.expand)(dtype)(&ExpandJob { w, row_bytes, n_rows, n_k, out: panel, out_stride: CHUNK });
            for (x, row) in x.iter_mut().zip(x_rows) {
                *x = row.0.add(k);
            }
            (kernels.tile)(&TileJob {
                panel,
                panel_stride: CHUNK,
                n_rows,
                x,
                n_k: n_k.next_multiple_of(STEP),
                out,
                out_stride: ITEM_ROWS,
                joins: k > 0,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, ITEM_ROWS, ITEM_ROWS_FEW, TOKENS_MAX};

    #[test]
    fn items_are_all_outputs_in_order_and_become_no_larger() {
        for n_out in [1, 7, 8, 9, 48, 192, 576, 577, 1536, 2000, 49_152] {
            for n_tokens in [1, TOKENS_MAX, TOKENS_MAX + 1, 600] {
                for n_threads in [1, 2, 3, 7, 64, 256] {
                    let blocks = Blocks::new(n_out, n_tokens, n_threads);
                    let case = format!("{n_out} outputs, {n_tokens} tokens, {n_threads} threads: {blocks:?}");
                    let items: Vec<_> = (0..blocks.count).map(|item| blocks.rows(item, n_out)).collect();
                    let mut next = 0;
                    for &(row, n_rows) in &items {
                        assert_eq!(row, next, "{case}");
                        next += n_rows;
                    }
                    assert_eq!(next, n_out, "{case}");
                    assert!(items.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{case}");
                    let most = if n_tokens <= TOKENS_MAX { ITEM_ROWS_FEW } else { ITEM_ROWS };
                    assert!(items.iter().all(|&(_, n_rows)| n_rows > 0 && n_rows <= most), "{case}");
                }
            }
        }
        assert_eq!(Blocks::new(64, 0, 2).count, 0);
    }

    #[test]
    fn the_last_items_of_a_decoded_token_are_short() {
        let blocks = Blocks::new(1536, 1, 2);
        let sizes: Vec<usize> = (0..blocks.count).map(|item| blocks.rows(item, 1536).1).collect();
        assert_eq!(sizes, [[192; 4].as_slice(), &[48; 16]].concat());
    }
}
