//! `zinc devices`: what can run models here.

use crate::device;
use crate::failure::Outcome;
use crate::output::print;

pub(crate) fn run() -> Outcome {
    let lines: Vec<String> = device::list().iter().map(|d| format!("{:<10} {}\n", d.id, d.name)).collect();
    print(&lines.concat())
}
