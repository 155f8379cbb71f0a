//! Penalties for tokens that were there already.
//!
//! `l > 0: l / repetition`, `l <= 0: l * repetition`, then `l - presence - count * frequency`, for
//! every id that is `count > 0` times in the window of the last tokens. Sources: Keskar et al.,
//! "CTRL", 2019, for the first; the OpenAI API for the other two. The window covers the prompt too.

use std::collections::{HashMap, VecDeque};

use super::Sampling;

/// The window of one sequence and the counts in it.
#[derive(Clone, Debug)]
pub(super) struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
    window_max: usize,
    /// The last tokens; empty when the window is without end, where none ever leaves.
    window: VecDeque<u32>,
    counts: HashMap<u32, u32>,
}

impl Penalties {
    /// An empty window, if the parameters penalise anything.
    pub(super) fn new(sampling: &Sampling) -> Option<Penalties> {
        sampling.has_penalties().then(|| Penalties {
            repetition: sampling.repetition_penalty,
            presence: sampling.presence_penalty,
            frequency: sampling.frequency_penalty,
            window_max: sampling.penalty_window as usize,
            window: VecDeque::new(),
            counts: HashMap::new(),
        })
    }

    /// The sequence has one token more.
    pub(super) fn accept(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
        if self.window_max == u32::MAX as usize {
            return;
        }
        self.window.push_back(id);
        if self.window.len() > self.window_max
            && let Some(leaving) = self.window.pop_front()
            && let Some(count) = self.counts.get_mut(&leaving)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&leaving);
            }
        }
    }

    /// Penalises and notes what was there before.
    pub(super) fn apply(&self, logits: &mut [f32], replaced: &mut Vec<(u32, f32)>) {
        for (&id, &count) in &self.counts {
            let logit = &mut logits[id as usize];
            replaced.push((id, *logit));
            *logit = if *logit > 0.0 { *logit / self.repetition } else { *logit * self.repetition };
            *logit -= self.presence + count as f32 * self.frequency;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalised(sampling: &Sampling, tokens: &[u32], logits: [f32; 4]) -> [f32; 4] {
        let mut penalties = Penalties::new(sampling).unwrap();
        tokens.iter().for_each(|&id| penalties.accept(id));
        let mut changed = logits;
        penalties.apply(&mut changed, &mut Vec::new());
        changed
    }

    #[test]
    fn each_penalty_by_its_formula() {
        let base = Sampling { penalty_window: u32::MAX, ..Sampling::greedy() };
        let logits = [2.0, -2.0, 1.0, 0.5];
        let repetition = Sampling { repetition_penalty: 2.0, ..base.clone() };
        assert_eq!(penalised(&repetition, &[0, 1, 1], logits), [1.0, -4.0, 1.0, 0.5]);
        let presence = Sampling { presence_penalty: 0.5, ..base.clone() };
        assert_eq!(penalised(&presence, &[0, 1, 1], logits), [1.5, -2.5, 1.0, 0.5]);
        let frequency = Sampling { frequency_penalty: 0.25, ..base };
        assert_eq!(penalised(&frequency, &[0, 1, 1], logits), [1.75, -2.5, 1.0, 0.5]);
    }

    #[test]
    fn tokens_leave_the_window() {
        let sampling = Sampling { frequency_penalty: 1.0, penalty_window: 2, ..Sampling::greedy() };
        assert_eq!(penalised(&sampling, &[0, 0, 0, 1], [0.0; 4]), [-1.0, -1.0, 0.0, 0.0]);
        assert_eq!(penalised(&sampling, &[0, 1, 2], [0.0; 4]), [0.0, -1.0, -1.0, 0.0]);
    }

    #[test]
    fn off_means_none() {
        assert!(Penalties::new(&Sampling { penalty_window: 64, ..Sampling::greedy() }).is_none());
        assert!(Penalties::new(&Sampling { frequency_penalty: 1.0, ..Sampling::greedy() }).is_none());
    }
}
