//! The benchmark's figures as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use zinc_engine::profile::Profile;

use super::measure::Rates;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Tokens of the prompt.
    Prefill { tokens: u32 },
    /// Tokens that each of so many sequences generates.
    Decode { tokens: u32, sequences: u32 },
}

impl What {
    /// Kind, tokens and sequences, as JSON has them.
    pub(super) fn parts(self) -> (&'static str, u32, u32) {
        match self {
            What::Prefill { tokens } => ("prefill", tokens, 1),
            What::Decode { tokens, sequences } => ("decode", tokens, sequences),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) what: What,
    pub(super) depth: u32,
    pub(super) rates: Rates,
}

impl Figure {
    /// `tg 128 x4 @ 4096`.
    pub(super) fn name(&self) -> String {
        let name = match self.what {
            What::Prefill { tokens } => format!("pp {tokens}"),
            What::Decode { tokens, sequences: 1 } => format!("tg {tokens}"),
            What::Decode { tokens, sequences } => format!("tg {tokens} x{sequences}"),
        };
        if self.depth > 0 { format!("{name} @ {}", self.depth) } else { name }
    }
}

/// What all lines have in common.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) model: Option<String>,
    pub(super) architecture: &'static str,
    pub(super) device: String,
    /// Bytes of weights that one token reads.
    pub(super) weights: u64,
    /// Bytes per second of a copy on the device.
    pub(super) bandwidth: Option<f64>,
    /// Seconds from the end of a step until the next one is submitted, on average.
    pub(super) host_s: Option<f64>,
}

impl Head {
    /// Share of the copy bandwidth, where the weights of one token are read for every token.
    fn share(&self, figure: &Figure) -> Option<f64> {
        match figure.what {
            What::Decode { sequences: 1, .. } => Some(figure.rates.spread().0 * self.weights as f64 / self.bandwidth?),
            _ => None,
        }
    }
}

pub(super) fn as_text(head: &Head, reps: u32, figures: &[Figure]) -> String {
    let mut text =
        format!("{:<22} {:>10} {:>10} {:>10} {:>7}   tok/s of {reps} runs\n", "", "median", "min", "max", "of bw");
    for figure in figures {
        let (median, least, most) = figure.rates.spread();
        let name = figure.name();
        let share = head.share(figure).map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
        let _ = writeln!(text, "{name:<22} {median:>10.1} {least:>10.1} {most:>10.1} {share:>7}");
    }
    if let Some(bandwidth) = head.bandwidth {
        let _ = writeln!(
            text,
            "a copy on the device moves {:.0} GB/s; a token reads {:.2} GB of weights",
            bandwidth / 1e9,
            head.weights as f64 / 1e9
        );
    }
    if let Some(seconds) = head.host_s {
        let _ = writeln!(text, "between two steps the host takes {:.1} us", 1e6 * seconds);
    }
    text
}

pub(super) fn as_json(head: &Head, figures: &[Figure], compared: Option<Value>) -> String {
    let figure = |figure: &Figure| -> Value {
        let (median, min, max) = figure.rates.spread();
        let (kind, tokens, sequences) = figure.what.parts();
        json!({
            "kind": kind, "tokens": tokens, "sequences": sequences, "depth": figure.depth,
            "median_tok_s": median, "min_tok_s": min, "max_tok_s": max, "runs": figure.rates.runs(),
            "bandwidth_share": head.share(figure),
        })
    };
    let mut object = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": head.model, "architecture": head.architecture, "device": head.device,
        "weight_bytes_per_token": head.weights, "copy_bytes_per_s": head.bandwidth, "host_s_per_step": head.host_s,
        "figures": figures.iter().map(figure).collect::<Vec<_>>(),
    });
    if let Some(compared) = compared {
        object["compared"] = compared;
    }
    format!("{object:#}\n")
}

/// Where the device's time goes, for each size of step.
pub(super) fn profile(profile: &Profile, bandwidth: Option<f64>) -> String {
    let mut text = String::new();
    for &(n_tokens, n_steps) in profile.steps() {
        let rows = profile.rows(n_tokens);
        let total: f64 = rows.iter().map(|row| row.seconds).sum();
        let per_step = 1e6 / n_steps as f64;
        let _ =
            writeln!(text, "\nsteps of {n_tokens} tokens: {:.1} us on the device, {n_steps} steps", total * per_step);
        let _ = writeln!(
            text,
            "{:>9} {:>6} {:>6} {:>8} {:>7} {:>6}",
            "us/step", "share", "count", "us each", "GB/s", "of bw"
        );
        for row in rows {
            let each = row.seconds / row.count as f64;
            let rate = row.bytes as f64 / row.seconds.max(1e-12);
            let share = bandwidth.map_or(String::new(), |b| format!("{:.0} %", 100.0 * rate / b));
            let _ = writeln!(
                text,
                "{:>9.1} {:>5.1}% {:>6} {:>8.2} {:>7.0} {share:>6}  {}",
                row.seconds * per_step,
                100.0 * row.seconds / total.max(1e-12),
                row.count / n_steps,
                each * 1e6,
                rate / 1e9,
                row.label
            );
        }
    }
    text
}
