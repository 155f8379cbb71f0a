//! The op table itself: every op has cases, the reference passes them, and a backend that mixes
//! sequences up does not.

use std::collections::BTreeSet;

use zinc_graph::backend::{BackendError, DeviceInfo, PlanId, PlanOptions, StateSizes, Ticket, WeightData};
use zinc_graph::conformance::run_all;
use zinc_graph::fuse::{Fusion, fuse};
use zinc_graph::ops::cases;
use zinc_graph::reference::Reference;
use zinc_graph::section::ValueId;
use zinc_graph::{Backend, Batch, Graph};

#[test]
fn every_op_has_cases_in_its_own_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops");
    let stems: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the ops folder is part of the crate")
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .filter(|stem| stem != "mod")
        .collect();
    let cases = cases();
    let graphs = cases.iter().flat_map(|case| [case.graph.clone(), fuse(&case.graph, &Fusion::ALL)]);
    let tested: BTreeSet<&str> =
        graphs.flat_map(|graph| graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>()).collect();
    for stem in &stems {
        assert!(cases.iter().any(|case| case.name.starts_with(&format!("{stem}/"))), "{stem} has no cases");
        assert!(tested.contains(stem.as_str()), "no case of {stem} runs it");
    }
    let names: BTreeSet<&String> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
}

#[test]
fn the_reference_passes_its_own_table() {
    let (ran, failures) = run_all(&mut || Box::new(Reference::new()), "");
    assert!(ran > 300, "{ran} cases");
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn fused_graphs_pass_the_same_table() {
    let fusing = || Changed { reference: Reference::new(), fusions: &Fusion::ALL, slot_is_place: false };
    let (_, failures) = run_all(&mut || Box::new(fusing()), "");
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The reference with something changed: what it fuses, and whether it takes a sequence's place in the batch for its
/// state slot.
struct Changed {
    reference: Reference,
    fusions: &'static [Fusion],
    slot_is_place: bool,
}

impl Backend for Changed {
    fn device(&self) -> &DeviceInfo {
        self.reference.device()
    }

    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError> {
        self.reference.load(graph, weights, state)
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        self.reference.compile(&fuse(graph, self.fusions), options)
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        self.reference.write(plan, value, data)
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let mut batch = batch.clone();
        if self.slot_is_place {
            batch.state_slots = (0..).zip(&batch.state_slots).map(|(place, _)| place).collect();
        }
        self.reference.submit(plan, &batch)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<(), BackendError> {
        self.reference.wait(ticket)
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        self.reference.read(plan, value, row, dst)
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError> {
        self.reference.copy_state(from, to)
    }
}

#[test]
fn a_backend_that_mixes_sequences_up_fails_every_crowd_with_state() {
    for op in ["conv1d/", "delta_net/"] {
        let (_, failures) =
            run_all(&mut || Box::new(Changed { reference: Reference::new(), fusions: &[], slot_is_place: true }), op);
        let crowds = cases().iter().filter(|case| case.name.contains(op) && case.name.ends_with("/crowd")).count();
        assert!(crowds > 0);
        assert_eq!(failures.len(), crowds, "{failures:#?}");
    }
}
