//! Device memory: how much there is, and buffers.
//!
//! Every buffer has a device address; kernels take addresses, so there are no descriptors and no
//! bound on what they can reach. What the host writes each step lies in mapped memory. Device
//! memory that the host can write (unified memory, resizable BAR) is mapped, so that weights are
//! written there directly; elsewhere they pass through staging (see `upload`).

#![allow(clippy::cast_possible_truncation, reason = "sizes of buffers that are mapped into this address space")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::{Instance, vk};

use crate::candidate::driver_lock;
use crate::device::Gpu;
use crate::error::{Error, call};

/// Alignment of tensors in the arena: one cache line of every GPU we know.
pub const TENSOR_ALIGN: u64 = 256;

/// Device-local memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Size of the largest device-local heap.
    pub heap_bytes: u64,
    /// What this process may hold of it: less than the heap where others hold some.
    pub budget_bytes: u64,
    /// What this process holds of it.
    pub usage_bytes: u64,
    /// The driver says so (`VK_EXT_memory_budget`); otherwise the budget is the heap and only our buffers count.
    pub is_reported: bool,
}

impl Memory {
    /// As the driver tells, or, without that extension, the heap's size and `own_bytes`.
    pub(crate) fn of(instance: &Instance, device: vk::PhysicalDevice, has_budget: bool, own_bytes: u64) -> Memory {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default();
        if has_budget {
            properties = properties.push_next(&mut budget);
        }
        // SAFETY: the chain is made of structures that the device knows.
        unsafe { instance.get_physical_device_memory_properties2(device, &mut properties) };
        let heaps = properties.memory_properties;
        let heaps = &heaps.memory_heaps[..heaps.memory_heap_count as usize];
        let local = heaps.iter().enumerate().filter(|(_, h)| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        let Some((index, heap)) = local.max_by_key(|(_, h)| h.size) else {
            return Memory { heap_bytes: 0, budget_bytes: 0, usage_bytes: 0, is_reported: has_budget };
        };
        let (budget_bytes, usage_bytes) = match has_budget {
            true => (budget.heap_budget[index].min(heap.size), budget.heap_usage[index]),
            false => (heap.size, own_bytes),
        };
        Memory { heap_bytes: heap.size, budget_bytes, usage_bytes, is_reported: has_budget }
    }

    /// What this process can still take without the driver moving something elsewhere.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.usage_bytes)
    }

    /// This process holds more than it may: the driver has to move something to slower memory.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_reported && self.usage_bytes > self.budget_bytes
    }

    /// What other programs and the driver hold or keep.
    #[must_use]
    pub fn others_bytes(&self) -> u64 {
        self.heap_bytes.saturating_sub(self.budget_bytes.max(self.usage_bytes))
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The device's own memory.
    Device,
    /// Written by the host, read by the device.
    Upload,
    /// Written by the host, copied from by the device: the computer's own memory.
    Staging,
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
    /// Bytes that count as device-local.
    counted_bytes: u64,
}

