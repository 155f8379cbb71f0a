//! Synthetic models that are made, not committed: which there are, where they lie, and the answers for them.
//!
//! `fixtures/goldens/synth-tiny.json` holds for each the arguments of its generator, its SHA-256, and the answers of
//! llama.cpp on its dequantised weights: the largest logits at some positions of one prompt, the log of the sum of all
//! exponentials there, and a greedy continuation. `cargo xtask fetch` makes the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use zinc_gguf::Gguf;
use zinc_graph::Backend;
use zinc_graph::backend::KvFormat;

use crate::Error;
use crate::golden::Outcome;
use crate::session::{Session, SessionConfig};

/// One model with its answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Synthetic {
    /// The stem of its file.
    pub name: String,
    /// SHA-256 of its file, in hexadecimal.
    pub sha256: String,
    /// The prompt.
    pub ids: Vec<u32>,
    /// The answers for dequantised weights in f32.
    pub f32: Answers,
}

/// What a model answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Answers {
    /// By position in the prompt.
    pub at: BTreeMap<u32, TopLogits>,
    /// Greedy continuation.
    pub greedy_ids: Vec<u32>,
    /// How far ahead the winner was at each step of it.
    pub greedy_margin: Vec<f32>,
}

/// The largest logits of a row.
#[derive(Clone, Debug, Deserialize)]
pub struct TopLogits {
    /// Log of the sum of the exponentials of the whole row.
    pub logsumexp: f32,
    /// Token and logit, the largest first.
    pub top: Vec<(u32, f32)>,
}

/// Reads the list of synthetic models.
///
/// # Errors
/// A file that is missing or malformed.
pub fn load(path: &Path) -> Result<Vec<Synthetic>, Error> {
    #[derive(Deserialize)]
    struct Goldens {
        cases: Vec<Synthetic>,
    }
    let text = fs::read_to_string(path).map_err(|error| Error::Io { path: path.to_owned(), error })?;
    let goldens: Goldens =
        serde_json::from_str(&text).map_err(|e| Error::Fixture { path: path.to_owned(), what: e.to_string() })?;
    Ok(goldens.cases)
}

impl Synthetic {
    /// The model's file in `folder`, if it is there; it must be the one that the answers are of.
    ///
    /// # Errors
    /// A file that cannot be read, or another file of that name.
    pub fn file_in(&self, folder: &Path) -> Result<Option<PathBuf>, Error> {
        let path = folder.join(format!("{}.gguf", self.name));
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|error| Error::Io { path: path.clone(), error })?;
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        match sha256 == self.sha256 {
            true => Ok(Some(path)),
            false => Err(Error::Fixture { path, what: format!("its SHA-256 is {sha256}, expected {}", self.sha256) }),
        }
    }

    /// Feeds the first `n_tokens` of the prompt whole and, if that is all of it, the greedy continuation token by token.
    ///
    /// # Errors
    /// The first number that is farther off than `tolerance`, or why the model does not run.
    pub fn check(
        &self,
        path: &Path,
        backend: Box<dyn Backend>,
        n_tokens: usize,
        tolerance: f32,
    ) -> Result<Outcome, Error> {
        let file = Gguf::open(path)?;
        let context_max = u32::try_from(self.ids.len() + self.f32.greedy_ids.len()).expect("prompts are short");
        let config = SessionConfig { context_max, kv_format: KvFormat::F32, keep_values: false };
        let mut session = Session::new(backend, &file, config)?;
        let mut outcome = Outcome { logit_difference_max: 0.0, n_rows: 0, n_greedy: 0 };
        let ids = &self.ids[..n_tokens.min(self.ids.len())];
        let answered = |position: u32| (position as usize) < ids.len();
        let positions: Vec<u32> = self.f32.at.keys().copied().filter(|&p| answered(p)).collect();
        let step = session.feed(ids, &positions)?;
        for ((position, row), answer) in positions.iter().zip(&step.logits).zip(self.f32.at.values()) {
            let what = format!("{}, position {position}", self.name);
            outcome.logit_difference_max = outcome.logit_difference_max.max(answer.compare(&what, row, tolerance)?);
            outcome.n_rows += 1;
        }
        if ids.len() == self.ids.len() {
            let first = step.greedy.last().copied().unwrap_or(0);
            outcome.n_greedy = self.check_greedy(&mut session, first, tolerance)?;
        }
        Ok(outcome)
    }

    /// Continues up to the first step where two tokens are too close to call; returns the tokens compared.
    fn check_greedy(&self, session: &mut Session, first: u32, tolerance: f32) -> Result<usize, Error> {
        let mut got = first;
        let answers = self.f32.greedy_ids.iter().zip(&self.f32.greedy_margin);
        for (i, (&expected, &margin)) in answers.enumerate() {
            if margin < 2.0 * tolerance {
                return Ok(i);
            }
            if got != expected {
                let difference = format!("token {got}, expected {expected} (ahead by {margin})");
                return Err(Error::Differs { what: format!("{}, greedy step {i}", self.name), difference });
            }
            got = session.feed(&[got], &[0])?.greedy[0];
        }
        Ok(self.f32.greedy_ids.len())
    }
}

impl TopLogits {
    /// The largest difference, if it is within `tolerance`.
    fn compare(&self, what: &str, row: &[f32], tolerance: f32) -> Result<f32, Error> {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
        let logsumexp = sum.ln() + f64::from(max);
        let mut worst = (f64::from(self.logsumexp) - logsumexp).abs();
        for &(id, expected) in &self.top {
            let got = row.get(id as usize).copied().unwrap_or(f32::NAN);
            worst = worst.max(f64::from((got - expected).abs()));
            if !got.is_finite() || worst > f64::from(tolerance) {
                let difference = format!("logit {id} is {got}, expected {expected} (allowed difference {tolerance})");
                return Err(Error::Differs { what: what.to_owned(), difference });
            }
        }
        #[allow(clippy::cast_possible_truncation, reason = "a difference for messages")]
        Ok(worst as f32)
    }
}
