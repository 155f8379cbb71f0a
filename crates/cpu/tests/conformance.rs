//! Every op, every case, on every instruction set of this machine against the scalar reference.

use zinc_cpu::{Context, Cpu, Isa};
use zinc_graph::Backend;
use zinc_graph::conformance::run_all;

#[test]
fn every_case_holds_on_every_instruction_set() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let mut open = || Box::new(Cpu::with_context(Context::with_isa(2, isa).unwrap())) as Box<dyn Backend>;
        let (ran, failures) = run_all(&mut open, "");
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{isa}: {} of {ran} cases failed\n{}", lines.len(), lines.join("\n"));
        assert!(ran > 500, "the table has {ran} cases only");
    }
}
