//! `zinc selftest`: every op, every case, on a device of this machine against its definition.

use std::time::Instant;

use serde_json::json;
use zinc_graph::conformance::run_all;

use crate::args::SelftestArgs;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::print;

pub(crate) fn run(args: &SelftestArgs) -> Outcome {
    // The first one tells a wrong `--device` apart from a failing case.
    let name = device::open(&args.device)?.device().name.clone();
    let started = Instant::now();
    let mut refused = None;
    let mut open = || match device::open(&args.device) {
        Ok(backend) => backend,
        Err(failure) => {
            refused = Some(failure);
            Box::new(zinc_graph::reference::Reference::new())
        }
    };
    let (ran, failures) = run_all(&mut open, &args.filter);
    if let Some(failure) = refused {
        return Err(failure);
    }
    let seconds = started.elapsed().as_secs_f64();
    let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
    if args.json {
        let version = env!("CARGO_PKG_VERSION");
        print(&format!(
            "{:#}\n",
            json!({ "version": version, "device": name, "cases": ran, "failed": lines, "seconds": seconds })
        ))?;
    } else {
        let failed: String = lines.iter().map(|line| format!("FAIL {line}\n")).collect();
        let passed = ran - lines.len();
        print(&format!(
            "zinc {} on {name}\n{failed}{passed} of {ran} cases hold ({seconds:.1} s)\n",
            env!("CARGO_PKG_VERSION")
        ))?;
    }
    match (ran, lines.len()) {
        (0, _) => Err(Failure::usage(format!("no case is named like `{}`", args.filter))),
        (_, 0) => Ok(()),
        (_, n) => Err(Failure::failed(format!("{n} cases failed; please report the lines above"))),
    }
}
