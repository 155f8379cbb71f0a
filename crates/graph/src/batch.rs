//! What changes from step to step: the batch as flat arrays.
//!
//! The engine fills one `Batch` a step and a backend copies it into its step buffer; nothing
//! else about sequences reaches a kernel. Tokens of one sequence are contiguous rows in rising
//! position. A sequence whose first row has position 0 starts from empty recurrent state.
//!
//! Layers that see a window only may have pages of their own ([`PageGroup::Window`]), and then a second
//! block table: pages wholly before what a row of the step can see are not named there any more.

use std::ops::Range;

/// Tokens in a page of the KV cache.
pub const PAGE_TOKENS: u32 = 16;

/// Layers that share a pool of pages and a block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageGroup {
    /// Those that see everything; all layers, if the others have no pages of their own.
    Full,
    /// Those that see a window.
    Window,
}

/// Where a step's keys and values lie in the pages of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Where each token's key and value go: page * 16 + place in the page, `[n]`.
    pub kv_slots: Vec<u32>,
    /// Pages of each sequence in order, `[s][pages_max]`. Of a page that holds nothing for this step any number.
    pub block_tables: Vec<u32>,
}

/// One step's batch of `n` tokens in `s` sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[n]`.
    pub ids: Vec<u32>,
    /// Position of each token in its sequence, `[n]`.
    pub positions: Vec<u32>,
    /// Which sequence (row of a block table) each token belongs to, `[n]`.
    pub seq_idx: Vec<u32>,
    /// First row of each sequence, and `n` at the end, `[s + 1]`.
    pub query_start: Vec<u32>,
    /// Places in the pages of layers that see everything.
    pub full: Places,
    /// Places in the pages of layers with a window; empty if they have none of their own.
    pub window: Places,
    /// Pages in a row of each block table.
    pub pages_max: u32,
    /// Slot of each sequence's recurrent states, `[s]`.
    pub state_slots: Vec<u32>,
    /// Rows whose logits are wanted, rising, `[outputs]`.
    pub output_rows: Vec<u32>,
}

impl Batch {
    /// Tokens in the batch.
    #[must_use]
    pub fn n_tokens(&self) -> usize {
        self.ids.len()
    }

    /// Sequences in the batch.
    #[must_use]
    pub fn n_seqs(&self) -> usize {
        self.state_slots.len()
    }

