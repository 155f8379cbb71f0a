//! Where the device's time goes: phases of all steps, added up by what they do.

use zinc_graph::backend::PhaseTime;

/// Phases that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRow {
    /// Tokens of the steps.
    pub n_tokens: u32,
    /// The ops that ran side by side.
    pub label: String,
    /// How often.
    pub count: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Bytes that had to be moved in all, without keys and values.
    pub bytes: u64,
}

/// Times since profiling was turned on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    rows: Vec<ProfileRow>,
    n_steps: Vec<(u32, u64)>,
}

impl Profile {
    pub(crate) fn add(&mut self, n_tokens: u32, phases: &[PhaseTime]) {
        match self.n_steps.iter_mut().find(|(n, _)| *n == n_tokens) {
            Some((_, steps)) => *steps += 1,
            None => self.n_steps.push((n_tokens, 1)),
        }
        for phase in phases {
            let known = self.rows.iter_mut().find(|row| row.n_tokens == n_tokens && row.label == phase.label);
            let row = match known {
                Some(row) => row,
                None => {
                    let label = phase.label.clone();
                    self.rows.push(ProfileRow { n_tokens, label, count: 0, seconds: 0.0, bytes: 0 });
                    self.rows.last_mut().expect("one was pushed")
                }
            };
            row.count += 1;
            row.seconds += phase.seconds;
            row.bytes += phase.bytes;
        }
    }

    /// Sizes of step that were seen, and how many steps there were of each.
    #[must_use]
    pub fn steps(&self) -> &[(u32, u64)] {
        &self.n_steps
    }

    /// The rows of steps of `n_tokens` tokens, the longest first.
    #[must_use]
    pub fn rows(&self, n_tokens: u32) -> Vec<&ProfileRow> {
        let mut rows: Vec<&ProfileRow> = self.rows.iter().filter(|row| row.n_tokens == n_tokens).collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        rows
    }
}
