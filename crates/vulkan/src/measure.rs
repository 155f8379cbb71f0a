//! What the device's memory can do: the figure that kernels are compared with.

use std::sync::Arc;
use std::time::Instant;

use crate::commands::{Commands, Dispatch};
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place};
use crate::params::{self, Kernel, Params};
use crate::pipeline::{Pipelines, Variant};

/// Bytes of a copy: far more than any cache holds.
const COPY_BYTES: u64 = 128 << 20;
/// Copies of one submission, so that its own cost does not count.
const COPIES: u32 = 8;
/// Submissions, of which the best counts.
const RUNS: u32 = 3;
/// Threads of a workgroup, and bytes that each copies, as `copy.comp` has it.
const THREADS: u32 = 256;
const THREAD_BYTES: u64 = 8 * 16;

/// Bytes per second that a copy reads and writes. A kernel makes it: some drivers' own copies are far from what kernels reach.
///
/// # Errors
/// Out of device memory, or a lost device.
pub fn copy_bandwidth(gpu: &Arc<Gpu>, pipelines: &mut Pipelines, commands: &mut Commands) -> Result<f64, Error> {
    let from = Buffer::new(gpu, COPY_BYTES, Place::Device)?;
    let to = Buffer::new(gpu, COPY_BYTES, Place::Device)?;
    let constants = vec![THREADS, gpu.traits.subgroup_size];
    let pipeline = pipelines.get(&Variant { kernel: Kernel::CopyFours, constants, links: 0 })?;
    let groups = u32::try_from(COPY_BYTES / (THREAD_BYTES * u64::from(THREADS))).unwrap_or(u32::MAX);
    let push = params::CopyFours { x: from.address, y: to.address }.bytes();
    let copy = Dispatch { pipeline, push, groups: [groups, 1, 1] };
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        commands.run(|commands, b| {
            for _ in 0..COPIES {
                commands.dispatch(b, pipelines.layout, &copy);
                commands.barrier(b);
            }
        })?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * COPY_BYTES as f64 * f64::from(COPIES) / best)
}
