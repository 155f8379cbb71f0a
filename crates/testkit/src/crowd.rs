//! All prompts of a golden file at once: several sequences in each batch, which progress at different speeds.
//!
//! Each sequence has pages and a state slot of its own. A batch begins with another sequence at every step, and a
//! sequence that is done is absent, so neither its row nor its place in the batch can stand for its slot.

use zinc_graph::backend::{Bucket, PlanId, PlanOptions, StateSizes};
use zinc_graph::batch::{PAGE_TOKENS, PageGroup};
use zinc_graph::{Backend, Batch, fuse};
use zinc_models::Model;

use crate::Error;
use crate::golden::{Demand, Golden, Outcome, Prompt, compare};

/// Tokens that a sequence takes in a step, by its index.
const STRIDES: [usize; 4] = [1, 3, 7, 20];

/// Runs all prompts side by side and compares the logits of each.
///
/// # Errors
/// The first number that is off, or why the model does not run.
pub fn check_crowd(golden: &Golden, mut backend: Box<dyn Backend>, demand: &Demand<'_>) -> Result<Outcome, Error> {
    let (file, model) = golden.open()?;
    let graph = fuse(&model.graph, backend.device().fusions);
    let mut crowd = Crowd::new(golden);
    let (n_pages, n_slots) = (crowd.pages_max * crowd.n_seqs(), crowd.n_seqs());
    let sizes = StateSizes { n_pages, n_window_pages: 0, kv_format: demand.kv_format, n_slots };
    backend.load(&model.graph, model.weights(&file)?, sizes)?;
    let tokens = STRIDES.iter().sum::<usize>();
    let bucket = Bucket { tokens: count(tokens), outputs: count(tokens) };
    let plan = backend.compile(&graph, &PlanOptions { bucket, keep_values: false })?;

    let mut outcome = Outcome { logit_difference_max: 0.0, n_rows: 0, n_greedy: 0 };
    while let Some((batch, wanted)) = crowd.next_batch() {
        let ticket = backend.submit(plan, &batch)?;
        backend.wait(ticket)?;
        for (row, (seq, kept)) in wanted.into_iter().enumerate() {
            let prompt = &golden.prompts[seq];
            let what = format!(
                "{}, crowd, prompt of {}, position {}",
                golden.name,
                prompt.tokens.len(),
                prompt.positions[kept]
            );
            let got = logits(backend.as_mut(), plan, &model, row)?;
            let difference = compare(&what, &prompt.logits[kept], &got, demand.logit_tolerance)?;
            outcome.logit_difference_max = outcome.logit_difference_max.max(difference);
            outcome.n_rows += 1;
        }
    }
    Ok(outcome)
}

fn logits(backend: &mut dyn Backend, plan: PlanId, model: &Model, row: usize) -> Result<Vec<f32>, Error> {
    let mut data = vec![0.0; model.n_vocab as usize];
    backend.read(plan, model.logits, row, &mut data)?;
    Ok(data)
}

struct Crowd<'a> {
    prompts: &'a [Prompt],
    /// Tokens fed so far.
    done: Vec<usize>,
    pages_max: u32,
    step: usize,
}

impl<'a> Crowd<'a> {
    fn new(golden: &'a Golden) -> Crowd<'a> {
        let longest = golden.prompts.iter().map(|p| p.tokens.len()).max().unwrap_or(0);
        let pages_max = count(longest).div_ceil(PAGE_TOKENS);
        Crowd { prompts: &golden.prompts, done: vec![0; golden.prompts.len()], pages_max, step: 0 }
    }

    fn n_seqs(&self) -> u32 {
        count(self.prompts.len())
    }

    /// The next step's batch, and for each of its output rows the sequence and the index among its kept positions.
    fn next_batch(&mut self) -> Option<(Batch, Vec<(usize, usize)>)> {
        let mut batch = Batch { pages_max: self.pages_max, query_start: vec![0], ..Batch::default() };
        let mut wanted = Vec::new();
        for i in 0..self.prompts.len() {
            let seq = (i + self.step) % self.prompts.len();
            let (prompt, done) = (&self.prompts[seq], self.done[seq]);
            let end = (done + STRIDES[seq % STRIDES.len()]).min(prompt.tokens.len());
            if done == end {
                continue;
            }
            let row = count(batch.state_slots.len());
            batch.state_slots.push(self.n_seqs() - 1 - count(seq));
            batch.full.block_tables.extend((0..self.pages_max).map(|page| self.page(count(seq), page)));
            for position in done..end {
                batch.ids.push(prompt.tokens[position]);
                batch.positions.push(count(position));
                batch.seq_idx.push(row);
                batch.full.kv_slots.push(batch.slot_of(PageGroup::Full, row, count(position)));
                if let Ok(kept) = prompt.positions.binary_search(&count(position)) {
                    batch.output_rows.push(count(batch.ids.len() - 1));
                    wanted.push((seq, kept));
                }
            }
            batch.query_start.push(count(batch.ids.len()));
            self.done[seq] = end;
        }
        self.step += 1;
        (!batch.ids.is_empty()).then_some((batch, wanted))
    }

    /// Pages are handed out backwards and in turn.
    fn page(&self, seq: u32, index: u32) -> u32 {
        self.pages_max * self.n_seqs() - 1 - (index * self.n_seqs() + seq)
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("a test feeds few tokens")
}
