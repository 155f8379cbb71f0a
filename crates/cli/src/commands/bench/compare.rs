//! Figures of an earlier run beside those of this one.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

use super::table::{Figure, Head};
use crate::failure::Failure;

/// Bytes of the largest file that is read: far more than the figures of any run.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Figures that are read.
const FIGURES_MAX: usize = 10_000;

/// An earlier run, as `--json` printed it.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    model: Option<String>,
    device: String,
    figures: Vec<EarlierFigure>,
}

/// What was measured, and its median, least and most, tokens per second.
#[derive(Clone, Debug)]
struct EarlierFigure {
    kind: String,
    tokens: u64,
    sequences: u64,
    depth: u64,
    spread: (f64, f64, f64),
}

impl Earlier {
    /// Reads a file that `zinc bench --json` wrote.
    pub(super) fn read(path: &Path) -> Result<Earlier, Failure> {
        let wrong = |what: String| {
            Failure::usage(format!("--compare {}: {what}", path.display()))
                .remedy("make one with: zinc bench --json > FILE")
        };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let object: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
        Earlier::parse(&object).ok_or_else(|| wrong("it holds no figures of zinc bench".into()))
    }

    fn parse(object: &Value) -> Option<Earlier> {
        let figures = object["figures"].as_array()?.iter().take(FIGURES_MAX);
        let rate = |figure: &Value, name: &str| figure[name].as_f64().filter(|rate| rate.is_finite() && *rate > 0.0);
        let figures = figures.map(|figure| {
            Some(EarlierFigure {
                kind: figure["kind"].as_str()?.to_owned(),
                tokens: figure["tokens"].as_u64()?,
                sequences: figure["sequences"].as_u64()?,
                depth: figure["depth"].as_u64()?,
                spread: (rate(figure, "median_tok_s")?, rate(figure, "min_tok_s")?, rate(figure, "max_tok_s")?),
            })
        });
        Some(Earlier {
            model: object["model"].as_str().map(str::to_owned),
            device: object["device"].as_str()?.to_owned(),
            figures: figures.collect::<Option<Vec<_>>>()?,
        })
    }

    /// The spread of the same measurement.
    fn spread(&self, figure: &Figure) -> Option<(f64, f64, f64)> {
        let (kind, tokens, sequences) = figure.what.parts();
        let same = |earlier: &&EarlierFigure| {
            (earlier.kind.as_str(), earlier.tokens, earlier.sequences, earlier.depth)
                == (kind, u64::from(tokens), u64::from(sequences), u64::from(figure.depth))
        };
        self.figures.iter().find(same).map(|earlier| earlier.spread)
    }

    /// What differs between the runs besides their speed.
    fn differences(&self, head: &Head) -> Vec<String> {
        let shown = |model: &Option<String>| model.clone().unwrap_or_else(|| "a model without a name".into());
        let pairs = [(shown(&self.model), shown(&head.model)), (self.device.clone(), head.device.clone())];
        pairs
            .into_iter()
            .filter(|(a, b)| a != b)
            .map(|(a, b)| format!("the earlier run had {a}, this one {b}"))
            .collect()
    }
}

/// A change counts where the spreads of the two runs do not meet.
fn verdict(before: (f64, f64, f64), now: (f64, f64, f64)) -> &'static str {
    match () {
        () if now.1 > before.2 => "faster",
        () if now.2 < before.1 => "slower",
        () => "as before",
    }
}

/// A row for each figure that both runs have.
pub(super) fn as_text(earlier: &Earlier, head: &Head, figures: &[Figure]) -> String {
    let mut text = format!("\n{:<22} {:>10} {:>10} {:>8}\n", "compared", "before", "now", "change");
    for figure in figures {
        let now = figure.rates.spread();
        // Writing to a string cannot fail.
        let _ = match earlier.spread(figure) {
            Some(before) => writeln!(
                text,
                "{:<22} {:>10.1} {:>10.1} {:>+7.1}%  {}",
                figure.name(),
                before.0,
                now.0,
                100.0 * (now.0 / before.0 - 1.0),
                verdict(before, now)
            ),
            None => writeln!(text, "{:<22} {:>10} {:>10.1}", figure.name(), "-", now.0),
        };
    }
    for difference in earlier.differences(head) {
        let _ = writeln!(text, "{difference}");
    }
    text
}

/// The same for scripts: one entry for each figure of this run.
pub(super) fn as_json(earlier: &Earlier, head: &Head, figures: &[Figure]) -> Value {
    let rows = figures.iter().map(|figure| {
        let now = figure.rates.spread();
        let before = earlier.spread(figure);
        json!({
            "figure": figure.name(), "median_tok_s_before": before.map(|before| before.0), "median_tok_s": now.0,
            "ratio": before.map(|before| now.0 / before.0), "verdict": before.map(|before| verdict(before, now)),
        })
    });
    json!({ "figures": rows.collect::<Vec<_>>(), "differences": earlier.differences(head) })
}

#[cfg(test)]
mod tests {
    use super::super::measure::Rates;
    use super::super::table::{self, What};
    use super::*;

    fn figure(what: What, rates: &[f64]) -> Figure {
        let mut all = Rates::default();
        rates.iter().for_each(|&rate| all.push(rate));
        Figure { what, depth: 0, rates: all }
    }

    fn head(device: &str) -> Head {
        Head {
            model: Some("M".into()),
            architecture: "llama",
            device: device.into(),
            weights: 1,
            bandwidth: None,
            host_s: None,
        }
    }

    #[test]
    fn what_was_printed_is_read_again_and_compared() {
        let (prefill, decode) = (What::Prefill { tokens: 512 }, What::Decode { tokens: 128, sequences: 1 });
        let more = What::Decode { tokens: 128, sequences: 4 };
        let before = [figure(prefill, &[90.0, 100.0, 110.0]), figure(decode, &[10.0, 11.0, 12.0])];
        let printed = table::as_json(&head("a card"), &before, None);
        let earlier = Earlier::parse(&serde_json::from_str(&printed).unwrap()).unwrap();
        let now = [figure(prefill, &[120.0, 125.0, 130.0]), figure(decode, &[11.0, 11.5, 13.0]), figure(more, &[40.0])];
        let text = as_text(&earlier, &head("another"), &now);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "pp 512                      100.0      125.0   +25.0%  faster");
        assert_eq!(lines[1], "tg 128                       11.0       11.5    +4.5%  as before");
        assert_eq!(lines[2], "tg 128 x4                       -       40.0");
        assert_eq!(lines[3], "the earlier run had a card, this one another");
        let object = as_json(&earlier, &head("a card"), &now);
        assert_eq!(object["figures"][0]["ratio"], 1.25);
        assert_eq!((&object["figures"][2]["ratio"], &object["differences"]), (&Value::Null, &json!([])));
        assert_eq!(verdict((100.0, 95.0, 105.0), (90.0, 88.0, 94.0)), "slower");
    }

    #[test]
    fn what_is_no_earlier_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        let half = r#"{"device":"x","figures":[{"kind":"decode"}]}"#;
        for (text, sentence) in [("", "no JSON"), ("[1", "no JSON"), ("{}", "no figures"), (half, "no figures")] {
            std::fs::write(&path, text).unwrap();
            let failure = Earlier::read(&path).unwrap_err();
            assert!(failure.message.contains(sentence), "{text}: {}", failure.message);
        }
        assert!(Earlier::read(&folder.path().join("none")).is_err());
    }
}
