//! Sequences as the flat arrays of a [`Batch`].
//!
//! Rows follow the order of the spans. A block table is as long as the longest sequence of the
//! step needs it, and shorter ones are filled up with page 0, which nothing reads; so are those of layers
//! with a window where it has passed.

use zinc_graph::Batch;
use zinc_graph::batch::Places;

use crate::kv::{Allocation, pages_for};

/// Which rows of a span pass the model's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None: a part of a prompt.
    None,
    /// The last: the next token is wanted.
    Last,
    /// All: an evaluation.
    All,
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The tokens.
    pub ids: &'a [u32],
    /// Position of the first.
    pub start: u32,
    /// The sequence's memory.
    pub kv: &'a Allocation,
    /// Rows whose logits are wanted.
    pub outputs: Outputs,
}

impl Span<'_> {
    /// Tokens of the sequence after the step.
    fn end(&self) -> u32 {
        self.start + count(self.ids.len())
    }
}

/// Replaces a batch by the spans, one per sequence.
pub fn fill(batch: &mut Batch, spans: &[Span<'_>]) {
    batch.clear();
    let pages_max = spans.iter().map(|span| pages_for(span.end())).max().unwrap_or(0);
    batch.pages_max = pages_max;
    batch.query_start.push(0);
    for (seq_idx, span) in (0u32..).zip(spans) {
        batch.ids.extend_from_slice(span.ids);
        batch.positions.extend(span.start..span.end());
        batch.seq_idx.extend(span.ids.iter().map(|_| seq_idx));
        batch.full.kv_slots.extend((span.start..span.end()).map(|position| span.kv.table.slot_of(position)));
        let n_tokens = count(batch.ids.len());
        let first_row = n_tokens - count(span.ids.len());
        match span.outputs {
            Outputs::None => {}
            Outputs::Last => batch.output_rows.push(n_tokens - 1),
            Outputs::All => batch.output_rows.extend(first_row..n_tokens),
        }
        batch.query_start.push(n_tokens);
        let n_pages = pages_for(span.end()) as usize;
        let row = seq_idx as usize * pages_max as usize;
        let tables = &mut batch.full.block_tables;
        tables.extend(span.kv.table.pages()[..n_pages].iter().map(|page| page.0));
        tables.resize(row + pages_max as usize, 0);
        if let Some(table) = &span.kv.window {
            let Places { kv_slots, block_tables } = &mut batch.window;
            kv_slots.extend((span.start..span.end()).map(|position| table.slot_of(position)));
            let first = table.first() as usize;
            block_tables.resize(row + first, 0);
            block_tables.extend(table.pages().take(n_pages - first).map(|page| page.0));
            block_tables.resize(row + pages_max as usize, 0);
        }
        batch.state_slots.push(span.kv.slot);
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("a step has at most STEP_TOKENS_MAX tokens")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{Kv, KvLimits};

    #[test]
    fn rows_tables_and_outputs_of_three_sequences() {
        let mut kv = Kv::new(KvLimits { n_pages: 10, n_slots: 4, n_snapshots: 0, is_recurrent: false, window: None });
        let long = kv.claim(40, 40).unwrap();
        let short = kv.claim(4, 4).unwrap();
        let whole = kv.claim(20, 20).unwrap();
        let spans = [
            Span { ids: &[7], start: 33, kv: &long, outputs: Outputs::Last },
            Span { ids: &[1, 2], start: 0, kv: &short, outputs: Outputs::None },
            Span { ids: &[3, 4, 5], start: 15, kv: &whole, outputs: Outputs::All },
        ];
        let mut batch = Batch { ids: vec![9; 9], output_rows: vec![1], ..Batch::default() };
        fill(&mut batch, &spans);
        let page = |a: &Allocation, i: usize| a.table.pages()[i].0;
        let expected = Batch {
            ids: vec![7, 1, 2, 3, 4, 5],
            positions: vec![33, 0, 1, 15, 16, 17],
            seq_idx: vec![0, 1, 1, 2, 2, 2],
            full: Places {
                kv_slots: vec![
                    page(&long, 2) * 16 + 1,
                    page(&short, 0) * 16,
                    page(&short, 0) * 16 + 1,
                    page(&whole, 0) * 16 + 15,
                    page(&whole, 1) * 16,
                    page(&whole, 1) * 16 + 1,
                ],
                block_tables: vec![
                    page(&long, 0),
                    page(&long, 1),
                    page(&long, 2),
                    page(&short, 0),
                    0,
                    0,
                    page(&whole, 0),
                    page(&whole, 1),
                    0,
                ],
            },
            window: Places::default(),
            query_start: vec![0, 1, 3, 6],
            pages_max: 3,
            state_slots: vec![long.slot, short.slot, whole.slot],
            output_rows: vec![0, 3, 4, 5],
        };
        assert_eq!(batch, expected);
        let limits = zinc_graph::batch::BatchLimits {
            tokens_max: 8,
            outputs_max: 4,
            n_vocab: 10,
            n_pages: 10,
            n_window_pages: 0,
            n_state_slots: 4,
        };
        assert_eq!(batch.validate(&limits), Ok(()));
    }
}