    /// Rows whose logits are wanted.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.output_rows.len()
    }

    /// The places of a group.
    #[must_use]
    pub const fn places(&self, group: PageGroup) -> &Places {
        match group {
            PageGroup::Full => &self.full,
            PageGroup::Window => &self.window,
        }
    }

    /// Slot (page * 16 + place) of position `position` of sequence `seq`.
    #[must_use]
    pub fn slot_of(&self, group: PageGroup, seq: u32, position: u32) -> u32 {
        let page = self.places(group).block_tables[(seq * self.pages_max + position / PAGE_TOKENS) as usize];
        page * PAGE_TOKENS + position % PAGE_TOKENS
    }

    /// The sequences that have rows, in order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.query_start.windows(2).zip(&self.state_slots).filter(|(bounds, _)| bounds[0] < bounds[1]).map(
            |(bounds, &state_slot)| {
                let rows = bounds[0] as usize..bounds[1] as usize;
                Run { fresh: self.positions[rows.start] == 0, rows, state_slot }
            },
        )
    }

    /// Empties every array and keeps its memory.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.positions.clear();
        self.seq_idx.clear();
        self.query_start.clear();
        for places in [&mut self.full, &mut self.window] {
            places.kv_slots.clear();
            places.block_tables.clear();
        }
        self.state_slots.clear();
        self.output_rows.clear();
    }

    /// Checks what a backend relies on: array lengths agree, every index is inside its bound.
    ///
    /// # Errors
    /// A sentence that names the array at fault.
    pub fn validate(&self, limits: &BatchLimits) -> Result<(), BatchError> {
        let (n, s) = (self.n_tokens(), self.n_seqs());
        let n_entries = s * self.pages_max as usize;
        let of_window = |expected: usize| if limits.n_window_pages > 0 { expected } else { 0 };
        let arrays = [
            ("positions", self.positions.len(), n),
            ("seq_idx", self.seq_idx.len(), n),
            ("full.kv_slots", self.full.kv_slots.len(), n),
            ("full.block_tables", self.full.block_tables.len(), n_entries),
            ("window.kv_slots", self.window.kv_slots.len(), of_window(n)),
            ("window.block_tables", self.window.block_tables.len(), of_window(n_entries)),
            ("query_start", self.query_start.len(), s + 1),
        ];
        for (array, got, expected) in arrays {
            if got != expected {
                return Err(BatchError::Length { array, expected, got });
            }
        }
        if n == 0 || n > limits.tokens_max || self.n_outputs() > limits.outputs_max {
            return Err(BatchError::Length { array: "ids", expected: limits.tokens_max, got: n });
        }
        within("ids", &self.ids, limits.n_vocab)?;
        within("seq_idx", &self.seq_idx, s)?;
        within("full.kv_slots", &self.full.kv_slots, limits.n_pages * PAGE_TOKENS as usize)?;
        within("full.block_tables", &self.full.block_tables, limits.n_pages)?;
        within("window.kv_slots", &self.window.kv_slots, limits.n_window_pages * PAGE_TOKENS as usize)?;
        within("window.block_tables", &self.window.block_tables, limits.n_window_pages)?;
        within("state_slots", &self.state_slots, limits.n_state_slots)?;
        within("output_rows", &self.output_rows, n)?;
        within("positions", &self.positions, self.pages_max as usize * PAGE_TOKENS as usize)?;
        if self.query_start.first() != Some(&0) || self.query_start[s] as usize != n {
            return Err(BatchError::Length { array: "query_start", expected: n, got: 0 });
        }
        self.validate_runs()
    }

    /// The tokens of each sequence are one run of rows with rising positions.
    fn validate_runs(&self) -> Result<(), BatchError> {
        for (seq, bounds) in self.query_start.windows(2).enumerate() {
            let (start, end) = (bounds[0] as usize, bounds[1] as usize);
            if start > end || end > self.n_tokens() {
                return Err(BatchError::Index {
                    array: "query_start",
                    index: seq,
                    value: bounds[1],
                    below: self.n_tokens() + 1,
                });
            }
            for row in start..end {
                let in_order = row == start || self.positions[row] == self.positions[row - 1] + 1;
                if self.seq_idx[row] as usize != seq || !in_order {
                    return Err(BatchError::Index {
                        array: "seq_idx",
                        index: row,
                        value: self.seq_idx[row],
                        below: self.n_seqs(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn within(array: &'static str, values: &[u32], below: usize) -> Result<(), BatchError> {
    match values.iter().position(|&v| v as usize >= below) {
        Some(index) => Err(BatchError::Index { array, index, value: values[index], below }),
        None => Ok(()),
    }
}

/// The rows of one sequence in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its rows.
    pub rows: Range<usize>,
    /// Slot of its recurrent states.
    pub state_slot: u32,
    /// Whether it starts at position 0 and so from empty states, whatever the slot holds.
    pub fresh: bool,
}

/// What a batch must stay inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Rows of the plan's bucket.
    pub tokens_max: usize,
    /// Logit rows of the plan's bucket.
    pub outputs_max: usize,
    /// Entries of the vocabulary.
    pub n_vocab: usize,
    /// Pages of the KV pool.
    pub n_pages: usize,
    /// Pages of the pool of layers with a window; 0 if they share the others'.
    pub n_window_pages: usize,
    /// Slots of recurrent state.
    pub n_state_slots: usize,
}

/// A batch that a backend must not be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// An array has the wrong number of entries.
    #[error("batch: `{array}` has {got} entries where {expected} are expected")]
    Length {
        /// Which array.
        array: &'static str,
        /// Entries expected, or the most allowed.
        expected: usize,
        /// Entries found.
        got: usize,
    },
    /// An entry points outside, or rows are out of order.
    #[error("batch: `{array}[{index}]` is {value}, out of order or not below {below}")]
    Index {
        /// Which array.
        array: &'static str,
        /// Which entry.
        index: usize,
        /// Its value.
        value: u32,
        /// The bound.
        below: usize,
    },
}
