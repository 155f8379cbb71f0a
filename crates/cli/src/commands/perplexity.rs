//! `zinc perplexity`: how well a model predicts a text, and how far two runs are apart.
//!
//! The text is cut into windows of the context; in each, the second half is scored, so that every
//! scored token has at least half a window before it. Perplexity is `exp` of the mean negative log
//! probability. With a base file, each scored position also gives the Kullback-Leibler divergence
//! of this run from the base, and whether both name the same token as likeliest.

use std::fs;
use std::ops::ControlFlow;
use std::time::Instant;

use serde_json::json;
use zinc_tokenizer::Encode;

use crate::args::measure::PerplexityArgs;
use crate::commands::logits::log_sum_exp;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::logit_file::{LogitReader, LogitWriter, Scored};
use crate::output::{note, print};
use crate::progress::Bar;
use crate::session::{ModelFile, engine_error};

/// Context of the windows unless `-c` says otherwise.
const CONTEXT_DEFAULT: u32 = 512;

/// Sums over the scored positions.
#[derive(Default)]
struct Tally {
    n: usize,
    nll: f64,
    nll_squares: f64,
    divergences: Vec<f64>,
    agreements: usize,
}

pub(crate) fn run(args: &PerplexityArgs) -> Outcome {
    let interrupt = Interrupt::listen()?;
    let text = fs::read_to_string(&args.file)
        .map_err(|e| Failure::usage(format!("cannot read {}: {e}", args.file.display())))?;
    let file = ModelFile::open(&args.model, &interrupt)?;
    let ids = file.tokenizer()?.encode(&text, Encode { add_special: true, parse_special: false });
    let mut device = args.device.clone();
    let context = device.context.unwrap_or(CONTEXT_DEFAULT).max(8) as usize;
    device.context = Some(u32::try_from(context).unwrap_or(u32::MAX));
    let n_windows = (ids.len() / context).min(args.windows.unwrap_or(usize::MAX));
    if n_windows == 0 {
        return Err(Failure::usage(format!("the text has {} tokens, fewer than one window of {context}", ids.len()))
            .remedy("choose smaller windows with -c, or a longer text"));
    }
    let mut engine = file.engine(&device)?;
    let n_vocab = engine.model().n_vocab as usize;
    let mut writer = args.save_logits.as_deref().map(|path| LogitWriter::create(path, n_vocab)).transpose()?;
    let mut base = args.kl_base.as_deref().map(|path| LogitReader::open(path, n_vocab)).transpose()?;
    let mut tally = Tally::default();
    let started = Instant::now();
    let bar = Bar::new("windows", n_windows as u64);
    for window in ids.chunks_exact(context).take(n_windows) {
        let mut failed = None;
        let row = |position: usize, logits: &[f32]| {
            if position + 1 < context / 2 || position + 1 == window.len() {
                return ControlFlow::Continue(());
            }
            let target = window[position + 1];
            match tally.score(logits, target, &mut writer, &mut base) {
                Ok(()) if !interrupt.pressed() => ControlFlow::Continue(()),
                Ok(()) => ControlFlow::Break(()),
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            }
        };
        engine.evaluate(window, row).map_err(engine_error)?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        bar.advance(1);
        if interrupt.pressed() {
            break;
        }
    }
    bar.finish();
    writer.map_or(Ok(()), LogitWriter::finish)?;
    note(&format!("{} tokens scored in {:.1} s", tally.n, started.elapsed().as_secs_f64()));
    print(&if args.json { tally.json() } else { tally.text() })
}

impl Tally {
    fn score(
        &mut self,
        logits: &[f32],
        target: u32,
        writer: &mut Option<LogitWriter>,
        base: &mut Option<LogitReader>,
    ) -> Outcome {
        let sum = log_sum_exp(logits);
        let nll = sum - f64::from(logits[target as usize]);
        self.n += 1;
        self.nll += nll;
        self.nll_squares += nll * nll;
        if let Some(writer) = writer {
            writer.push(target, logits, sum)?;
        }
        if let Some(base) = base {
            let Scored { target: base_target, logprobs } = base.next()?;
            if base_target != target {
                return Err(Failure::usage("the base was made from another text or other windows")
                    .remedy("make it again with --save-logits, the same text, -c and --windows"));
            }
            let divergence: f64 = logprobs
                .iter()
                .zip(logits)
                .map(|(&p, &x)| f64::from(p).exp() * (f64::from(p) - (f64::from(x) - sum)))
                .sum();
            self.divergences.push(divergence.max(0.0));
            self.agreements += usize::from(top(logprobs) == top(logits));
        }
        Ok(())
    }

    /// Perplexity and its standard error.
    fn perplexity(&self) -> (f64, f64) {
        let n = self.n.max(1) as f64;
        let mean = self.nll / n;
        let variance = (self.nll_squares / n - mean * mean).max(0.0);
        (mean.exp(), mean.exp() * (variance / n).sqrt())
    }

    fn divergence(&self) -> Option<(f64, f64, f64, f64)> {
        if self.divergences.is_empty() {
            return None;
        }
        let mut sorted = self.divergences.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some((mean, at(50), at(99), at(100)))
    }

    fn text(&self) -> String {
        let (perplexity, error) = self.perplexity();
        let mut text = format!("perplexity        {perplexity:.4} ± {error:.4}\n");
        if let Some((mean, median, p99, max)) = self.divergence() {
            let share = self.agreements as f64 / self.n as f64 * 100.0;
            text += &format!("KL divergence     mean {mean:.6}, median {median:.6}, 99 % {p99:.6}, largest {max:.6}\n");
            text += &format!("same top token    {share:.2} %\n");
        }
        text
    }

    fn json(&self) -> String {
        let (perplexity, error) = self.perplexity();
        let kl = self.divergence().map(|(mean, median, p99, max)| {
            json!({ "mean": mean, "median": median, "p99": p99, "max": max, "top_agreement": self.agreements as f64 / self.n as f64 })
        });
        format!("{:#}\n", json!({ "n_scored": self.n, "perplexity": perplexity, "standard_error": error, "kl": kl }))
    }
}

fn top(x: &[f32]) -> Option<usize> {
    x.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).map(|(i, _)| i)
}
