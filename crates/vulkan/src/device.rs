//! The logical device with its one queue.
//!
//! A [`Gpu`] is opened by id, owns everything that the driver gave, and is freed last. It keeps the
//! first failure: a device that was lost fails every later call at once. Which devices there are
//! is the business of `candidate`, what they must have that of `features`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use ash::{Device, Entry, Instance, vk};

use crate::candidate::{self, Candidate};
use crate::error::{Error, Shortage};
use crate::features;
use crate::lost::{Cause, Lost, Work};
use crate::markers::{Markers, Present};
use crate::memory::Memory;

/// Allocations below this are not checked against the budget: it takes longer than they are worth.
const CHECKED_BYTES_MIN: u64 = 1 << 20;

/// What the kernels are tuned by.
#[derive(Clone, Debug)]
pub struct Traits {
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// Which driver.
    pub driver_id: vk::DriverId,
    /// Width that kernels are compiled for.
    pub subgroup_size: u32,
    /// Smallest and largest width that can be required.
    pub subgroup_range: (u32, u32),
    /// Shared memory of a workgroup, bytes.
    pub shared_bytes: u32,
    /// Workgroups of a launch, per axis.
    pub groups_max: [u32; 3],
    /// Threads of a workgroup.
    pub threads_max: u32,
    /// Side of an f16 x f16 -> f32 cooperative matrix tile, if there are any.
    pub matrix_tile: Option<u32>,
    /// Fewest columns of B where A has that side.
    pub matrix_tokens: Option<u32>,
    /// Dot products of four signed bytes are one instruction.
    pub has_integer_dot: bool,
    /// Largest single allocation.
    pub allocation_bytes_max: u64,
    /// Nanoseconds of a timestamp tick; 0 when there are none.
    pub timestamp_ns: f32,
    /// Device and host share one memory.
    pub is_unified: bool,
    /// The host writes the device's own memory directly: unified memory, or a BAR of that size where writing there is
    /// not known to be slower than copies.
    pub is_host_writable: bool,
    /// The driver tells how much memory is free; without that only our own use is known.
    pub has_memory_budget: bool,
}

/// A logical device with its queue.
pub struct Gpu {
    /// The device chosen.
    pub candidate: Candidate,
    /// What it can do.
    pub traits: Traits,
    /// Device functions.
    pub device: Device,
    /// The compute queue, which one thread may use at a time.
    pub queue: Mutex<vk::Queue>,
    /// Its family.
    pub queue_family: u32,
    /// Memory types and heaps.
    pub memory: vk::PhysicalDeviceMemoryProperties,
    /// Bytes of device-local memory that our buffers hold.
    pub(crate) allocated_bytes: AtomicU64,
    /// How a step notes how far it has come.
    pub(crate) markers: Markers,
    lost: OnceLock<Lost>,
    instance: Instance,
    // Keeps the loader's library open.
    _entry: Entry,
}

/// What opening a device gives: also its queue's family.
type Opened = (Candidate, Traits, Device, u32, Markers);

/// Every device that can be used, best first: discrete, integrated, virtual, then CPU drivers.
///
/// # Errors
/// As [`devices`].
pub fn candidates() -> Result<Vec<Candidate>, Error> {
    Ok(devices()?.into_iter().filter(|c| c.problem.is_none()).collect())
}

/// Every device: first those of [`candidates`] in that order, then those that cannot be used.
///
/// # Errors
/// No loader, no driver, or a failing one.
pub fn devices() -> Result<Vec<Candidate>, Error> {
    let _lock = candidate::driver_lock();
    let (_entry, instance) = candidate::instance()?;
    let found = candidate::list(&instance);
    // SAFETY: nothing made from the instance is alive.
    unsafe { instance.destroy_instance(None) };
    found
}

