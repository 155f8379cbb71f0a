//! What surrounds the kernels: memory refused before it is taken, a device that stops, parts of a step in order,
//! compiled pipelines kept on disk, ids of devices.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use zinc_gguf::{Bytes, DType};
use zinc_graph::backend::{Bucket, KvFormat, PlanId, PlanOptions, StateSizes, WeightData};
use zinc_graph::batch::Places;
use zinc_graph::section::Builder;
use zinc_graph::shape::Shape;
use zinc_graph::{Backend, Batch, Graph};
use zinc_vulkan::commands::Commands;
use zinc_vulkan::device::{Gpu, candidates, devices};
use zinc_vulkan::lost::{Cause, Work};
use zinc_vulkan::memory::{Buffer, Place};
use zinc_vulkan::{Device, Error, Vulkan};

const STATE: StateSizes = StateSizes { n_pages: 1, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 1 };

/// The id of the first device; without one the tests say so and hold.
fn first() -> Option<String> {
    let found = candidates().ok().and_then(|found| found.into_iter().next());
    if found.is_none() {
        eprintln!("SKIP: no Vulkan device");
    }
    found.map(|candidate| candidate.id)
}

/// A product, with keys and values that are written.
fn graph() -> Graph {
    let mut builder = Builder::new("test");
    let x = builder.input(Shape::tokens(64));
    let w = builder.matrix("w", 64, 64);
    let y = builder.matmul(x, w);
    let cache = builder.kv_cache(1, 64);
    builder.kv_write(y, y, cache);
    builder.output(y);
    Graph::from_section(&builder.finish().unwrap()).unwrap()
}

fn weights() -> Vec<WeightData> {
    let bytes: Vec<u8> =
        (0..64 * 64).flat_map(|i: u32| (if i.is_multiple_of(65) { 2.0f32 } else { 0.0 }).to_le_bytes()).collect();
    vec![WeightData { dtype: DType::F32, bytes: Bytes::from(bytes) }]
}

fn options() -> PlanOptions {
    PlanOptions { bucket: Bucket { tokens: 1, outputs: 1 }, keep_values: false }
}

fn one_token() -> Batch {
    Batch {
        ids: vec![0],
        positions: vec![0],
        seq_idx: vec![0],
        query_start: vec![0, 1],
        full: Places { kv_slots: vec![0], block_tables: vec![0] },
        window: Places::default(),
        pages_max: 1,
        state_slots: vec![0],
        output_rows: vec![0],
    }
}

/// Loads, compiles, and computes one token of ones.
fn step(vulkan: &mut Vulkan) -> Vec<f32> {
    let graph = graph();
    vulkan.load(&graph, weights(), STATE).unwrap();
    let plan = vulkan.compile(&graph, &options()).unwrap();
    vulkan.write(plan, graph.inputs[0], &[1.0; 64]).unwrap();
    let ticket = vulkan.submit(plan, &one_token()).unwrap();
    vulkan.wait(ticket).unwrap();
    let mut y = vec![0.0; 64];
    vulkan.read(plan, graph.outputs[0], 0, &mut y).unwrap();
    y
}

