//! `zinc selftest`: every op, every case, on a device of this machine against its definition.
//!
//! The report is made to be pasted: what the device is, what it can do, and what each op did. Text
//! and JSON say the same.

use std::fmt::Write;
use std::time::Instant;

use serde_json::{Value, json};
use zinc_graph::conformance::Case;
use zinc_graph::ops;

use crate::args::measure::SelftestArgs;
use crate::device::Device;
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::progress::Bar;

/// What the cases of one op did.
struct OpResult {
    name: String,
    n_cases: usize,
    failures: Vec<String>,
    seconds: f64,
}

pub(crate) fn run(args: &SelftestArgs) -> Outcome {
    let cases: Vec<Case> = ops::cases().into_iter().filter(|case| case.name.contains(&args.filter)).collect();
    if cases.is_empty() {
        return Err(Failure::usage(format!("no case is named like `{}`", args.filter)));
    }
    let device = Device::open(&args.device)?;
    let started = Instant::now();
    let (results, lost) = check(&device, &cases)?;
    let report = report(&device, &results, started.elapsed().as_secs_f64());
    print(&if args.json { format!("{report:#}\n") } else { as_text(&report) })?;
    if let Some(lost) = lost {
        return Err(lost);
    }
    match results.iter().map(|op| op.failures.len()).sum() {
        0 => Ok(()),
        n => {
            let n: usize = n;
            Err(Failure::failed(format!("{n} of {} cases failed", cases.len()))
                .remedy("please report the lines above; --device cpu works everywhere"))
        }
    }
}

/// Runs the cases in order, and stops at the one that the device does not survive.
fn check(device: &Device, cases: &[Case]) -> Result<(Vec<OpResult>, Option<Failure>), Failure> {
    let bar = Bar::new("checking", cases.len() as u64);
    let mut results: Vec<OpResult> = Vec::new();
    for case in cases {
        let started = Instant::now();
        // A backend of its own: no case sees what another left behind.
        let failure = case.run(device.backend(0)?.as_mut()).err();
        let name = case.name.split('/').next().unwrap_or_default();
        if results.last().is_none_or(|op| op.name != name) {
            results.push(OpResult { name: name.to_owned(), n_cases: 0, failures: Vec::new(), seconds: 0.0 });
        }
        if let Some(op) = results.last_mut() {
            op.n_cases += 1;
            op.failures.extend(failure.map(|failure| failure.to_string()));
            op.seconds += started.elapsed().as_secs_f64();
        }
        bar.advance(1);
        if let Some(lost) = device.lost() {
            bar.finish();
            return Ok((results, Some(lost)));
        }
    }
    bar.finish();
    Ok((results, None))
}

fn report(device: &Device, results: &[OpResult], seconds: f64) -> Value {
    let ops: Vec<Value> = results
        .iter()
        .map(|op| {
            json!({ "op": op.name, "cases": op.n_cases, "failed": op.failures.len(), "seconds": round(op.seconds) })
        })
        .collect();
    let failures: Vec<&String> = results.iter().flat_map(|op| &op.failures).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "device": device.description(),
        "ops": ops,
        "cases": results.iter().map(|op| op.n_cases).sum::<usize>(),
        "failed": failures,
        "seconds": round(seconds),
    })
}

/// Milliseconds are enough.
fn round(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// The same as text: what the device is, a row an op, the failures, the sum.
fn as_text(report: &Value) -> String {
    // Writing to a string cannot fail.
    let mut text = String::new();
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let _ = writeln!(text, "zinc {} selftest, {}", plain(&report["version"]), plain(&report["system"]));
    for (name, value) in report["device"].as_object().into_iter().flatten() {
        match value.as_object() {
            Some(parts) => {
                for (part, value) in parts {
                    let _ = writeln!(text, "{:<24} {}", format!("{name}.{part}"), plain(value));
                }
            }
            None => {
                let _ = writeln!(text, "{name:<24} {}", plain(value));
            }
        }
    }
    let _ = writeln!(text, "\n{:<16} {:>6} {:>7} {:>9}", "op", "cases", "failed", "seconds");
    for op in report["ops"].as_array().into_iter().flatten() {
        let cells = [&op["op"], &op["cases"], &op["failed"], &op["seconds"]].map(plain);
        let _ = writeln!(text, "{:<16} {:>6} {:>7} {:>9}", cells[0], cells[1], cells[2], cells[3]);
    }
    let failed = report["failed"].as_array().map_or(0, Vec::len);
    for failure in report["failed"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "FAIL {}", plain(failure));
    }
    let n = report["cases"].as_u64().unwrap_or(0);
    let holding = n.saturating_sub(failed as u64);
    let _ = writeln!(text, "\n{holding} of {n} cases hold ({} s)", plain(&report["seconds"]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_everything_that_the_json_says() {
        let device = Device::Cpu { threads: 3 };
        let results = [
            OpResult { name: "add".into(), n_cases: 4, failures: Vec::new(), seconds: 0.25 },
            OpResult {
                name: "rope".into(),
                n_cases: 7,
                failures: vec!["rope/x (seed 0x1): differs".into()],
                seconds: 1.0,
            },
        ];
        let report = report(&device, &results, 1.5004);
        let text = as_text(&report);
        for needed in [
            "threads                  3\n",
            "add                   4       0      0.25\n",
            "rope                  7       1       1.0\n",
            "FAIL rope/x (seed 0x1): differs\n",
            "\n10 of 11 cases hold (1.5 s)\n",
        ] {
            assert!(text.contains(needed), "{needed:?} is not in {text}");
        }
        assert_eq!(report["failed"].as_array().unwrap().len(), 1);
        assert_eq!(report["cases"], 11);
    }
}