// SAFETY: the mapped pointer is only reached through `&self`/`&mut self` of this owner.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of `size` bytes.
    ///
    /// # Errors
    /// Out of memory, or a lost device.
    pub fn new(gpu: &Arc<Gpu>, size: u64, place: Place) -> Result<Buffer, Error> {
        gpu.check_alive()?;
        let _lock = driver_lock();
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
            Ok((memory, mapped, counted_bytes)) => {
                let info = vk::BufferDeviceAddressInfo::default().buffer(handle);
                // SAFETY: the buffer is bound and was made with the address usage.
                let address = unsafe { gpu.device.get_buffer_device_address(&info) };
                Ok(Buffer { gpu: gpu.clone(), handle, memory, address, size, mapped, counted_bytes })
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
    ) -> Result<(vk::DeviceMemory, Option<NonNull<u8>>, u64), Error> {
        use vk::MemoryPropertyFlags as Flags;
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let (wanted, preferred) = match place {
            Place::Device if gpu.traits.is_host_writable => (Flags::DEVICE_LOCAL, host),
            Place::Device => (Flags::DEVICE_LOCAL, Flags::empty()),
            Place::Upload => (host, Flags::DEVICE_LOCAL),
            Place::Staging | Place::Readback => (host, Flags::HOST_CACHED),
        };
        let find = |preferred| gpu.memory_type(needs.memory_type_bits, wanted, preferred);
        let best = find(preferred);
        let index = best.ok_or(Error::Missing { device: gpu.candidate.name.clone(), missing: "suitable memory" })?;
        // A small BAR may be full where plain memory is not.
        let (memory, index) = match (allocate(gpu, needs.size, index), find(Flags::empty())) {
            (Err(_), Some(plain)) if plain != index => (allocate(gpu, needs.size, plain)?, plain),
            (memory, _) => (memory?, index),
        };
        let kind = gpu.memory.memory_types[index as usize];
        // SAFETY: fresh buffer, fresh memory of the size it needs.
        let bound = unsafe { gpu.device.bind_buffer_memory(handle, memory, 0) }.map_err(call("vkBindBufferMemory"));
        // Without a BAR for all of it, what the host happens to see is not written that way.
        let direct = place != Place::Device || gpu.traits.is_host_writable;
        let visible = direct && kind.property_flags.contains(host);
        let mapped = bound.and_then(|()| if visible { map(gpu, memory) } else { Ok(None) });
        let mapped = mapped.inspect_err(|_| {
            // SAFETY: the memory is not used by anything that survives this error.
            unsafe { gpu.device.free_memory(memory, None) };
        })?;
        let counted_bytes = if kind.property_flags.contains(Flags::DEVICE_LOCAL) { needs.size } else { 0 };
        gpu.allocated_bytes.fetch_add(counted_bytes, Ordering::Relaxed);
        Ok((memory, mapped, counted_bytes))
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

    /// Where the host sees byte 0, if it does.
    pub(crate) fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
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

/// Takes memory of one type; device-local memory only where it is free.
fn allocate(gpu: &Gpu, size: u64, index: u32) -> Result<vk::DeviceMemory, Error> {
    let kind = gpu.memory.memory_types[index as usize];
    if kind.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL) {
        gpu.check_room(&[("a buffer", size)])?;
    }
    let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
    let info = vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(index).push_next(&mut flags);
    // SAFETY: `info` lives through the call.
    unsafe { gpu.device.allocate_memory(&info, None) }.map_err(call("vkAllocateMemory"))
}

fn map(gpu: &Gpu, memory: vk::DeviceMemory) -> Result<Option<NonNull<u8>>, Error> {
    // SAFETY: fresh host-visible memory, mapped once, whole.
    let pointer = unsafe { gpu.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
    Ok(NonNull::new(pointer.map_err(call("vkMapMemory"))?.cast()))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The device may still write it, so it stays and counts.
        if self.gpu.is_stuck() {
            return;
        }
        let _lock = driver_lock();
        // SAFETY: owners wait for the device before they drop buffers.
        unsafe {
            self.gpu.device.destroy_buffer(self.handle, None);
            self.gpu.device.free_memory(self.memory, None);
        }
        self.gpu.allocated_bytes.fetch_sub(self.counted_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn what_others_hold_is_not_free() {
        let memory =
            |budget_bytes, usage_bytes| Memory { heap_bytes: 100, budget_bytes, usage_bytes, is_reported: true };
        // Budget, usage; free, others', over.
        for (budget, usage, free, others, is_over) in
            [(100, 0, 100, 0, false), (70, 50, 20, 30, false), (40, 40, 0, 60, false), (40, 60, 0, 40, true)]
        {
            let memory = memory(budget, usage);
            assert_eq!((memory.free_bytes(), memory.others_bytes(), memory.is_over()), (free, others, is_over));
        }
        let unreported = Memory { is_reported: false, ..memory(100, 120) };
        assert!(!unreported.is_over(), "our own sum says nothing about what the driver moved");
    }
}
