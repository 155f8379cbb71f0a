//! Products with the matrices that each row has chosen (mixture of experts):
//! `y[t][j] = W[ids[t][j]] x[t] (+ b[ids[t][j]])`.
//!
//! Axes: `t` tokens, `j` choices of a token, and the matrix's `k` and `o`. Rows are grouped by
//! expert first, so each chosen expert's weights are read once.

use zinc_gguf::DType;

use super::{BLOCK_TOKENS, Blocks, Matrix, PANEL_LEN, padded_rows, sums, sums_stride};
use crate::context::{Buffers, Context, Row, RowMut};
use crate::error::Error;

/// `n_experts` matrices of one shape, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Experts<'a> {
    all: Matrix<'a>,
    n_out: usize,
}

impl<'a> Experts<'a> {
    /// The matrices over their bytes, `[n_experts][n_out][n_in]`.
    ///
    /// # Errors
    /// `n_in` is no whole number of blocks, or the bytes are not those of that shape.
    pub fn new(
        dtype: DType,
        bytes: &'a [u8],
        n_in: usize,
        n_out: usize,
        n_experts: usize,
    ) -> Result<Experts<'a>, Error> {
        let all = Matrix::new(dtype, bytes, n_in, n_out.saturating_mul(n_experts))?;
        Ok(Experts { all, n_out })
    }

    /// Number of experts.
    #[must_use]
    pub const fn n_experts(&self) -> usize {
        match self.n_out {
            0 => 0,
            n => self.all.n_out / n,
        }
    }
}

/// Multiplies each row by the experts that it chose. `ids` is `[n_tokens][n_choices]`; `x` is
/// `[n_tokens][n_in]`, or `[n_tokens][n_choices][n_in]` where each choice has its own input; `bias`
/// is `[n_experts][n_out]`; `y` is `[n_tokens][n_choices][n_out]`.
///
/// # Panics
/// The lengths do not agree, or an id is not below the number of experts.
pub fn expert_matmul(
    ctx: &mut Context,
    experts: &Experts<'_>,
    ids: &[u32],
    n_choices: usize,
    x: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
) {
    let (n_in, n_out, n_experts) = (experts.all.n_in, experts.n_out, experts.n_experts());
    assert!(n_choices > 0 && ids.len().is_multiple_of(n_choices), "ids is [n_tokens][n_choices]");
    assert_eq!(y.len(), ids.len() * n_out, "y is [n_tokens][n_choices][n_out]");
    assert!(bias.is_none_or(|b| b.len() == n_experts * n_out), "the bias is [n_experts][n_out]");
    let choices_per_input = match x.len() {
        n if n == ids.len() * n_in => 1,
        n if n == ids.len() / n_choices * n_in => n_choices,
        n => panic!("x has {n} elements, neither one row per token nor one per choice"),
    };
    let kernels = ctx.kernels();
    let (n_threads, slots) = (ctx.pool.n_threads(), ctx.scratch.slots());
    let Buffers { padded, x_rows, y_rows, counts, .. } = &mut ctx.buffers;
    let (x, stride) = padded_rows(padded, x, n_in);
    group(ids, n_experts, counts);
    x_rows.clear();
    x_rows.resize(ids.len(), Row(x.as_ptr()));
    y_rows.clear();
    let y = y.as_mut_ptr();
    y_rows.resize(ids.len(), RowMut(y));
    for (choice, &id) in ids.iter().enumerate() {
        // `counts[id]` runs from the first place of the expert to the first of the next.
        let place = counts[id as usize] as usize;
        counts[id as usize] += 1;
        x_rows[place] = Row(x[choice / choices_per_input * stride..].as_ptr());
        y_rows[place] = RowMut(y.wrapping_add(choice * n_out));
    }
    let (x_rows, y_rows, ends) = (&*x_rows, &*y_rows, &counts[..n_experts]);
    let blocks = Blocks::new(n_out, BLOCK_TOKENS, n_threads);
    ctx.pool.run(n_experts * blocks.count, |slot, item| {
        let expert = item / blocks.count;
        let (row, n_rows) = blocks.rows(item % blocks.count, n_out);
        let begin = if expert == 0 { 0 } else { ends[expert - 1] as usize };
        let end = ends[expert] as usize;
        let scratch = slots.get(slot);
        for (x_rows, y_rows) in x_rows[begin..end].chunks(BLOCK_TOKENS).zip(y_rows[begin..end].chunks(BLOCK_TOKENS)) {
            // SAFETY: the slot's memory has a panel and a block of sums; `x_rows` are rows of
            // `n_in` padded to a step; each item writes its own columns of its own rows of `y`.
            unsafe {
                let out = scratch.add(PANEL_LEN);
                sums(kernels, &experts.all, expert * n_out + row, n_rows, x_rows, scratch, out);
                for (t, y) in y_rows.iter().enumerate() {
                    let sums = std::slice::from_raw_parts_mut(out.add(t * sums_stride(x_rows.len())), n_rows);
                    if let Some(bias) = bias {
                        sums.iter_mut().zip(&bias[expert * n_out + row..]).for_each(|(y, b)| *y += b);
                    }
                    y.0.add(row).copy_from_nonoverlapping(sums.as_ptr(), n_rows);
                }
            }
        }
    });
}

/// Counts the choices of each expert and leaves in `counts` where each expert's rows begin.
fn group(ids: &[u32], n_experts: usize, counts: &mut Vec<u32>) {
    counts.clear();
    counts.resize(n_experts, 0);
    for &id in ids {
        assert!((id as usize) < n_experts, "expert {id} of {n_experts}");
        counts[id as usize] += 1;
    }
    let mut begin = 0;
    for count in counts {
        begin += std::mem::replace(count, begin);
    }
}
