//! The compiled plans, one per size of step, made when a size first occurs.
//!
//! Sizes are rounded up to powers of two, so their number is small and known: at most 14 of tokens,
//! and for each no more than 14 of outputs.

use std::collections::BTreeMap;

use zinc_graph::backend::{Backend, BackendError, Bucket, PlanId, PlanOptions};
use zinc_graph::{Batch, Graph};

/// Plans by bucket.
#[derive(Debug)]
pub(crate) struct Plans {
    step_tokens: u32,
    by_bucket: BTreeMap<Bucket, PlanId>,
}

impl Plans {
    pub(crate) fn new(step_tokens: u32) -> Plans {
        Plans { step_tokens, by_bucket: BTreeMap::new() }
    }

    /// Plans that were compiled.
    pub(crate) fn len(&self) -> usize {
        self.by_bucket.len()
    }

    /// The plan of the smallest bucket that holds the batch.
    pub(crate) fn of(
        &mut self,
        batch: &Batch,
        graph: &Graph,
        backend: &mut dyn Backend,
    ) -> Result<PlanId, BackendError> {
        let bucket = bucket(batch.n_tokens(), batch.n_outputs(), self.step_tokens);
        if let Some(&plan) = self.by_bucket.get(&bucket) {
            return Ok(plan);
        }
        let plan = backend.compile(graph, &PlanOptions { bucket, keep_values: false })?;
        self.by_bucket.insert(bucket, plan);
        Ok(plan)
    }
}

fn bucket(n_tokens: usize, n_outputs: usize, step_tokens: u32) -> Bucket {
    let count = |n: usize| u32::try_from(n).expect("a step has at most STEP_TOKENS_MAX tokens");
    let tokens = count(n_tokens).next_power_of_two().min(step_tokens);
    Bucket { tokens, outputs: count(n_outputs).max(1).next_power_of_two().min(tokens) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two_up_to_the_step() {
        let cases =
            [((1, 1), (1, 1)), ((3, 0), (4, 1)), ((33, 5), (64, 8)), ((300, 1), (300, 1)), ((257, 300), (300, 300))];
        for ((n_tokens, n_outputs), (tokens, outputs)) in cases {
            assert_eq!(bucket(n_tokens, n_outputs, 300), Bucket { tokens, outputs });
        }
    }
}
