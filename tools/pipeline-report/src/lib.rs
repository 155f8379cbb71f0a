//! A Vulkan layer that writes down every compute pipeline that a program makes, with what the driver's compiler says of
//! it.
//!
//! `cargo xtask vulkan` puts it between the program and RADV. It sees the pipelines that the backend really makes: the
//! kernel's code, its specialization constants, the width asked for. Per pipeline one line of JSON is appended to the
//! file that `ZINC_PIPELINE_REPORT` names. It changes nothing but the flags that make a driver keep its statistics, and
//! it is loaded by `VK_INSTANCE_LAYERS` only.
//!
//! The layer's interface (the loader's `vk_layer.h`) is not in `ash`; [`link`] declares the part that we need.

#![allow(unsafe_code, reason = "a Vulkan layer is C functions called by the loader")]

mod link;
mod report;

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use ash::vk::{self, Handle};

use crate::link::{DeviceLink, InstanceLink, NegotiateLayerInterface};

type Create<Info, Made> =
    unsafe extern "system" fn(*const Info, *const vk::AllocationCallbacks<'_>, *mut Made) -> vk::Result;

/// What the layer remembers of an instance or a device.
struct Instance {
    handle: vk::Instance,
    next: vk::PFN_vkGetInstanceProcAddr,
}

struct Device {
    next: vk::PFN_vkGetDeviceProcAddr,
    device: ash::Device,
    statistics: Option<ash::khr::pipeline_executable_properties::DeviceFn>,
    /// Code of the modules made so far.
    modules: HashMap<vk::ShaderModule, Vec<u32>>,
}

/// By dispatch key. The loader's functions carry no other state, so a layer has no place for it but a static.
#[derive(Default)]
struct Known {
    instances: HashMap<usize, Instance>,
    devices: HashMap<usize, Device>,
}

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the handles of an instance, or of a device, have in common.
///
/// # Safety
/// `handle` must be a live dispatchable handle.
unsafe fn key(handle: impl Handle) -> usize {
    // SAFETY: a dispatchable handle points to an object that begins with the loader's dispatch pointer.
    unsafe { *(handle.as_raw() as *const usize) }
}

/// Where the loader begins.
///
/// # Safety
/// Called by the Vulkan loader with its own structure.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    interface: *mut NegotiateLayerInterface,
) -> vk::Result {
    // SAFETY: the loader passes a structure of its own.
    let interface = unsafe { &mut *interface };
    interface.version = 2;
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}

macro_rules! function {
    ($function:path as $type:ty) => {
        // SAFETY: function pointers of any type have one size; callers cast back by name.
        Some(unsafe { std::mem::transmute::<$type, unsafe extern "system" fn()>($function) })
    };
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetInstanceProcAddr" => function!(get_instance_proc_addr as vk::PFN_vkGetInstanceProcAddr),
        b"vkCreateInstance" => function!(create_instance as vk::PFN_vkCreateInstance),
        b"vkDestroyInstance" => function!(destroy_instance as vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => function!(create_device as vk::PFN_vkCreateDevice),
        other => {
            let own = own_device_function(other);
            if own.is_some() || instance.is_null() {
                return own;
            }
            // SAFETY: the handle is live, as the caller promises.
            let next = known().instances.get(&unsafe { key(instance) }).map(|i| i.next)?;
            // SAFETY: the next layer's function, with the caller's arguments.
            unsafe { next(instance, name) }
        }
    }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    let own = own_device_function(unsafe { CStr::from_ptr(name) }.to_bytes());
    if own.is_some() {
        return own;
    }
    // SAFETY: the handle is live, as the caller promises.
    let next = known().devices.get(&unsafe { key(device) }).map(|d| d.next)?;
    // SAFETY: the next layer's function, with the caller's arguments.
    unsafe { next(device, name) }
}

