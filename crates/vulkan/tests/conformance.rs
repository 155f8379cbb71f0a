//! Every op, every case, on the first Vulkan device against the scalar reference.
//!
//! `ZINC_CASE=rope/` runs only the cases whose name contains that. `ZINC_PART=1/2` runs the first half of the ops and
//! `ZINC_PART=2/2` the rest: a driver that compiles slowly is tested by two processes side by side, and the cases of
//! one op share pipelines. The time of each op is printed.
//! `ZINC_TUNING=matrix_cores=0,gemm_above=4` changes entries of the tuning table.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::{Duration, Instant};

use zinc_graph::conformance::Case;
use zinc_graph::ops;
use zinc_testkit::environment;
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
        device.tune(entry).unwrap();
    }
    let width = device.gpu().traits.subgroup_size;
    eprintln!("{} ({}), subgroups of {width}", candidate.name, candidate.driver);
    let filter = std::env::var("ZINC_CASE").unwrap_or_default();
    let cases = ops::cases();
    let (part, n_parts) = environment::part();
    let mut failures = Vec::new();
    let mut ran = 0;
    for (op, cases) in &parts(&cases, n_parts)[part - 1] {
        let start = Instant::now();
        let mut n = 0;
        for case in cases.iter().filter(|case| case.name.contains(&filter)) {
            n += 1;
            if let Err(failure) = case.run(&mut Vulkan::new(&device).unwrap()) {
                eprintln!("{failure}");
                failures.push(failure);
            }
        }
        if n > 0 {
            eprintln!("{op}: {n} cases in {:.1} s", start.elapsed().as_secs_f32());
        }
        ran += n;
    }
    // A step in as many parts as it has phases gives what it gives in one.
    if part == 1 {
        device.set_part_limit(Duration::ZERO);
        for case in
            cases.iter().filter(|case| case.name.contains(&filter) && case.name.starts_with("matmul/block/F16/"))
        {
            if let Err(failure) = case.run(&mut Vulkan::new(&device).unwrap()) {
                eprintln!("in parts: {failure}");
                failures.push(failure);
            }
            ran += 1;
        }
    }
    assert!(failures.is_empty(), "{} of {ran} cases failed", failures.len());
    assert!(ran > 0, "no case is named like `{filter}`");
    eprintln!("{ran} runs, {} cases in all", cases.len());
}

/// The cases by op, dealt out to `n` parts: the op with the most cases first, each to the part that has the fewest so
/// far.
fn parts(cases: &[Case], n: usize) -> Vec<Vec<(&str, Vec<&Case>)>> {
    let mut by_op: Vec<(&str, Vec<&Case>)> = Vec::new();
    for case in cases {
        let op = case.name.split('/').next().unwrap_or(&case.name);
        match by_op.iter_mut().find(|(known, _)| *known == op) {
            Some((_, of_op)) => of_op.push(case),
            None => by_op.push((op, vec![case])),
        }
    }
    by_op.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut parts = vec![Vec::new(); n];
    for op in by_op {
        let n_cases = |part: &Vec<(&str, Vec<&Case>)>| part.iter().map(|(_, cases)| cases.len()).sum::<usize>();
        parts.iter_mut().min_by_key(|part| n_cases(part)).unwrap().push(op);
    }
    parts
}

#[test]
fn parts_hold_every_case_once() {
    let cases = ops::cases();
    for n in [1, 2, 3, 40] {
        let parts = parts(&cases, n);
        let mut names: Vec<&str> =
            parts.iter().flatten().flat_map(|(_, cases)| cases).map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        let mut expected: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
