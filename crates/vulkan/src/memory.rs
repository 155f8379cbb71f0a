//! Buffers, the arena of weights, and staging.
//!
//! Every buffer has a device address; kernels take addresses, so there are no descriptors and no
//! bound on what they can reach. Weights lie in a few large buffers. What the host writes each
//! step lies in mapped memory. Device memory that the host can write (unified memory, resizable
//! BAR) is written directly; elsewhere weights pass through one staging buffer of fixed size.

#![allow(clippy::cast_possible_truncation, reason = "sizes of buffers that are mapped into this address space")]

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;

use crate::device::Gpu;
use crate::error::{Error, call};

/// Alignment of tensors in the arena: one cache line of every GPU we know.
pub const TENSOR_ALIGN: u64 = 256;
/// Bytes of one buffer of the arena, unless a single tensor is larger.
const ARENA_BYTES: u64 = 1 << 30;
/// Bytes of the staging buffer.
pub const STAGING_BYTES: usize = 64 << 20;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The device's own memory.
    Device,
    /// Written by the host, read by the device.
    Upload,
    /// Written by the device, read by the host.
    Readback,
}

/// A buffer with its own memory.
pub struct Buffer {
    gpu: Arc<Gpu>,
    /// The handle, for copies.
    pub handle: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Device address of byte 0.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    mapped: Option<NonNull<u8>>,
}

// SAFETY: the mapped pointer is only reached through `&self`/`&mut self` of this owner.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of `size` bytes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(gpu: &Arc<Gpu>, size: u64, place: Place) -> Result<Buffer, Error> {
        let size = size.max(TENSOR_ALIGN);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let create = vk::BufferCreateInfo::default().size(size).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: `create` lives through the call.
        let handle = unsafe { gpu.device.create_buffer(&create, None) }.map_err(call("vkCreateBuffer"))?;
        // SAFETY: the buffer is alive.
        let needs = unsafe { gpu.device.get_buffer_memory_requirements(handle) };
        let made = Self::back(gpu, handle, &needs, place);
        match made {
            Ok((memory, mapped)) => {
                let info = vk::BufferDeviceAddressInfo::default().buffer(handle);
                // SAFETY: the buffer is bound and was made with the address usage.
                let address = unsafe { gpu.device.get_buffer_device_address(&info) };
                Ok(Buffer { gpu: gpu.clone(), handle, memory, address, size, mapped })
            }
            Err(error) => {
                // SAFETY: nothing uses the buffer.
                unsafe { gpu.device.destroy_buffer(handle, None) };
                Err(error)
            }
        }
    }

    fn back(
        gpu: &Gpu,
        handle: vk::Buffer,
        needs: &vk::MemoryRequirements,
        place: Place,
    ) -> Result<(vk::DeviceMemory, Option<NonNull<u8>>), Error> {
        use vk::MemoryPropertyFlags as Flags;
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let (wanted, preferred) = match place {
            Place::Device => (Flags::DEVICE_LOCAL, Flags::empty()),
            Place::Upload => (host, Flags::DEVICE_LOCAL),
            Place::Readback => (host, Flags::HOST_CACHED),
        };
        let index = gpu.memory_type(needs.memory_type_bits, wanted, preferred);
        let index = index.ok_or(Error::Missing { device: gpu.candidate.name.clone(), missing: "suitable memory" })?;
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let allocate = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index)
            .push_next(&mut flags);
        // SAFETY: `allocate` lives through the call.
        let memory = unsafe { gpu.device.allocate_memory(&allocate, None) }.map_err(call("vkAllocateMemory"))?;
        // SAFETY: fresh buffer, fresh memory of the size it needs.
        let bound = unsafe { gpu.device.bind_buffer_memory(handle, memory, 0) }.map_err(call("vkBindBufferMemory"));
        let visible = gpu.memory.memory_types[index as usize].property_flags.contains(host);
        let mapped = bound.and_then(|()| if visible { map(gpu, memory) } else { Ok(None) });
        mapped.map(|mapped| (memory, mapped)).inspect_err(|_| {
            // SAFETY: the memory is not used by anything that survives this error.
            unsafe { gpu.device.free_memory(memory, None) };
        })
    }

    /// Copies `data` to the front.
    ///
    /// # Errors
    /// Memory that the host cannot reach.
    pub fn fill(&mut self, data: &[u8]) -> Result<(), Error> {
        let missing =
            Error::Missing { device: self.gpu.candidate.name.clone(), missing: "memory that the host can write" };
        self.bytes_mut().ok_or(missing)?[..data.len()].copy_from_slice(data);
        Ok(())
    }

    /// The bytes, if the host can reach them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: the whole buffer is mapped for its lifetime, and `&mut self` makes this the only view.
        self.mapped.map(|p| unsafe { std::slice::from_raw_parts_mut(p.as_ptr(), self.size as usize) })
    }

    /// The bytes, if the host can reach them.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: the whole buffer is mapped for its lifetime; callers read after the device is done.
        self.mapped.map(|p| unsafe { std::slice::from_raw_parts(p.as_ptr(), self.size as usize) })
    }
}

fn map(gpu: &Gpu, memory: vk::DeviceMemory) -> Result<Option<NonNull<u8>>, Error> {
    // SAFETY: fresh host-visible memory, mapped once, whole.
    let pointer = unsafe { gpu.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
    Ok(NonNull::new(pointer.map_err(call("vkMapMemory"))?.cast()))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: owners wait for the device before they drop buffers.
        unsafe {
            self.gpu.device.destroy_buffer(self.handle, None);
            self.gpu.device.free_memory(self.memory, None);
        }
    }
}

/// A place in the arena.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Which buffer of the arena.
    pub buffer: usize,
    /// Byte offset in it.
    pub offset: u64,
    /// Device address.
    pub address: u64,
}

/// A few large device buffers that tensors are laid into, one after another.
#[derive(Default)]
pub struct Arena {
    buffers: Vec<Buffer>,
    used: u64,
}

impl Arena {
    /// Reserves `size` bytes.
    ///
    /// # Errors
    /// Out of device memory.
    pub fn reserve(&mut self, gpu: &Arc<Gpu>, size: u64, left: u64) -> Result<Tensor, Error> {
        let size = size.next_multiple_of(TENSOR_ALIGN);
        let room = self.buffers.last().map_or(0, |b| b.size - self.used);
        if size > room {
            let wanted = left.clamp(size, ARENA_BYTES.max(size)).min(gpu.traits.allocation_bytes_max).max(size);
            self.buffers.push(Buffer::new(gpu, wanted, Place::Device)?);
            self.used = 0;
        }
        let index = self.buffers.len() - 1;
        let tensor = Tensor { buffer: index, offset: self.used, address: self.buffers[index].address + self.used };
        self.used += size;
        Ok(tensor)
    }

    /// The buffer that a tensor lies in.
    pub fn buffer_mut(&mut self, tensor: Tensor) -> &mut Buffer {
        &mut self.buffers[tensor.buffer]
    }
}
