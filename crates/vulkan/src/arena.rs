//! The arena of weights: a few large buffers that tensors are laid into, one after another.
//!
//! The layout is computed before the first byte is taken, so what loading needs is known exactly.

use std::sync::Arc;

use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place, TENSOR_ALIGN};

/// Most bytes of one buffer, for drivers that bound allocations by 4 GiB. A larger tensor has a buffer of its own.
const BUFFER_BYTES_MAX: u64 = (4 << 30) - (2 << 20);

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which buffer of the arena.
    pub buffer: usize,
    /// Byte offset in it, a multiple of [`TENSOR_ALIGN`].
    pub offset: u64,
}

/// Where all tensors lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Each tensor's place.
    pub spots: Vec<Spot>,
    /// Bytes of each buffer.
    pub buffers: Vec<u64>,
}

impl Layout {
    /// Tensors of these sizes in buffers of at most `allocation_bytes_max`.
    #[must_use]
    pub fn new(sizes: &[u64], allocation_bytes_max: u64) -> Layout {
        let most = BUFFER_BYTES_MAX.min(allocation_bytes_max) / TENSOR_ALIGN * TENSOR_ALIGN;
        let mut layout = Layout::default();
        for &size in sizes {
            let size = size.next_multiple_of(TENSOR_ALIGN);
            match layout.buffers.last() {
                Some(&used) if used.saturating_add(size) <= most => {}
                _ => layout.buffers.push(0),
            }
            let buffer = layout.buffers.len() - 1;
            layout.spots.push(Spot { buffer, offset: layout.buffers[buffer] });
            layout.buffers[buffer] += size;
        }
        layout
    }

    /// Bytes of all buffers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().sum()
    }
}

/// The buffers, on the device.
#[derive(Default)]
pub struct Arena {
    /// One for each of [`Layout::buffers`].
    pub buffers: Vec<Buffer>,
}

impl Arena {
    /// Takes the memory of a layout.
    ///
    /// # Errors
    /// Out of device memory, or a tensor that no allocation of this device holds.
    pub fn new(gpu: &Arc<Gpu>, layout: &Layout) -> Result<Arena, Error> {
        let most = gpu.traits.allocation_bytes_max;
        if let Some(&needed) = layout.buffers.iter().find(|&&bytes| bytes > most) {
            return Err(gpu.too_large("one tensor", needed));
        }
        let buffers = layout.buffers.iter().map(|&bytes| Buffer::new(gpu, bytes, Place::Device));
        Ok(Arena { buffers: buffers.collect::<Result<_, _>>()? })
    }

    /// Device address of a tensor.
    #[must_use]
    pub fn address(&self, spot: Spot) -> u64 {
        self.buffers[spot.buffer].address + spot.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Where each tensor begins and ends; none may touch another or stick out of its buffer.
    fn check(sizes: &[u64], most: u64) -> Layout {
        let layout = Layout::new(sizes, most);
        let mut ends = vec![0; layout.buffers.len()];
        for (spot, &size) in layout.spots.iter().zip(sizes) {
            assert_eq!(spot.offset % TENSOR_ALIGN, 0);
            assert!(spot.offset >= ends[spot.buffer], "{layout:?}");
            ends[spot.buffer] = spot.offset + size;
            assert!(ends[spot.buffer] <= layout.buffers[spot.buffer], "{layout:?}");
        }
        assert_eq!(layout.spots.len(), sizes.len());
        layout
    }

    #[test]
    fn tensors_share_a_few_large_buffers() {
        assert_eq!(check(&[100, 300, 256], u64::MAX).buffers, [256 + 512 + 256]);
        let layout = check(&[MIB, MIB, MIB, 5 * MIB, 1], 2 * MIB);
        assert_eq!(layout.buffers, [2 * MIB, MIB, 5 * MIB, 256], "a large tensor stands alone");
        assert_eq!(layout.bytes(), 8 * MIB + 256);
        // 22 GB of tensors of 100 MB: no buffer passes what drivers with 4 GiB bounds take.
        let layout = check(&[100_000_000; 222], u64::MAX);
        assert_eq!(layout.buffers.len(), 6);
        assert!(layout.buffers.iter().all(|&bytes| bytes <= (4 << 30) - (2 << 20)));
        assert_eq!(check(&[], u64::MAX), Layout::default());
    }
}
