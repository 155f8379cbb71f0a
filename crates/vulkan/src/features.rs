//! What a device must have, what it may have, and the logical device made with it.
//!
//! Everything that a kernel may rely on is checked here, once; each missing thing has its name in the error.

use std::ffi::{CStr, c_char};

use ash::{Device, Entry, Instance, vk};

use crate::candidate::{API, Candidate, has_extension};
use crate::device::Traits;
use crate::error::{Error, call};
use crate::markers::Present;
use crate::tuning::NVIDIA;

/// Whether the kernels run on a device at all.
pub(crate) fn check(instance: &Instance, device: vk::PhysicalDevice, name: &str, version: u32) -> Result<(), Error> {
    if version < API {
        let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
        return Err(Error::TooOld { device: name.to_owned(), major, minor });
    }
    let missing = missing_feature(instance, device).or_else(|| missing_limit(instance, device));
    match missing {
        Some(missing) => Err(Error::Missing { device: name.to_owned(), missing }),
        None => Ok(()),
    }
}

/// The first feature that every kernel may use and this device lacks, with its name for people.
fn missing_feature(instance: &Instance, device: vk::PhysicalDevice) -> Option<&'static str> {
    let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut features =
        vk::PhysicalDeviceFeatures2::default().push_next(&mut v11).push_next(&mut v12).push_next(&mut v13);
    // SAFETY: the chain is made of structures that Vulkan 1.3 knows.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
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
        (v13.maintenance4, "maintenance4"),
        (v13.shader_integer_dot_product, "integer dot products"),
    ];
    needed.iter().find(|(present, _)| *present == vk::FALSE).map(|(_, missing)| *missing)
}

fn missing_limit(instance: &Instance, device: vk::PhysicalDevice) -> Option<&'static str> {
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v11);
    // SAFETY: the chain is made of structures that Vulkan 1.2 knows.
    unsafe { instance.get_physical_device_properties2(device, &mut properties) };
    let push_bytes = properties.properties.limits.max_push_constants_size;
    let subgroups =
        vk::SubgroupFeatureFlags::ARITHMETIC | vk::SubgroupFeatureFlags::SHUFFLE | vk::SubgroupFeatureFlags::BALLOT;
    let needed = [
        (v11.subgroup_supported_operations.contains(subgroups), "subgroup arithmetic and shuffles"),
        (push_bytes >= 128, "128 bytes of push constants"),
        (compute_family(instance, device).is_some(), "compute queue"),
    ];
    needed.iter().find(|(present, _)| !present).map(|(_, missing)| *missing)
}

/// The family of the queue to use, and its properties: one for compute alone where there is one.
pub(crate) fn compute_family(
    instance: &Instance,
    device: vk::PhysicalDevice,
) -> Option<(u32, vk::QueueFamilyProperties)> {
    // SAFETY: the handle comes from this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(device) };
    let compute = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let numbered = || (0u32..).zip(families.iter().copied()).filter(|(_, f)| compute(f));
    numbered().find(|(_, f)| !f.queue_flags.contains(vk::QueueFlags::GRAPHICS)).or_else(|| numbered().next())
}

pub(crate) fn create_device(
    instance: &Instance,
    candidate: &Candidate,
    traits: &Traits,
    family: u32,
    present: Present,
) -> Result<Device, Error> {
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
    let mut fault = vk::PhysicalDeviceFaultFeaturesEXT::default().device_fault(true);
    let mut names: Vec<*const c_char> = present.names().map(CStr::as_ptr).collect();
    let mut create = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&core)
        .push_next(&mut v11)
        .push_next(&mut v12)
        .push_next(&mut v13);
    if traits.matrix_tile.is_some() {
        names.push(ash::khr::cooperative_matrix::NAME.as_ptr());
        create = create.push_next(&mut matrix);
    }
    if present.fault {
        create = create.push_next(&mut fault);
    }
    let create = create.enabled_extension_names(&names);
    // SAFETY: everything that `create` points to lives through the call.
    unsafe { instance.create_device(candidate.handle, &create, None) }.map_err(call("vkCreateDevice"))
}

