//! The step buffer: a batch as kernels see it, in mapped memory.
//!
//! Eight words (tokens, outputs, sequences, pages in a row, capacity), then arrays of `capacity`
//! entries in the order that `shaders/common/zinc.glsl` reads them. Offsets depend on the plan's
//! bucket alone, so recorded commands stay valid.
//!
//! Where layers with a window have pages of their own there is a second view of the batch after the first, the same but for
//! the places in pages: the kernels of those layers are given that address, and know of nothing else.

use zinc_graph::Batch;
use zinc_graph::batch::PageGroup;

/// Words before the arrays.
const HEADER: usize = 8;

/// Bytes of the step buffer for so many tokens and entries of block tables.
pub fn bytes(capacity: u32, table_entries: u64) -> u64 {
    4 * (HEADER as u64 + 7 * u64::from(capacity) + 1 + table_entries)
}

/// Writes a batch that was validated against the plan's limits, with its places in the pages of `group`; false if there is
/// too little room for block tables.
pub fn write(bytes: &mut [u8], batch: &Batch, group: PageGroup, capacity: u32) -> bool {
    let places = batch.places(group);
    let words: &mut [u32] = bytemuck::cast_slice_mut(bytes);
    let n = capacity as usize;
    let tables = HEADER + 7 * n + 1;
    let fits = tables + places.block_tables.len() <= words.len() && batch.n_seqs() <= n;
    if !fits {
        return false;
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    words[..5].copy_from_slice(&[
        count(batch.n_tokens()),
        count(batch.n_outputs()),
        count(batch.n_seqs()),
        batch.pages_max,
        capacity,
    ]);
    let arrays = [
        &batch.ids,
        &batch.positions,
        &batch.seq_idx,
        &places.kv_slots,
        &batch.output_rows,
        &batch.state_slots,
        &batch.query_start,
    ];
    for (i, array) in arrays.into_iter().enumerate() {
        let at = HEADER + i * n;
        words[at..at + array.len()].copy_from_slice(array);
    }
    words[tables..tables + places.block_tables.len()].copy_from_slice(&places.block_tables);
    true
}
