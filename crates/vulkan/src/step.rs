//! The step buffer: a batch as kernels see it, in mapped memory.
//!
//! Eight words (tokens, outputs, sequences, pages in a row, where the block tables begin, the step's number), then one record of
//! eight words for each token, output and sequence of that number, as `shaders/common/zinc.glsl` reads them, then the block
//! tables. A token's record lies where a kernel knows it to be before it has read anything: what it reads first it reads all at
//! once.
//!
//! Where layers with a window have pages of their own there is a second view of the batch after the first, the same but for
//! the places in pages: the kernels of those layers are given that address, and know of nothing else.

use zinc_graph::Batch;
use zinc_graph::batch::PageGroup;

/// Words before the records, and words of a record.
const HEADER: usize = 8;
const RECORD: usize = 8;

/// Bytes of the step buffer for so many tokens and entries of block tables.
pub fn bytes(capacity: u32, table_entries: u64) -> u64 {
    4 * (HEADER as u64 + RECORD as u64 * (u64::from(capacity) + 1) + table_entries)
}

/// Writes a batch that was validated against the plan's limits, with its places in the pages of `group`, as step `number` of its
/// plan; false if there is too little room for block tables.
pub fn write(bytes: &mut [u8], batch: &Batch, group: PageGroup, capacity: u32, number: u32) -> bool {
    let places = batch.places(group);
    let words: &mut [u32] = bytemuck::cast_slice_mut(bytes);
    let n = capacity as usize;
    let tables = HEADER + RECORD * (n + 1);
    let fits = tables + places.block_tables.len() <= words.len() && batch.n_seqs() <= n;
    if !fits {
        return false;
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    words[..6].copy_from_slice(&[
        count(batch.n_tokens()),
        count(batch.n_outputs()),
        count(batch.n_seqs()),
        batch.pages_max,
        count(tables - HEADER),
        number,
    ]);
    let n_records = batch.n_tokens().max(batch.query_start.len()).max(batch.n_outputs());
    let of = |array: &[u32], i: usize| array.get(i).copied().unwrap_or(0);
    // A whole record at a time: the memory may be the device's, behind a bus.
    for (i, record) in words[HEADER..tables].chunks_exact_mut(RECORD).take(n_records).enumerate() {
        let start = of(&batch.query_start, i);
        record.copy_from_slice(&[
            of(&batch.ids, i),
            of(&batch.positions, i),
            of(&batch.seq_idx, i),
            of(&places.kv_slots, i),
            of(&batch.output_rows, i),
            of(&batch.state_slots, i),
            start,
            // Of a sequence, the position of its first token.
            of(&batch.positions, start as usize),
        ]);
    }
    words[tables..tables + places.block_tables.len()].copy_from_slice(&places.block_tables);
    true
}