impl Gpu {
    /// Opens the device of that id: one that [`devices`] lists, `vulkan:` with a PCI address or the beginning of a
    /// UUID, or `vulkan` for the best GPU.
    ///
    /// # Errors
    /// No loader, no such device, or one that lacks what the kernels need.
    pub fn open(id: &str) -> Result<Gpu, Error> {
        let _lock = candidate::driver_lock();
        let (entry, instance) = candidate::instance()?;
        match Self::open_on(&entry, &instance, id) {
            Ok((candidate, traits, device, queue_family, markers)) => {
                // SAFETY: family and index are those that the device was made with.
                let queue = Mutex::new(unsafe { device.get_device_queue(queue_family, 0) });
                // SAFETY: the handle comes from this instance.
                let memory = unsafe { instance.get_physical_device_memory_properties(candidate.handle) };
                let (allocated_bytes, lost) = (AtomicU64::new(0), OnceLock::new());
                Ok(Gpu {
                    candidate,
                    traits,
                    device,
                    queue,
                    queue_family,
                    memory,
                    allocated_bytes,
                    markers,
                    lost,
                    instance,
                    _entry: entry,
                })
            }
            Err(error) => {
                // SAFETY: nothing made from the instance is alive.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }

    fn open_on(entry: &Entry, instance: &Instance, id: &str) -> Result<Opened, Error> {
        let devices = candidate::list(instance)?;
        let candidate = candidate::find(&devices, id)?.clone();
        if let Some(problem) = candidate.problem {
            return Err(problem);
        }
        let Some((family, properties)) = features::compute_family(instance, candidate.handle) else {
            return Err(Error::Missing { device: candidate.name, missing: "compute queue" });
        };
        let traits = features::traits(entry, instance, &candidate, properties.timestamp_valid_bits)?;
        let present = Present::on(instance, candidate.handle)?;
        let device = features::create_device(instance, &candidate, &traits, family, present)?;
        let markers = Markers::new(present, instance, &device);
        Ok((candidate, traits, device, family, markers))
    }

    /// The memory type that has `wanted` and, if possible, `preferred`.
    #[must_use]
    pub fn memory_type(
        &self,
        allowed: u32,
        wanted: vk::MemoryPropertyFlags,
        preferred: vk::MemoryPropertyFlags,
    ) -> Option<u32> {
        let types = &self.memory.memory_types[..self.memory.memory_type_count as usize];
        let fits = |flags: vk::MemoryPropertyFlags| {
            (0u32..)
                .zip(types)
                .find(|(i, t)| allowed & (1 << i) != 0 && t.property_flags.contains(flags))
                .map(|(i, _)| i)
        };
        fits(wanted | preferred).or_else(|| fits(wanted))
    }

    /// Device-local memory as it is now: size, what this process may hold, what it holds.
    #[must_use]
    pub fn memory_now(&self) -> Memory {
        let own = self.allocated_bytes.load(Ordering::Relaxed);
        Memory::of(&self.instance, self.candidate.handle, self.traits.has_memory_budget, own)
    }

    /// Refuses device-local memory that the device has not free, before the driver gives something slower in its place.
    ///
    /// # Errors
    /// [`Error::Memory`] with the numbers.
    pub(crate) fn check_room(&self, parts: &[(&'static str, u64)]) -> Result<(), Error> {
        let needed = parts.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if needed < CHECKED_BYTES_MIN {
            return Ok(());
        }
        let memory = self.memory_now();
        if needed <= memory.free_bytes() {
            return Ok(());
        }
        Err(Error::Memory(Box::new(Shortage { device: self.candidate.name.clone(), parts: parts.to_vec(), memory })))
    }

    /// Refuses to go on where the driver has taken more than it has: something then lies in slower memory.
    ///
    /// # Errors
    /// [`Error::Spilled`] with the numbers.
    pub(crate) fn check_kept(&self) -> Result<(), Error> {
        let memory = self.memory_now();
        if memory.is_over() { Err(Error::Spilled { device: self.candidate.name.clone(), memory }) } else { Ok(()) }
    }

    /// The error of one allocation of more bytes than the device takes.
    pub(crate) fn too_large(&self, what: &'static str, needed: u64) -> Error {
        let device = self.candidate.name.clone();
        Error::TooLarge { device, what, needed, most: self.traits.allocation_bytes_max }
    }

    /// Notes that the device stopped; returns the error of this and of every later call. The first cause stands.
    pub fn lose(&self, cause: Cause, in_flight: Option<(Work, u32, u32)>) -> Error {
        let device = self.candidate.name.clone();
        let vendor_id = self.traits.vendor_id;
        let lost = self.lost.get_or_init(|| Lost { device, vendor_id, cause, in_flight, fault: None });
        Error::Lost(Box::new(lost.clone()))
    }

    /// The same where the driver has given the device up, with what it says of that.
    pub(crate) fn given_up(&self, in_flight: Option<(Work, u32, u32)>) -> Error {
        let (device, vendor_id) = (self.candidate.name.clone(), self.traits.vendor_id);
        let lost = self.lost.get_or_init(|| {
            let fault = self.markers.fault();
            Lost { device, vendor_id, cause: Cause::Lost, in_flight, fault }
        });
        Error::Lost(Box::new(lost.clone()))
    }

    /// Refuses work for a device that has stopped.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn check_alive(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |lost| Err(Error::Lost(Box::new(lost.clone()))))
    }

    /// Whether the device may still run work that did not end in time. Nothing is freed then: `vkDestroyDevice` of
    /// NVIDIA's driver waits for that work for ever, and what is freed may still be written. What belongs to such a
    /// device is leaked on purpose; the system takes it back when the process ends. A device that the driver has
    /// given up runs nothing any more.
    pub(crate) fn is_stuck(&self) -> bool {
        self.lost.get().is_some_and(|lost| matches!(lost.cause, Cause::Timeout(_)))
    }

    /// A failed call's error; a lost device is noted.
    pub(crate) fn failed(&self, error: Error) -> Error {
        match error {
            Error::Call { result: vk::Result::ERROR_DEVICE_LOST, .. } => self.given_up(None),
            error => error,
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // An instance may not be destroyed before its devices.
        if self.is_stuck() {
            return;
        }
        let _lock = candidate::driver_lock();
        // SAFETY: every object of the device is owned by something that is dropped before the `Gpu`.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
