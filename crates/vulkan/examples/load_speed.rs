//! How fast a GGUF file's tensors come to a device, beside a plain copy of as many bytes by the device itself.
//!
//! `load_speed DEVICE FILE.gguf [staged] [RUNS]`. `staged` goes through the staging ring even where the host could
//! write the device's memory. The file should be in the page cache; every run maps it anew. Prints for each run
//! seconds and GB/s of both, their ratio, and the host memory that loading took beyond the map.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement prints, and stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zinc_gguf::{Gguf, TensorInfo};
use zinc_graph::Graph;
use zinc_graph::backend::WeightData;
use zinc_graph::graph::GraphWeight;
use zinc_graph::section::WeightClass;
use zinc_vulkan::arena::{Arena, Layout};
use zinc_vulkan::commands::Commands;
use zinc_vulkan::device::Gpu;
use zinc_vulkan::memory::{Buffer, Place};
use zinc_vulkan::weights::Weights;

const PIECE_BYTES: u64 = 64 << 20;
/// Bytes that arrive between two looks at the memory taken.
const NOTE_BYTES: u64 = 1 << 30;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [id, file, rest @ ..] = &args[..] else { panic!("load_speed DEVICE FILE.gguf [staged] [RUNS]") };
    let mut gpu = Gpu::open(id).unwrap();
    if rest.iter().any(|arg| arg == "staged") {
        gpu.traits.is_host_writable = false;
    }
    let gpu = Arc::new(gpu);
    let n_runs = rest.iter().find_map(|arg| arg.parse().ok()).unwrap_or(3);
    let way = if gpu.traits.is_host_writable { "written by the host" } else { "through the staging ring" };
    println!("{} ({}), {way}", gpu.candidate.name, gpu.candidate.driver);
    for _ in 0..n_runs {
        run(&gpu, Path::new(file));
    }
}

fn run(gpu: &Arc<Gpu>, file: &Path) {
    let gguf = Gguf::open(file).unwrap();
    let data = |tensor: &TensorInfo| WeightData { dtype: tensor.dtype, bytes: gguf.data_shared(tensor).unwrap() };
    let weights: Vec<WeightData> = gguf.tensors().iter().map(data).collect();
    let graph = Graph { weights: gguf.tensors().iter().map(weight_of).collect(), ..Graph::default() };
    let sizes: Vec<u64> = weights.iter().map(|w| w.bytes.len() as u64).collect();
    let bytes: u64 = sizes.iter().sum();
    let mut commands = Commands::new(gpu).unwrap();
    let before = host_bytes();
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let mut next = 0;
    // Not at each report: asking the system takes as long as copying many blocks.
    let mut note = move |done: u64, _| {
        if done >= next {
            next = done + NOTE_BYTES;
            seen.fetch_max(host_bytes(), Ordering::Relaxed);
        }
    };
    let started = Instant::now();
    let loaded = Weights::load(gpu, &mut commands, &graph, &weights, &mut note).unwrap();
    let load_s = started.elapsed().as_secs_f64();
    drop(loaded);
    let layout = Layout::new(&sizes, gpu.traits.allocation_bytes_max);
    let (memory_s, copy_s) = plain_copy(gpu, &mut commands, &layout);
    let rate = |seconds: f64| bytes as f64 / 1e9 / seconds;
    let beyond = most.load(Ordering::Relaxed).saturating_sub(before) as f64 / 1e6;
    println!(
        "{:.2} GB: loaded in {load_s:.3} s ({:.1} GB/s), plain copy {copy_s:.3} s ({:.1} GB/s) into memory that took \
         {memory_s:.3} s, ratio {:.2} ({:.2} with the memory), {beyond:.0} MB beyond the map",
        bytes as f64 / 1e9,
        rate(load_s),
        rate(copy_s),
        load_s / copy_s,
        load_s / (memory_s + copy_s),
    );
}

/// How a graph describes a tensor: by its shape weights are taken apart.
fn weight_of(tensor: &TensorInfo) -> GraphWeight {
    let axis = |i: usize| tensor.shape.get(i).map_or(1, |&n| u32::try_from(n).unwrap());
    GraphWeight { name: tensor.name.clone(), shape: [0, 1, 2].map(axis), class: WeightClass::Matrix }
}

/// Seconds that the driver needs to give as much memory, and the device to fill it from host memory that is there already.
fn plain_copy(gpu: &Arc<Gpu>, commands: &mut Commands, layout: &Layout) -> (f64, f64) {
    let mut host = Buffer::new(gpu, PIECE_BYTES, Place::Staging).unwrap();
    host.bytes_mut().unwrap().fill(7);
    let started = Instant::now();
    let arena = Arena::new(gpu, layout).unwrap();
    let memory_s = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let copy = |commands: &Commands, b| {
        for buffer in &arena.buffers {
            for offset in (0..buffer.size).step_by(1 << 26) {
                commands.copy(b, (host.handle, 0), (buffer.handle, offset), PIECE_BYTES.min(buffer.size - offset));
            }
        }
    };
    commands.run(copy).unwrap();
    (memory_s, started.elapsed().as_secs_f64())
}

/// Host memory of this process that is no file's, where the system tells.
fn host_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    1024 * (kilobytes("RssAnon:").unwrap_or(0) + kilobytes("RssShmem:").unwrap_or(0))
}
