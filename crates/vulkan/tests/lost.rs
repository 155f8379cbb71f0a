//! A device that stops: nothing waits for it, and the error names the op in flight.
//!
//! One is lost on purpose, only with `ZINC_LOSE_DEVICE=1`, since every program on that device may suffer: the second of
//! three products is recorded with an address that holds nothing.
//! `ZINC_LOSE_DEVICE=1 cargo test -p zinc-vulkan --test lost -- --nocapture` prints the error.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ash::vk;
use zinc_gguf::{Bytes, DType};
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes, WeightData};
use zinc_graph::batch::Places;
use zinc_graph::report::ReportFor;
use zinc_graph::section::Builder;
use zinc_graph::shape::Shape;
use zinc_graph::{Batch, Graph};
use zinc_vulkan::Error;
use zinc_vulkan::commands::Commands;
use zinc_vulkan::device::{Gpu, candidates};
use zinc_vulkan::lost::{Cause, Work};
use zinc_vulkan::memory::{Buffer, Place};
use zinc_vulkan::pipeline::Pipelines;
use zinc_vulkan::profile::Profile;
use zinc_vulkan::recording::{Parts, Recording};
use zinc_vulkan::tuning::Tuning;
use zinc_vulkan::weights::Weights;

/// Where no buffer lies.
const NOWHERE: u64 = 0x6660_0000_0000;
const STATE: StateSizes = StateSizes { n_pages: 1, kv_format: KvFormat::F16, n_slots: 1, n_window_pages: 0 };
const WORK: Work = Work::Step { plan: 0, tokens: 1, outputs: 1 };

/// Calls of the driver that free something or wait.
static N_CALLS: AtomicU32 = AtomicU32::new(0);

/// Takes the place of the driver's function that frees a `T`.
unsafe extern "system" fn free<T>(_: vk::Device, _: T, _: *const vk::AllocationCallbacks<'_>) {
    N_CALLS.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "system" fn destroy_device(_: vk::Device, _: *const vk::AllocationCallbacks<'_>) {
    N_CALLS.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "system" fn wait(_: vk::Device, _: *const vk::SemaphoreWaitInfo<'_>, _: u64) -> vk::Result {
    N_CALLS.fetch_add(1, Ordering::Relaxed);
    vk::Result::SUCCESS
}

#[test]
fn what_belongs_to_a_device_that_did_not_end_its_work_is_dropped_without_the_driver() {
    let Ok(mut gpu) = Gpu::open("vulkan:0") else {
        eprintln!("SKIP: no Vulkan device");
        return;
    };
    let (mut first, mut second) = (gpu.device.fp_v1_0().clone(), gpu.device.fp_v1_2().clone());
    first.destroy_device = destroy_device;
    first.destroy_buffer = free;
    first.free_memory = free;
    first.destroy_semaphore = free;
    first.destroy_command_pool = free;
    first.destroy_pipeline = free;
    first.destroy_pipeline_layout = free;
    first.destroy_pipeline_cache = free;
    first.destroy_shader_module = free;
    first.destroy_query_pool = free;
    second.wait_semaphores = wait;
    let (one, three) = (gpu.device.fp_v1_1().clone(), gpu.device.fp_v1_3().clone());
    gpu.device = ash::Device::from_parts_1_3(gpu.device.handle(), first, one, second, three);
    gpu.traits.timestamp_ns = 1.0;
    let gpu = Arc::new(gpu);
    let buffer = || Buffer::new(&gpu, 1 << 20, Place::Device);
    let (commands, pipelines) = (Commands::new(&gpu).unwrap(), Pipelines::new(&gpu, &[]).unwrap());
    let profile = Profile::new(&gpu, &Graph::default(), &Weights::default(), &[], 1, KvFormat::F16).unwrap();
    let kept = buffer().unwrap();
    drop(buffer().unwrap());
    assert_eq!(N_CALLS.load(Ordering::Relaxed), 2, "a buffer and its memory: calls are counted");
    gpu.lose(Cause::Timeout(1), None);
    assert!(matches!(buffer(), Err(Error::Lost(_))));
    assert!(matches!(profile.read(), Err(Error::Lost(_))));
    drop((kept, profile, pipelines, commands));
    assert!(Arc::into_inner(gpu).is_some(), "the device itself is dropped too");
    assert_eq!(N_CALLS.load(Ordering::Relaxed), 2, "nothing is freed and nothing waits");
}

#[test]
fn a_device_lost_in_a_product_names_that_product() {
    if std::env::var_os("ZINC_LOSE_DEVICE").is_none() {
        return;
    }
    let gpu = Arc::new(Gpu::open(&candidates().unwrap()[0].id).unwrap());
    let (mut commands, mut pipelines) = (Commands::new(&gpu).unwrap(), Pipelines::new(&gpu, &[]).unwrap());
    let graph = products();
    let data = WeightData { dtype: DType::F32, bytes: Bytes::from(vec![0; 64 * 64 * 4]) };
    let data = vec![data.clone(), data.clone(), data];
    let mut weights = Weights::load(&gpu, &mut commands, &graph, &data, &mut |_, _| ()).unwrap();
    weights.placed[1].address = NOWHERE;
    let tuning = Tuning::of(&gpu.traits);
    let parts = Parts {
        gpu: &gpu,
        pipelines: &mut pipelines,
        commands: &mut commands,
        weights: &weights,
        resources: &[],
        state: STATE,
        tuning: &tuning,
        limit: Duration::from_secs(1),
        is_profiled: false,
        is_marked: true,
    };
    let options = PlanOptions { bucket: Bucket { tokens: 1, outputs: 1 }, keep_values: false };
    let mut step = Recording::new(parts, graph, &options).unwrap();
    step.write_batch(&one_token(), STATE.n_pages).unwrap();
    let submitted = commands.submit_parts(&step.commands, WORK);
    let error = submitted.and_then(|value| commands.wait_at_most(value, Duration::from_secs(20))).unwrap_err();
    let Error::Lost(lost) = &error else { panic!("{error}") };
    let dtypes = weights.dtypes();
    let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context: 0, kv_format: STATE.kv_format };
    let stopped = step.stopped_at(lost.cause == Cause::Lost, &of);
    eprintln!("{error}: {stopped:?}");
    let Some(stopped) = stopped else {
        eprintln!("the driver of {} gives no marks", lost.device);
        return;
    };
    assert!(stopped.starts_with("phase 2 of 3, matmul F32 64x64 of layer 0 (blk.0.second)"), "{stopped}");
}

fn products() -> Graph {
    let mut builder = Builder::new("test");
    let mut x = builder.input(Shape::tokens(64));
    for name in ["first", "second", "third"] {
        let w = builder.matrix(name, 64, 64);
        x = builder.matmul(x, w);
    }
    builder.output(x);
    Graph::from_section(&builder.finish().unwrap()).unwrap()
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
