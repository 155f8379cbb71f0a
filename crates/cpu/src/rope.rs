//! Rotary position embedding: `(x, y) -> (x cos - y sin, x sin + y cos)` on pairs of columns.
//!
//! Axes: `t` tokens, `h` heads of `head_dim` columns, `i` pairs, `i < n_rot / 2`. Cosines and sines
//! are given per token and pair (they are the same in every head and layer), with whatever
//! scaling the model wants in them.

use crate::context::{Context, RowMut};

/// Which columns of a head form pair `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// `i` and `i + n_rot / 2`.
    HalfSplit,
    /// `2 i` and `2 i + 1`.
    Adjacent,
}

/// Tokens of a work item.
const ITEM_TOKENS: usize = 8;

/// Rotates every head of `x` `[n_tokens][n_heads][head_dim]` in place; `cos` and `sin` are
/// `[n_tokens][n_rot / 2]`. Columns from `n_rot` on stay.
///
/// # Panics
/// The lengths do not agree.
pub fn rope(
    ctx: &mut Context,
    x: &mut [f32],
    n_tokens: usize,
    head_dim: usize,
    pairs: Pairs,
    cos: &[f32],
    sin: &[f32],
) {
    if n_tokens == 0 {
        return;
    }
    let n_pairs = cos.len() / n_tokens;
    assert!(cos.len() == n_tokens * n_pairs && sin.len() == cos.len(), "cos and sin are [n_tokens][n_rot / 2]");
    assert!(head_dim > 0 && 2 * n_pairs <= head_dim, "the rotated part is inside the head");
    assert!(x.len().is_multiple_of(n_tokens * head_dim), "x is [n_tokens][n_heads][head_dim]");
    let width = x.len() / n_tokens;
    let x = RowMut(x.as_mut_ptr());
    ctx.pool.run(n_tokens.div_ceil(ITEM_TOKENS), |_, item| {
        let x = &x;
        for t in item * ITEM_TOKENS..((item + 1) * ITEM_TOKENS).min(n_tokens) {
            // SAFETY: each item has its own rows.
            let row = unsafe { std::slice::from_raw_parts_mut(x.0.add(t * width), width) };
            let (cos, sin) = (&cos[t * n_pairs..][..n_pairs], &sin[t * n_pairs..][..n_pairs]);
            for head in row.chunks_exact_mut(head_dim) {
                rotate(head, pairs, cos, sin);
            }
        }
    });
}

fn rotate(head: &mut [f32], pairs: Pairs, cos: &[f32], sin: &[f32]) {
    match pairs {
        Pairs::HalfSplit => {
            let (first, second) = head.split_at_mut(cos.len());
            for ((x, y), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
                (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
            }
        }
        Pairs::Adjacent => {
            for (pair, (cos, sin)) in head.chunks_exact_mut(2).zip(cos.iter().zip(sin)) {
                let [x, y] = [pair[0], pair[1]];
                (pair[0], pair[1]) = (x * cos - y * sin, x * sin + y * cos);
            }
        }
    }
}
