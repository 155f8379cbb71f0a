//! Memory of a plan that kernels use beside its values: parts of attention, sums of slices, lists of experts.
//!
//! Given out once while a plan is recorded and never taken back, so no two launches share any; but for what one phase
//! alone needs, which later phases get again. It begins as zeros: some kernels count in it and leave zeros behind.

use std::sync::Arc;

use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place, TENSOR_ALIGN};

/// Bytes of a block, unless one request is larger.
pub(crate) const BLOCK_BYTES: u64 = 8 << 20;

/// The scratch memory of one plan.
pub struct Scratch {
    gpu: Arc<Gpu>,
    blocks: Vec<Buffer>,
    used: u64,
    phase: usize,
    passing: Vec<Passing>,
}

/// Memory that a phase has to itself.
struct Passing {
    address: u64,
    bytes: u64,
    phase: usize,
}

impl Scratch {
    /// None yet.
    #[must_use]
    pub fn new(gpu: &Arc<Gpu>) -> Scratch {
        Scratch { gpu: gpu.clone(), blocks: Vec::new(), used: 0, phase: 0, passing: Vec::new() }
    }

    /// Device address of `bytes` bytes.
    ///
    /// # Errors
    /// Out of device memory.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64, Error> {
        let bytes = bytes.next_multiple_of(TENSOR_ALIGN);
        if self.blocks.last().is_none_or(|block| block.size - self.used < bytes) {
            self.blocks.push(Buffer::new(&self.gpu, bytes.max(BLOCK_BYTES), Place::Device)?);
            self.used = 0;
        }
        let at = self.blocks.last().map_or(0, |block| block.address) + self.used;
        self.used += bytes;
        Ok(at)
    }

    /// What the phases before had for themselves can be given out again.
    pub fn begin_phase(&mut self) {
        self.phase += 1;
    }

    /// Device address of `bytes` bytes that nothing else uses in this phase; they begin as anything.
    ///
    /// # Errors
    /// Out of device memory.
    pub fn reserve_for_phase(&mut self, bytes: u64) -> Result<u64, Error> {
        let phase = self.phase;
        let fitting = self.passing.iter_mut().filter(|known| known.phase < phase && known.bytes >= bytes);
        if let Some(known) = fitting.min_by_key(|known| known.bytes) {
            known.phase = phase;
            return Ok(known.address);
        }
        let address = self.reserve(bytes)?;
        self.passing.push(Passing { address, bytes, phase });
        Ok(address)
    }

    /// Fills all of it with zeros.
    ///
    /// # Errors
    /// A lost device.
    pub fn clear(&self, commands: &mut Commands) -> Result<(), Error> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        commands.run(|commands, b| {
            self.blocks.iter().for_each(|block| commands.fill(b, block.handle, block.size));
            commands.barrier(b);
        })
    }
}