fn own_device_function(name: &[u8]) -> vk::PFN_vkVoidFunction {
    match name {
        b"vkGetDeviceProcAddr" => function!(get_device_proc_addr as vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => function!(destroy_device as vk::PFN_vkDestroyDevice),
        b"vkCreateShaderModule" => function!(create_shader_module as vk::PFN_vkCreateShaderModule),
        b"vkCreateComputePipelines" => function!(create_compute_pipelines as vk::PFN_vkCreateComputePipelines),
        _ => None,
    }
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader chains its link to the caller's structure.
    let Some(next) = (unsafe { InstanceLink::advance((*info).p_next) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the next layer gives its own functions.
    let Some(create) = (unsafe { next(vk::Instance::null(), c"vkCreateInstance".as_ptr()) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: that is what the name stands for; the arguments are the caller's.
    let result = unsafe {
        std::mem::transmute::<unsafe extern "system" fn(), Create<vk::InstanceCreateInfo<'_>, vk::Instance>>(create)(
            info, allocator, instance,
        )
    };
    if result == vk::Result::SUCCESS {
        // SAFETY: the instance was made.
        let (key, handle) = unsafe { (key(*instance), *instance) };
        known().instances.insert(key, Instance { handle, next });
    }
    result
}

unsafe extern "system" fn destroy_instance(instance: vk::Instance, allocator: *const vk::AllocationCallbacks<'_>) {
    if instance.is_null() {
        return;
    }
    // SAFETY: the handle is live until the call below.
    let Some(known) = known().instances.remove(&unsafe { key(instance) }) else { return };
    // SAFETY: the next layer's function, with the caller's arguments.
    unsafe {
        if let Some(destroy) = (known.next)(instance, c"vkDestroyInstance".as_ptr()) {
            std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyInstance>(destroy)(instance, allocator);
        }
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    const FAILED: vk::Result = vk::Result::ERROR_INITIALIZATION_FAILED;
    // SAFETY: the loader chains its link to the caller's structure.
    let Some((instance_next, next)) = (unsafe { DeviceLink::advance((*info).p_next) }) else { return FAILED };
    // SAFETY: physical devices share their instance's dispatch key.
    let Some(instance) = known().instances.get(&unsafe { key(physical) }).map(|i| i.handle) else { return FAILED };
    // SAFETY: the next layer gives its own functions.
    let Some(create) = (unsafe { instance_next(instance, c"vkCreateDevice".as_ptr()) }) else { return FAILED };
    // SAFETY: that is what the name stands for.
    let create = unsafe { std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateDevice>(create) };

    // The caller's structure with one more extension and its feature.
    let name = ash::khr::pipeline_executable_properties::NAME;
    let mut feature =
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    // SAFETY: the caller's structure lives through this call.
    let mut extended = unsafe { *info };
    // SAFETY: so do the names of its extensions.
    let names = unsafe { link::slice(extended.pp_enabled_extension_names, extended.enabled_extension_count) };
    let names: Vec<*const c_char> = names.iter().copied().chain([name.as_ptr()]).collect();
    feature.p_next = extended.p_next.cast_mut();
    extended.p_next = (&raw const feature).cast();
    extended.pp_enabled_extension_names = names.as_ptr();
    extended.enabled_extension_count += 1;
    // SAFETY: the structures live through the call.
    let mut result = unsafe { create(physical, &raw const extended, allocator, device) };
    let has_statistics = result == vk::Result::SUCCESS;
    if result == vk::Result::ERROR_EXTENSION_NOT_PRESENT {
        // SAFETY: the caller's own arguments.
        result = unsafe { create(physical, info, allocator, device) };
    }
    if result == vk::Result::SUCCESS {
        // SAFETY: the device was made.
        let handle = unsafe { *device };
        let load = |name: &CStr| {
            // SAFETY: the next layer's function with a live device.
            let function = unsafe { next(handle, name.as_ptr()) };
            function.map_or(std::ptr::null(), |f| f as *const std::ffi::c_void)
        };
        let made = Device {
            next,
            // SAFETY: the functions are those of this device.
            device: unsafe { ash::Device::load_with(load, handle) },
            statistics: has_statistics.then(|| ash::khr::pipeline_executable_properties::DeviceFn::load(load)),
            modules: HashMap::new(),
        };
        // SAFETY: the device is live.
        known().devices.insert(unsafe { key(handle) }, made);
    }
    result
}

unsafe extern "system" fn destroy_device(device: vk::Device, allocator: *const vk::AllocationCallbacks<'_>) {
    if device.is_null() {
        return;
    }
    // SAFETY: the handle is live until the call below.
    let Some(known) = known().devices.remove(&unsafe { key(device) }) else { return };
    // SAFETY: the next layer's function, with the caller's arguments.
    unsafe { (known.device.fp_v1_0().destroy_device)(device, allocator) };
}

unsafe extern "system" fn create_shader_module(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    let mut known = known();
    // SAFETY: the handle is live, as the caller promises.
    let Some(known) = known.devices.get_mut(&unsafe { key(device) }) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the next layer's function, with the caller's arguments.
    let result = unsafe { (known.device.fp_v1_0().create_shader_module)(device, info, allocator, module) };
    if result == vk::Result::SUCCESS {
        // SAFETY: the module was made from this code.
        let (handle, code) = unsafe { (*module, std::slice::from_raw_parts((*info).p_code, (*info).code_size / 4)) };
        known.modules.insert(handle, code.to_vec());
    }
    result
}

unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    let known = known();
    // SAFETY: the handle is live, as the caller promises.
    let Some(known) = known.devices.get(&unsafe { key(device) }) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the caller gives `count` structures.
    let mut infos = unsafe { link::slice(infos, count) }.to_vec();
    if known.statistics.is_some() {
        for info in &mut infos {
            info.flags |= vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        }
    }
    let create = known.device.fp_v1_0().create_compute_pipelines;
    // SAFETY: the caller's arguments but for the flags above.
    let result = unsafe { create(device, cache, count, infos.as_ptr(), allocator, pipelines) };
    if let (vk::Result::SUCCESS, Some(statistics)) = (result, &known.statistics) {
        // SAFETY: as many pipelines were made.
        let made = unsafe { link::slice(pipelines.cast_const(), count) };
        for (info, pipeline) in infos.iter().zip(made) {
            let code = known.modules.get(&info.stage.module).map_or(&[][..], Vec::as_slice);
            // SAFETY: the pipeline was just made with its statistics kept, from live structures.
            unsafe { report::append(device, statistics, info, *pipeline, code) };
        }
    }
    result
}