pub(crate) fn traits(
    entry: &Entry,
    instance: &Instance,
    candidate: &Candidate,
    timestamp_bits: u32,
) -> Result<Traits, Error> {
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut v13);
    // SAFETY: the chain is made of structures that Vulkan 1.3 knows.
    unsafe { instance.get_physical_device_properties2(candidate.handle, &mut properties) };
    let limits = properties.properties.limits;
    // SAFETY: the handle comes from this instance.
    let memory = unsafe { instance.get_physical_device_memory_properties(candidate.handle) };
    // A write-combined window into such a card may be slow in a virtual machine; its copies are fast everywhere.
    let copies_better = candidate.vendor_id == NVIDIA && candidate.kind == vk::PhysicalDeviceType::DISCRETE_GPU;
    let matrices = matrix_sides(entry, instance, candidate.handle)?;
    let (matrix_tile, matrix_tokens) = matrices.unzip();
    let range = (v13.min_subgroup_size, v13.max_subgroup_size);
    Ok(Traits {
        vendor_id: candidate.vendor_id,
        device_id: candidate.device_id,
        driver_id: candidate.driver_id,
        subgroup_size: crate::tuning::subgroup_size(candidate.vendor_id, v11.subgroup_size, range),
        subgroup_range: range,
        shared_bytes: limits.max_compute_shared_memory_size,
        groups_max: limits.max_compute_work_group_count,
        threads_max: limits.max_compute_work_group_invocations,
        matrix_tile,
        matrix_tokens,
        has_integer_dot: v13.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
        allocation_bytes_max: v11.max_memory_allocation_size.min(v13.max_buffer_size),
        timestamp_ns: if timestamp_bits > 0 { limits.timestamp_period } else { 0.0 },
        is_unified: candidate.kind == vk::PhysicalDeviceType::INTEGRATED_GPU || candidate.is_cpu(),
        is_host_writable: is_host_writable(&memory) && !copies_better,
        has_memory_budget: candidate.memory.is_reported,
    })
}

/// Whether the host can write all of the device's own memory: unified memory, or a BAR of that size.
fn is_host_writable(memory: &vk::PhysicalDeviceMemoryProperties) -> bool {
    use vk::MemoryPropertyFlags as Flags;
    let wanted = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let heaps = &memory.memory_heaps[..memory.memory_heap_count as usize];
    let local = heaps.iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let largest = local.map(|h| h.size).max().unwrap_or(0);
    let types = &memory.memory_types[..memory.memory_type_count as usize];
    types.iter().any(|t| t.property_flags.contains(wanted) && heaps[t.heap_index as usize].size >= largest)
}

/// Side of the square f16 x f16 -> f32 tile of subgroup scope, and the fewest columns that its second matrix may have, if
/// cooperative matrices can be used: a driver may name the extension and yet lack the feature.
fn matrix_sides(entry: &Entry, instance: &Instance, device: vk::PhysicalDevice) -> Result<Option<(u32, u32)>, Error> {
    if !has_extension(instance, device, ash::khr::cooperative_matrix::NAME)? {
        return Ok(None);
    }
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut matrix);
    // SAFETY: the chain is made of structures that this device knows.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
    if matrix.cooperative_matrix == vk::FALSE {
        return Ok(None);
    }
    let matrices = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the extension is present on this device.
    let shapes = unsafe { matrices.get_physical_device_cooperative_matrix_properties(device) };
    let shapes = shapes.map_err(call("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"))?;
    let half = vk::ComponentTypeKHR::FLOAT16;
    let single = vk::ComponentTypeKHR::FLOAT32;
    let is_ours = |s: &&vk::CooperativeMatrixPropertiesKHR<'_>| {
        s.a_type == half
            && s.b_type == half
            && s.c_type == single
            && s.result_type == single
            && s.scope == vk::ScopeKHR::SUBGROUP
            && s.m_size == s.k_size
    };
    let Some(tile) = shapes.iter().filter(is_ours).find(|s| s.n_size == s.m_size) else { return Ok(None) };
    let of_its_side = shapes.iter().filter(is_ours).filter(|s| s.m_size == tile.m_size && s.n_size <= tile.m_size);
    Ok(of_its_side.map(|s| s.n_size).min().map(|tokens| (tile.m_size, tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_written_directly_only_where_all_of_it_can_be() {
        use vk::MemoryPropertyFlags as Flags;
        let mapped = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let check = |heaps: &[u64], types: &[(Flags, u32)]| {
            let mut memory = vk::PhysicalDeviceMemoryProperties {
                memory_heap_count: u32::try_from(heaps.len()).unwrap(),
                memory_type_count: u32::try_from(types.len()).unwrap(),
                ..Default::default()
            };
            for (to, &size) in memory.memory_heaps.iter_mut().zip(heaps) {
                *to = vk::MemoryHeap { size, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
            }
            for (to, &(property_flags, heap_index)) in memory.memory_types.iter_mut().zip(types) {
                *to = vk::MemoryType { property_flags, heap_index };
            }
            is_host_writable(&memory)
        };
        let small_bar = check(&[16 << 30, 256 << 20], &[(Flags::DEVICE_LOCAL, 0), (mapped, 1)]);
        assert!(!small_bar, "a window of 256 MiB holds no model");
        assert!(check(&[16 << 30], &[(Flags::DEVICE_LOCAL, 0), (mapped, 0)]));
        assert!(!check(&[16 << 30], &[(Flags::DEVICE_LOCAL, 0)]));
    }
}
