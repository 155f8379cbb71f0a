//! Every op, every case, on the first Vulkan device against the scalar reference.
//!
//! `ZINC_CASE=rope/` runs only the cases whose name contains that; `ZINC_TUNING=matrix_cores=0,gemm_above=4` changes
//! entries of the tuning table.

use zinc_graph::Backend;
use zinc_graph::conformance::run_all;
use zinc_vulkan::{Device, Vulkan, device};

#[test]
fn every_case_holds() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().next()) else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    // One device for all cases: its pipelines are compiled once.
    let mut device = Device::open(&candidate.id, &[]).unwrap();
    for entry in std::env::var("ZINC_TUNING").unwrap_or_default().split(',').filter(|entry| !entry.is_empty()) {
        device.tuning_mut().set(entry).unwrap();
    }
    let width = device.gpu().traits.subgroup_size;
    eprintln!("{} ({}), subgroups of {width}", candidate.name, candidate.driver);
    let filter = std::env::var("ZINC_CASE").unwrap_or_default();
    let (ran, failures) = run_all(&mut || Box::new(Vulkan::new(&device).unwrap()) as Box<dyn Backend>, &filter);
    for failure in &failures {
        eprintln!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {ran} cases failed", failures.len());
    assert!(ran > 0, "no case is named like `{filter}`");
    eprintln!("{ran} cases");
}