#[test]
fn more_state_than_the_device_has_is_refused_with_the_numbers_before_it_is_taken() {
    let Some(id) = first() else { return };
    let device = Device::open(&id, &[]).unwrap();
    let mut vulkan = Vulkan::new(&device).unwrap().with_step_tokens(4);
    let memory = vulkan.memory();
    assert!(memory.heap_bytes >= memory.budget_bytes && memory.budget_bytes > 0, "{memory:?}");
    let state = StateSizes { n_pages: u32::MAX / 32, ..STATE };
    let needs = vulkan.needs(&graph(), &[64 * 64 * 4], state);
    assert_eq!(needs.weights_bytes, 64 * 64 * 4);
    assert_eq!(needs.kv_bytes, 2 * 2 * 16 * 64 * u64::from(state.n_pages));
    // Plans for 1, 2 and 4 tokens: input and product, 64 floats a token.
    assert_eq!(needs.steps_bytes, 2 * 256 * (1 + 2 + 4));
    let error = vulkan.load(&graph(), weights(), state).unwrap_err().to_string();
    assert!(
        error.contains("too little memory: 549.76 GB needed (weights 16384 B, keys and values 549.76 GB, "),
        "{error}"
    );
    assert!(error.contains("values of steps 3584 B") && error.contains("lower --context"), "{error}");
    assert!(error.contains(" free") && error.contains("--device cpu"), "{error}");
    let error = vulkan.compile(&graph(), &options()).unwrap_err().to_string();
    assert_eq!(error, "weight 1 does not exist (there are 0)", "what was not loaded does not compile");
    assert_eq!(step(&mut vulkan), [2.0; 64], "a model that fits still loads");
}

#[test]
fn progress_ends_at_the_bytes_of_the_weights() {
    let Some(id) = first() else { return };
    let (tell, told) = std::sync::mpsc::channel();
    let device = Device::open(&id, &[]).unwrap();
    let progress = move |done, total| tell.send((done, total)).unwrap();
    let mut vulkan = Vulkan::new(&device).unwrap().with_progress(Box::new(progress));
    step(&mut vulkan);
    assert_eq!(told.try_iter().last(), Some((64 * 64 * 4, 64 * 64 * 4)));
}

#[test]
fn a_device_that_stopped_fails_every_later_call_at_once_with_the_first_cause() {
    let Some(id) = first() else { return };
    let device = Device::open(&id, &[]).unwrap();
    let (mut vulkan, mut other) = (Vulkan::new(&device).unwrap(), Vulkan::new(&device).unwrap());
    step(&mut vulkan);
    step(&mut other);
    let work = Work::Step { plan: 0, tokens: 256, outputs: 1 };
    let sentence = device.gpu().lose(Cause::Lost, Some((work, 1, 3))).to_string();
    assert!(
        sentence.contains("VK_ERROR_DEVICE_LOST) during part 2 of 3 of a step of plan 0 (up to 256 tokens"),
        "{sentence}"
    );
    assert_eq!(device.gpu().lose(Cause::Timeout(9), None).to_string(), sentence, "the first cause stands");
    let started = Instant::now();
    let graph = graph();
    for vulkan in [&mut vulkan, &mut other] {
        let results = [
            vulkan.load(&graph, weights(), STATE).err(),
            vulkan.compile(&graph, &options()).err(),
            vulkan.write(PlanId(0), graph.inputs[0], &[0.0; 64]).err(),
            vulkan.submit(PlanId(0), &one_token()).err(),
            vulkan.wait(zinc_graph::backend::Ticket(1)).err(),
            vulkan.read(PlanId(0), graph.outputs[0], 0, &mut [0.0; 64]).err(),
        ];
        for (call, error) in results.into_iter().enumerate() {
            let error = error.map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(&sentence) && error.contains("dmesg"), "call {call}: {error}");
        }
    }
    drop((vulkan, other));
    assert!(started.elapsed() < Duration::from_secs(2), "nothing waits");
}

#[test]
fn work_that_does_not_end_is_an_error_and_not_a_hang() {
    let Some(id) = first() else { return };
    let gpu = Arc::new(Gpu::open(&id).unwrap());
    let (commands, mut other) = (Commands::new(&gpu).unwrap(), Commands::new(&gpu).unwrap());
    let started = Instant::now();
    std::thread::scope(|scope| {
        // Value 1 is never signalled. The other wait has no end of its own, and ends when the first gives up.
        let unending = scope.spawn(|| other.wait(1));
        let error = commands.wait_at_most(1, Duration::from_millis(30)).unwrap_err();
        assert!(matches!(&error, Error::Lost(lost) if matches!(lost.cause, Cause::Timeout(_))), "{error}");
        assert!(matches!(unending.join().unwrap(), Err(Error::Lost(_))));
    });
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(matches!(other.run(|_, _| ()), Err(Error::Lost(_))));
}

