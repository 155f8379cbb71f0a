//! `zinc logits`: the largest logits at each position, to compare engines with each other.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use serde_json::json;

use crate::args::measure::LogitsArgs;
use crate::failure::Outcome;
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::session::{ModelFile, engine_error};

pub(crate) fn run(args: &LogitsArgs) -> Outcome {
    let file = ModelFile::open(&args.model, &Interrupt::listen()?)?;
    let mut engine = file.engine(&args.device)?;
    let mut positions = Vec::new();
    let row = |position: usize, logits: &[f32]| {
        positions.push((position, largest(logits, args.top), log_sum_exp(logits)));
        ControlFlow::Continue(())
    };
    engine.evaluate(&args.ids, row).map_err(engine_error)?;
    if args.json {
        let rows: Vec<serde_json::Value> = positions
            .iter()
            .map(|(position, top, sum)| json!({ "position": position, "id": args.ids[*position], "top": top, "logsumexp": sum }))
            .collect();
        return print(&format!("{:#}\n", json!({ "positions": rows })));
    }
    let mut text = String::new();
    for (position, top, _) in positions {
        let _ = write!(text, "{position:>5} {:>7} |", args.ids[position]);
        for (id, logit) in top {
            let _ = write!(text, " {id}:{logit:.4}");
        }
        text.push('\n');
    }
    print(&text)
}

/// The `n` largest logits, largest first; of equal ones the lower id.
pub(crate) fn largest(logits: &[f32], n: usize) -> Vec<(usize, f32)> {
    let mut all: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    let n = n.min(all.len());
    let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if n < all.len() {
        all.select_nth_unstable_by(n, order);
        all.truncate(n);
    }
    all.sort_by(order);
    all
}

/// `ln sum exp`, in f64.
pub(crate) fn log_sum_exp(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|&x| (f64::from(x) - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::{largest, log_sum_exp};

    #[test]
    fn the_largest_come_first_and_ties_by_id() {
        assert_eq!(largest(&[1.0, 3.0, 2.0, 3.0], 3), [(1, 3.0), (3, 3.0), (2, 2.0)]);
        assert_eq!(largest(&[1.0], 5), [(0, 1.0)]);
    }

    #[test]
    fn the_sum_of_equal_logits_is_the_logarithm_of_their_number() {
        assert!((log_sum_exp(&[1000.0; 8]) - (1000.0 + 8f64.ln())).abs() < 1e-12);
    }
}
