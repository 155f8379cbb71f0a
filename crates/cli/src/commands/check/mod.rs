//! `zinc --check`: whether this machine is ready, and what to type if it is not.
//!
//! `probe` gathers a `Machine` of plain values, `judge` turns it into lines, `report` shows them. Only the first looks at
//! the machine, so the other two are tested on machines that are made up.

mod host;
mod judge;
mod machine;
mod probe;
mod remedy;
mod report;
#[cfg(test)]
mod tests;

use crate::args::generate::GenerateArgs;
use crate::args::serve::ServerArgs;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(crate) use probe::profile_of;

pub(crate) fn run(args: &GenerateArgs, server: &ServerArgs) -> Outcome {
    let report = judge::report(&probe::machine(args, server));
    output::print(&if args.json { report.as_json() } else { report.as_text(output::stdout_colours()) })?;
    match report.verdict() {
        report::Level::Fail => Err(Failure::failed("this machine is not ready")
            .remedy("the lines marked FAIL say what is missing, and below each what to type")),
        _ => Ok(()),
    }
}