#[test]
fn parts_of_a_submission_run_in_order() {
    let Some(id) = first() else { return };
    let gpu = Arc::new(Gpu::open(&id).unwrap());
    let mut commands = Commands::new(&gpu).unwrap();
    let data: Vec<u8> = (0..=255).collect();
    let mut from = Buffer::new(&gpu, 256, Place::Upload).unwrap();
    from.fill(&data).unwrap();
    let middle: Vec<Buffer> = (0..4).map(|_| Buffer::new(&gpu, 256, Place::Device).unwrap()).collect();
    let to = Buffer::new(&gpu, 256, Place::Readback).unwrap();
    let chain: Vec<_> = std::iter::once(&from).chain(&middle).chain(std::iter::once(&to)).map(|b| b.handle).collect();
    let parts: Vec<_> = chain
        .windows(2)
        .map(|pair| {
            let copy = |commands: &Commands, b| {
                commands.copy(b, (pair[0], 0), (pair[1], 0), 256);
                commands.barrier(b);
                commands.host_barrier(b);
            };
            commands.record(copy).unwrap()
        })
        .collect();
    for round in 1..=3 {
        let ticket = commands.submit_parts(&parts, Work::Other("a chain of copies")).unwrap();
        assert_eq!(ticket, round * parts.len() as u64, "every part has its value on the timeline");
        commands.wait(ticket).unwrap();
        assert!(commands.has_reached(ticket).unwrap() && !commands.has_reached(ticket + 1).unwrap());
        assert_eq!(to.bytes().unwrap(), data);
    }
}

#[test]
fn compiled_pipelines_are_kept_and_a_broken_file_is_replaced() {
    let Some(id) = first() else { return };
    let folder = tempfile::tempdir().unwrap();
    let files = || std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect::<Vec<_>>();
    let run = || step(&mut Vulkan::new(&Device::open_cached(&id, folder.path()).unwrap()).unwrap());
    assert_eq!(run(), [2.0; 64]);
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    let kept = std::fs::read(file).unwrap();
    assert!(kept.len() >= 64, "a header and a sum at least");
    std::fs::write(file, &kept[..kept.len() - 1]).unwrap();
    assert_eq!(run(), [2.0; 64]);
    let replaced = std::fs::read(file).unwrap();
    assert!(replaced.len() >= kept.len(), "the cut file stayed");
    let written = std::fs::metadata(file).unwrap().modified().unwrap();
    assert_eq!(run(), [2.0; 64]);
    if std::fs::read(file).unwrap() == replaced {
        assert_eq!(
            std::fs::metadata(file).unwrap().modified().unwrap(),
            written,
            "nothing changed, nothing is written"
        );
    }
}

#[test]
fn a_device_answers_to_its_place_and_its_uuid() {
    let Some(id) = first() else { return };
    let listed = devices().unwrap();
    let candidate = listed.iter().find(|c| c.id == id).unwrap();
    assert_eq!(candidate.uuid.len(), 32);
    let by_uuid = Gpu::open(&format!("vulkan:{}", candidate.uuid)).unwrap();
    assert_eq!(by_uuid.candidate.uuid, candidate.uuid);
    if let Some(pci) = &candidate.pci {
        assert_eq!(Gpu::open(&format!("vulkan:{pci}")).unwrap().candidate.uuid, candidate.uuid);
    }
    assert!(matches!(Gpu::open("vulkan:999"), Err(Error::NoDevice { .. })));
    if listed.iter().all(|c| c.is_cpu() || c.problem.is_some()) {
        let error = Gpu::open("vulkan").err().unwrap().to_string();
        assert!(error.contains("is a CPU driver, taken only by its id"), "{error}");
    }
}
