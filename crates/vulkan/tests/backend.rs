//! The backend itself: what it refuses, what the op table cannot say, and several backends on one device.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::OnceLock;

use ash::vk;
use zinc_gguf::{Bytes, DType};
use zinc_graph::backend::{BackendError, Bucket, KvFormat, PlanId, PlanOptions, StateSizes, WeightData};
use zinc_graph::batch::Places;
use zinc_graph::conformance::{Seeded, random_weight};
use zinc_graph::ops::{Activation, Attention};
use zinc_graph::reference::Reference;
use zinc_graph::section::Builder;
use zinc_graph::shape::Shape;
use zinc_graph::{Backend, Batch, Graph};
use zinc_vulkan::fragments::Fragment;
use zinc_vulkan::{Device, Vulkan, device};

const STATE: StateSizes = StateSizes { n_pages: 4, n_window_pages: 0, kv_format: KvFormat::F32, n_slots: 3 };
const N_TOKENS: u32 = 5;

/// The first device, opened once; without one the tests say so and hold.
fn backend() -> Option<Vulkan> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || {
        let candidate = device::candidates().ok()?.into_iter().next()?;
        let mut device = Device::open(&candidate.id, &[]).unwrap();
        // These tests compare f32 sums.
        ["matrix_cores=0", "integer_dot=0"].iter().for_each(|entry| device.tune(entry).unwrap());
        Some(device)
    };
    let device = DEVICE.get_or_init(open).as_ref();
    if device.is_none() {
        eprintln!("SKIP: no Vulkan device");
    }
    device.map(|device| Vulkan::new(device).unwrap())
}

#[test]
fn the_fragments_of_known_drivers_are_found() {
    let Ok(candidates) = device::candidates() else { return eprintln!("SKIP: no Vulkan driver") };
    let Some(candidate) = candidates.into_iter().next() else { return eprintln!("SKIP: no Vulkan device") };
    let mut device = Device::open(&candidate.id, &[]).unwrap();
    let (found, traits) = (device.tuning_mut().fragment, device.gpu().traits.clone());
    let known = match (candidate.driver_id, traits.matrix_tile) {
        (vk::DriverId::NVIDIA_PROPRIETARY, Some(16)) => {
            Fragment { side: 16, tokens: 8, columns: 4, row_step: 4, share_step: 1 }
        }
        (_, Some(8)) if candidate.is_cpu() => Fragment { side: 8, tokens: 8, columns: 1, row_step: 8, share_step: 1 },
        (_, Some(_)) => return eprintln!("SKIP: no driver whose fragments are known"),
        (_, None) => return assert_eq!(found, None),
    };
    assert_eq!(found, Some(known));
}

#[test]
fn what_a_driver_gets_wrong_is_refused() {
    let Some(candidate) = device::candidates().ok().and_then(|c| c.into_iter().find(|c| c.is_cpu())) else {
        return eprintln!("SKIP: no Vulkan driver of the CPU");
    };
    let mut device = Device::open(&candidate.id, &[]).unwrap();
    let before = *device.tuning_mut();
    assert!(device.tune("matvec_hold=1").unwrap_err().contains(&candidate.name));
    assert_eq!(*device.tuning_mut(), before);
    device.tune("matvec_hold=0").unwrap();
}

fn graph(build: impl FnOnce(&mut Builder)) -> Graph {
    let mut builder = Builder::new("test");
    build(&mut builder);
    Graph::from_section(&builder.finish().unwrap()).unwrap()
}

/// Weights of the given types.
fn weights(graph: &Graph, dtypes: &[DType], seed: u64) -> Vec<WeightData> {
    let mut random = Seeded(seed);
    let mut make = |shape: [u32; 3], dtype: DType| {
        let bytes = random_weight(&mut random, dtype, shape.iter().map(|&n| n as usize).product());
        WeightData { dtype, bytes: Bytes::from(bytes) }
    };
    graph.weights.iter().zip(dtypes).map(|(weight, &dtype)| make(weight.shape, dtype)).collect()
}

fn options(keep_values: bool) -> PlanOptions {
    PlanOptions { bucket: Bucket { tokens: 8, outputs: 8 }, keep_values }
}

/// One sequence from position 0.
fn batch() -> Batch {
    Batch {
        ids: vec![0; N_TOKENS as usize],
        positions: (0..N_TOKENS).collect(),
        seq_idx: vec![0; N_TOKENS as usize],
        query_start: vec![0, N_TOKENS],
        full: Places { kv_slots: (0..N_TOKENS).collect(), block_tables: vec![0] },
        window: Places::default(),
        pages_max: 1,
        state_slots: vec![1],
        output_rows: (0..N_TOKENS).collect(),
    }
}

fn step(backend: &mut dyn Backend, graph: &Graph, plan: PlanId, seed: u64) -> Vec<f32> {
    let mut random = Seeded(seed);
    for &input in &graph.inputs {
        let n = N_TOKENS * graph.shape(input).cols;
        let data: Vec<f32> = (0..n).map(|_| random.normal()).collect();
        backend.write(plan, input, &data).unwrap();
    }
    let ticket = backend.submit(plan, &batch()).unwrap();
    backend.wait(ticket).unwrap();
    let output = graph.outputs[0];
    let mut y = vec![0.0; (N_TOKENS * graph.shape(output).cols) as usize];
    backend.read(plan, output, 0, &mut y).unwrap();
    y
}

fn run(backend: &mut dyn Backend, graph: &Graph, dtypes: &[DType], seed: u64) -> Vec<f32> {
    backend.load(graph, weights(graph, dtypes, seed), STATE).unwrap();
    let plan = backend.compile(graph, &options(false)).unwrap();
    step(backend, graph, plan, seed)
}

