//! Work shared out by rows: each thread gets whole rows of the output.

use crate::context::{Context, RowMut};

/// f32 of output that make a work item worth its hand-over.
const ITEM_LEN: usize = 8192;

/// Calls `body(row, y_row)` for every row of `y`, `[rows][cols]`, on the pool.
pub(crate) fn for_rows(ctx: &mut Context, y: &mut [f32], cols: usize, body: impl Fn(usize, &mut [f32]) + Sync) {
    if cols == 0 || y.is_empty() {
        return;
    }
    let n_rows = y.len() / cols;
    let per_item = (ITEM_LEN / cols).clamp(1, n_rows);
    if per_item == n_rows {
        y.chunks_exact_mut(cols).enumerate().for_each(|(row, y)| body(row, y));
        return;
    }
    let base = RowMut(y.as_mut_ptr());
    ctx.run(n_rows.div_ceil(per_item), |_, item| {
        let base = &base;
        for row in item * per_item..((item + 1) * per_item).min(n_rows) {
            // SAFETY: each item has its own rows of `y`, which the call borrows.
            let y = unsafe { std::slice::from_raw_parts_mut(base.0.add(row * cols), cols) };
            body(row, y);
        }
    });
}
