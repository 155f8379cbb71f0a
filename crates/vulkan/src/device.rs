//! Instance, device choice, features and the one queue.
//!
//! Everything that a kernel may rely on is checked here, once; each missing thing has its name in
//! the error. A [`Gpu`] owns the logical device and is freed last.

#![allow(clippy::cast_possible_truncation, reason = "indices into the few queue families of a device")]

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use ash::{Device, Entry, Instance, vk};

use crate::error::{Error, call};

/// A device that could be used.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// `vulkan:0`, in the order of preference.
    pub id: String,
    /// The driver's name of the device.
    pub name: String,
    /// Driver name and version, for reports.
    pub driver: String,
    /// Discrete, integrated, virtual or CPU.
    pub kind: vk::PhysicalDeviceType,
    /// PCI vendor.
    pub vendor_id: u32,
    /// Bytes of device-local memory.
    pub memory_bytes: u64,
    handle: vk::PhysicalDevice,
}

/// What the kernels are tuned by.
#[derive(Clone, Debug)]
pub struct Traits {
    /// PCI vendor.
    pub vendor_id: u32,
    /// Width that kernels are compiled for.
    pub subgroup_size: u32,
    /// Smallest and largest width that can be required.
    pub subgroup_range: (u32, u32),
    /// Shared memory of a workgroup, bytes.
    pub shared_bytes: u32,
    /// Workgroups of a launch, per axis.
    pub groups_max: [u32; 3],
    /// Side of an f16 x f16 -> f32 cooperative matrix tile, if there are any.
    pub matrix_tile: Option<u32>,
    /// Largest single allocation.
    pub allocation_bytes_max: u64,
    /// Nanoseconds of a timestamp tick; 0 when there are none.
    pub timestamp_ns: f32,
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
    instance: Instance,
    // Keeps the loader's library open.
    _entry: Entry,
}

const API: u32 = vk::API_VERSION_1_3;

/// Every device that runs Vulkan 1.3, best first: discrete, integrated, virtual, then CPU drivers.
///
/// # Errors
/// No loader, or a failing driver.
pub fn candidates() -> Result<Vec<Candidate>, Error> {
    let (_entry, instance) = instance()?;
    let found = list(&instance);
    // SAFETY: nothing made from the instance is alive.
    unsafe { instance.destroy_instance(None) };
    found
}

fn instance() -> Result<(Entry, Instance), Error> {
    // SAFETY: loading the system's Vulkan loader runs its initialisers, as for any program that uses it.
    let entry = unsafe { Entry::load() }.map_err(|e| Error::NoLoader(e.to_string()))?;
    let application = vk::ApplicationInfo::default().application_name(c"zinc").api_version(API);
    let create = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: `create` and what it points to live through the call.
    let instance = unsafe { entry.create_instance(&create, None) }.map_err(call("vkCreateInstance"))?;
    Ok((entry, instance))
}

fn list(instance: &Instance) -> Result<Vec<Candidate>, Error> {
    // SAFETY: the instance is alive.
    let handles = unsafe { instance.enumerate_physical_devices() }.map_err(call("vkEnumeratePhysicalDevices"))?;
    let mut found = Vec::new();
    for handle in handles {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the chain is made of structures that Vulkan 1.2 knows.
        unsafe { instance.get_physical_device_properties2(handle, &mut properties) };
        let properties = properties.properties;
        if properties.api_version < API {
            continue;
        }
        // SAFETY: the handle comes from this instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(handle) };
        let heaps = &memory.memory_heaps[..memory.memory_heap_count as usize];
        let local = heaps.iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        found.push(Candidate {
            id: String::new(),
            name: text(&properties.device_name),
            driver: format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)),
            kind: properties.device_type,
            vendor_id: properties.vendor_id,
            memory_bytes: local.map(|h| h.size).max().unwrap_or(0),
            handle,
        });
    }
    found.sort_by_key(|c| match c.kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::CPU => 3,
        _ => 2,
    });
    for (index, candidate) in found.iter_mut().enumerate() {
        candidate.id = format!("vulkan:{index}");
    }
    Ok(found)
}

fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Gpu {
    /// Opens the device of that id.
    ///
    /// # Errors
    /// No loader, no such device, or one that lacks what the kernels need.
    pub fn open(id: &str) -> Result<Gpu, Error> {
        let (entry, instance) = instance()?;
        let opened = Self::open_on(&instance, id);
        match opened {
            Ok((candidate, traits, device, queue_family)) => {
                // SAFETY: family and index are those that the device was made with.
                let queue = Mutex::new(unsafe { device.get_device_queue(queue_family, 0) });
                // SAFETY: the handle comes from this instance.
                let memory = unsafe { instance.get_physical_device_memory_properties(candidate.handle) };
                Ok(Gpu { candidate, traits, device, queue, queue_family, memory, instance, _entry: entry })
            }
            Err(error) => {
                // SAFETY: nothing made from the instance is alive.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }

    fn open_on(instance: &Instance, id: &str) -> Result<(Candidate, Traits, Device, u32), Error> {
        let candidate =
            list(instance)?.into_iter().find(|c| c.id == id).ok_or_else(|| Error::NoDevice { id: id.to_owned() })?;
        // SAFETY: the handle comes from this instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(candidate.handle) };
        let compute = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE);
        let family = families.iter().position(|f| compute(f) && !f.queue_flags.contains(vk::QueueFlags::GRAPHICS));
        let family = family.or_else(|| families.iter().position(compute));
        let Some(family) = family else {
            return Err(Error::Missing { device: candidate.name, missing: "compute queue" });
        };
        check_features(instance, &candidate)?;
        let has_matrices = has_matrices(instance, candidate.handle)?;
        let traits = traits(instance, &candidate, &families[family], has_matrices)?;
        let device = create_device(instance, &candidate, family as u32, traits.matrix_tile.is_some())?;
        Ok((candidate, traits, device, family as u32))
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
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: every object of the device is owned by something that is dropped before the `Gpu`.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

fn has_extension(instance: &Instance, device: vk::PhysicalDevice, name: &CStr) -> Result<bool, Error> {
    // SAFETY: the handle comes from this instance.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) };
    let extensions = extensions.map_err(call("vkEnumerateDeviceExtensionProperties"))?;
    Ok(extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
}

/// Whether cooperative matrices can be used: a driver may name the extension and yet lack the feature.
fn has_matrices(instance: &Instance, device: vk::PhysicalDevice) -> Result<bool, Error> {
    if !has_extension(instance, device, ash::khr::cooperative_matrix::NAME)? {
        return Ok(false);
    }
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut matrix);
    // SAFETY: the chain is made of structures that this device knows.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
    Ok(matrix.cooperative_matrix == vk::TRUE)
}

/// The features that every kernel may use, each with its name for people.
fn check_features(instance: &Instance, candidate: &Candidate) -> Result<(), Error> {
    let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut features =
        vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12).push_next(&mut v13);
    // SAFETY: the chain is made of structures that Vulkan 1.3 knows.
    unsafe { instance.get_physical_device_features2(candidate.handle, &mut features) };
    let int16 = features.features.shader_int16;
    let needed = [
        (v11.storage_buffer16_bit_access, "16-bit storage"),
        (v12.storage_buffer8_bit_access, "8-bit storage"),
        (v12.shader_int8, "8-bit integers in shaders"),
        (v12.shader_float16, "16-bit floats in shaders"),
        (int16, "16-bit integers in shaders"),
        (v12.buffer_device_address, "buffer device addresses"),
        (v12.scalar_block_layout, "scalar block layout"),
        (v12.timeline_semaphore, "timeline semaphores"),
        (v12.vulkan_memory_model, "the Vulkan memory model"),
        (v12.vulkan_memory_model_device_scope, "the Vulkan memory model at device scope"),
        (v13.synchronization2, "synchronization2"),
        (v13.subgroup_size_control, "subgroup size control"),
        (v13.compute_full_subgroups, "full subgroups"),
        (v13.shader_integer_dot_product, "integer dot products"),
    ];
    match needed.iter().find(|(present, _)| *present == vk::FALSE) {
        Some((_, missing)) => Err(Error::Missing { device: candidate.name.clone(), missing }),
        None => Ok(()),
    }
}

fn create_device(instance: &Instance, candidate: &Candidate, family: u32, matrices: bool) -> Result<Device, Error> {
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
    let core = vk::PhysicalDeviceFeatures::default().shader_int16(true);
    let mut v11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
        .storage_buffer8_bit_access(true)
        .shader_int8(true)
        .shader_float16(true)
        .buffer_device_address(true)
        .scalar_block_layout(true)
        .timeline_semaphore(true)
        .vulkan_memory_model(true)
        .vulkan_memory_model_device_scope(true);
    let mut v13 = vk::PhysicalDeviceVulkan13Features::default()
        .synchronization2(true)
        .subgroup_size_control(true)
        .compute_full_subgroups(true)
        .shader_integer_dot_product(true)
        .maintenance4(true);
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
    let names = [ash::khr::cooperative_matrix::NAME.as_ptr()];
    let mut create = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&core)
        .push_next(&mut v11)
        .push_next(&mut v12)
        .push_next(&mut v13);
    if matrices {
        create = create.enabled_extension_names(&names).push_next(&mut matrix);
    }
    // SAFETY: everything that `create` points to lives through the call.
    unsafe { instance.create_device(candidate.handle, &create, None) }.map_err(call("vkCreateDevice"))
}

fn traits(
    instance: &Instance,
    candidate: &Candidate,
    family: &vk::QueueFamilyProperties,
    has_matrices: bool,
) -> Result<Traits, Error> {
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v13);
    // SAFETY: the chain is made of structures that Vulkan 1.3 knows.
    unsafe { instance.get_physical_device_properties2(candidate.handle, &mut properties) };
    let limits = properties.properties.limits;
    let needed =
        vk::SubgroupFeatureFlags::ARITHMETIC | vk::SubgroupFeatureFlags::SHUFFLE | vk::SubgroupFeatureFlags::BALLOT;
    if !v11.subgroup_supported_operations.contains(needed) {
        return Err(Error::Missing { device: candidate.name.clone(), missing: "subgroup arithmetic and shuffles" });
    }
    if limits.max_push_constants_size < 128 {
        return Err(Error::Missing { device: candidate.name.clone(), missing: "128 bytes of push constants" });
    }
    let range = (v13.min_subgroup_size, v13.max_subgroup_size);
    Ok(Traits {
        vendor_id: candidate.vendor_id,
        subgroup_size: crate::tuning::subgroup_size(candidate.vendor_id, v11.subgroup_size, range),
        subgroup_range: range,
        shared_bytes: limits.max_compute_shared_memory_size,
        groups_max: limits.max_compute_work_group_count,
        matrix_tile: if has_matrices { matrix_tile(instance, candidate.handle)? } else { None },
        allocation_bytes_max: v11.max_memory_allocation_size.min(v13.max_buffer_size),
        timestamp_ns: if family.timestamp_valid_bits > 0 { limits.timestamp_period } else { 0.0 },
    })
}

/// Side of the square f16 x f16 -> f32 tile of subgroup scope.
fn matrix_tile(instance: &Instance, device: vk::PhysicalDevice) -> Result<Option<u32>, Error> {
    // SAFETY: loads a device extension function of this instance.
    let entry = unsafe { Entry::load() }.map_err(|e| Error::NoLoader(e.to_string()))?;
    let matrices = ash::khr::cooperative_matrix::Instance::new(&entry, instance);
    // SAFETY: the extension is present on this device.
    let shapes = unsafe { matrices.get_physical_device_cooperative_matrix_properties(device) };
    let shapes = shapes.map_err(call("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"))?;
    let half = vk::ComponentTypeKHR::FLOAT16;
    let single = vk::ComponentTypeKHR::FLOAT32;
    let tile = shapes.iter().find(|s| {
        s.a_type == half
            && s.b_type == half
            && s.c_type == single
            && s.result_type == single
            && s.scope == vk::ScopeKHR::SUBGROUP
            && s.m_size == s.n_size
            && s.n_size == s.k_size
    });
    Ok(tile.map(|s| s.m_size))
}
