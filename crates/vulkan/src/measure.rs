//! What the device's memory can do: the figure that kernels are compared with.

use std::sync::Arc;
use std::time::Instant;

use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place};

/// Bytes of a copy: far more than any cache holds.
const COPY_BYTES: u64 = 256 << 20;
/// Copies of one submission, so that its own cost does not count.
const COPIES: u32 = 8;
/// Submissions, of which the best counts.
const RUNS: u32 = 4;

/// Bytes per second that copies read and write.
///
/// # Errors
/// Out of device memory, or a lost device.
pub fn copy_bandwidth(gpu: &Arc<Gpu>, commands: &mut Commands) -> Result<f64, Error> {
    let from = Buffer::new(gpu, COPY_BYTES, Place::Device)?;
    let to = Buffer::new(gpu, COPY_BYTES, Place::Device)?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        commands.run(|commands, b| {
            for _ in 0..COPIES {
                commands.copy(b, (from.handle, 0), (to.handle, 0), COPY_BYTES);
                commands.barrier(b);
            }
        })?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * COPY_BYTES as f64 * f64::from(COPIES) / best)
}