fn close(expected: &[f32], got: &[f32]) {
    for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert!((expected - got).abs() <= 1e-4, "element {i} is {got}, expected {expected}");
    }
}

fn gated() -> Graph {
    graph(|b| {
        let x = b.input(Shape::tokens(256));
        let (gate, up) = (b.matrix("gate", 256, 50), b.matrix("up", 256, 50));
        let (gate, up) = (b.matmul(x, gate), b.matmul(x, up));
        let y = b.glu(gate, up, Activation::Silu);
        b.output(y);
    })
}

#[test]
fn gate_and_up_may_be_stored_in_different_types() {
    let Some(mut vulkan) = backend() else { return };
    let graph = gated();
    for dtypes in [[DType::Q4_K, DType::Q6_K], [DType::Q8_0, DType::F16]] {
        let expected = run(&mut Reference::new(), &graph, &dtypes, 3);
        close(&expected, &run(&mut vulkan, &graph, &dtypes, 3));
    }
}

#[test]
fn backends_on_one_device_do_not_disturb_each_other() {
    let (Some(first), Some(second)) = (backend(), backend()) else { return };
    let graph = &gated();
    std::thread::scope(|scope| {
        for (mut vulkan, seed) in [(first, 4), (second, 5)] {
            scope.spawn(move || {
                let dtypes = [DType::F32, DType::F32];
                let expected = run(&mut Reference::new(), graph, &dtypes, seed);
                vulkan.load(graph, weights(graph, &dtypes, seed), STATE).unwrap();
                let plan = vulkan.compile(graph, &options(false)).unwrap();
                for _ in 0..20 {
                    close(&expected, &step(&mut vulkan, graph, plan, seed));
                }
            });
        }
    });
}

#[test]
fn what_is_not_there_is_refused() {
    let Some(mut vulkan) = backend() else { return };
    let graph = gated();
    let (input, output) = (graph.inputs[0], graph.outputs[0]);
    run(&mut vulkan, &graph, &[DType::F32, DType::F32], 6);
    let kept = vulkan.compile(&graph, &options(true)).unwrap();
    let mut row = [0.0; 50];
    let refused =
        |result: Result<(), BackendError>, message: &str| assert_eq!(result.unwrap_err().to_string(), message);
    refused(vulkan.read(PlanId(0), output, 5, &mut row), "row 6 does not exist (there are 5)");
    refused(
        vulkan.read(PlanId(0), graph.nodes[0].outputs.as_slice()[0], 0, &mut row),
        "value 1 does not exist (there are 4)",
    );
    refused(vulkan.read(PlanId(7), output, 0, &mut row), "plan 7 does not exist (there are 2)");
    refused(vulkan.read(kept, output, 0, &mut row), "row 1 does not exist (there are 0)");
    refused(vulkan.write(PlanId(0), input, &[0.0; 9 * 256]), "row 9 does not exist (there are 8)");
    refused(vulkan.write(PlanId(0), output, &[0.0]), "value 3 does not exist (there are 4)");
    refused(vulkan.copy_state(0, 3), "state slot 3 does not exist (there are 3)");
    assert!(vulkan.read(PlanId(0), output, 4, &mut row).is_ok());
    let every_token = Batch { output_rows: vec![0; 9], ..batch() };
    assert!(matches!(vulkan.submit(PlanId(0), &every_token), Err(BackendError::Batch(_))));
}

#[test]
fn weights_must_be_of_their_shape_and_type() {
    let Some(mut vulkan) = backend() else { return };
    let graph = graph(|b| {
        let x = b.input(Shape::tokens(64));
        let w = b.vector("norm.weight", 64);
        let y = b.rms_norm(x, w, 1e-6);
        b.output(y);
    });
    let mut half = weights(&graph, &[DType::F16], 1);
    let error = vulkan.load(&graph, half.clone(), STATE).unwrap_err();
    assert!(matches!(&error, BackendError::WeightType { dtype: DType::F16, .. }), "{error}");
    half[0].dtype = DType::F32;
    let error = vulkan.load(&graph, half, STATE).unwrap_err();
    assert!(matches!(&error, BackendError::WeightSize { expected: 256, got: 128, .. }), "{error}");
    assert!(vulkan.load(&graph, Vec::new(), STATE).is_err());
}

#[test]
fn shapes_without_a_kernel_are_refused() {
    let Some(mut vulkan) = backend() else { return };
    let short_rows = graph(|b| {
        let x = b.input(Shape::tokens(40));
        let w = b.matrix("w", 40, 8);
        let y = b.matmul(x, w);
        b.output(y);
    });
    let wide_head = graph(|b| {
        let x = b.input(Shape::tokens(1024));
        let cache = b.kv_cache(1, 1024);
        b.kv_write(x, x, cache);
        let op = Attention { n_heads: 1, n_kv_heads: 1, head_dim: 1024, scale: 1.0, window: 0, softcap: 0.0 };
        let y = b.attention(x, cache, None, op);
        b.output(y);
    });
    for (graph, message) in [
        (short_rows, "`matmul`: weight rows of 40 elements; the Vulkan kernels read 32 at a time"),
        (wide_head, "`attention`: a head of 1024 elements; the Vulkan kernel takes at most 512"),
    ] {
        vulkan.load(&graph, weights(&graph, &[DType::F32], 1), STATE).unwrap();
        let error = vulkan.compile(&graph, &options(false)).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
    }
}
