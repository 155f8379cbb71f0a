//! The loader's side of a layer: the structures by which a layer finds the next one. Names and values are those of the
//! loader's `vk_layer.h`, which is a stable interface.

use std::ffi::c_void;

use ash::vk;

/// `VkNegotiateLayerInterface`, version 2.
#[repr(C)]
#[derive(Debug)]
pub struct NegotiateLayerInterface {
    s_type: i32,
    p_next: *mut c_void,
    /// Version of the interface that the layer speaks.
    pub version: u32,
    /// The layer's functions.
    pub get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// The layer's functions of a device.
    pub get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    /// The layer's own functions of a physical device: there are none.
    pub get_physical_device_proc_addr: Option<unsafe extern "system" fn()>,
}

/// `VK_LAYER_LINK_INFO`.
const LINK_INFO: i32 = 0;

/// The head of both link structures.
#[repr(C)]
struct Link<Info> {
    s_type: vk::StructureType,
    p_next: *const c_void,
    function: i32,
    info: *mut Info,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
pub(crate) struct InstanceLink {
    p_next: *mut InstanceLink,
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    get_physical_device_proc_addr: Option<unsafe extern "system" fn()>,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
pub(crate) struct DeviceLink {
    p_next: *mut DeviceLink,
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    get_device_proc_addr: vk::PFN_vkGetDeviceProcAddr,
}

impl InstanceLink {
    /// The next layer's entry; the chain then names the one after it.
    ///
    /// # Safety
    /// `chain` must be the chain that the loader passes to `vkCreateInstance`.
    pub(crate) unsafe fn advance(chain: *const c_void) -> Option<vk::PFN_vkGetInstanceProcAddr> {
        // SAFETY: as the caller promises.
        unsafe {
            let link = find::<InstanceLink>(chain, vk::StructureType::LOADER_INSTANCE_CREATE_INFO)?;
            let info = (*link).info;
            (*link).info = (*info).p_next;
            Some((*info).get_instance_proc_addr)
        }
    }
}

impl DeviceLink {
    /// The next layer's entries; the chain then names the one after it.
    ///
    /// # Safety
    /// `chain` must be the chain that the loader passes to `vkCreateDevice`.
    pub(crate) unsafe fn advance(
        chain: *const c_void,
    ) -> Option<(vk::PFN_vkGetInstanceProcAddr, vk::PFN_vkGetDeviceProcAddr)> {
        // SAFETY: as the caller promises.
        unsafe {
            let link = find::<DeviceLink>(chain, vk::StructureType::LOADER_DEVICE_CREATE_INFO)?;
            let info = (*link).info;
            (*link).info = (*info).p_next;
            Some(((*info).get_instance_proc_addr, (*info).get_device_proc_addr))
        }
    }
}

/// The link among the structures of a chain.
///
/// # Safety
/// `chain` must be a chain of Vulkan structures, `Info` the one that `s_type` stands for.
unsafe fn find<Info>(chain: *const c_void, s_type: vk::StructureType) -> Option<*mut Link<Info>> {
    let mut at = chain.cast::<vk::BaseInStructure<'_>>();
    while !at.is_null() {
        let link = at.cast_mut().cast::<Link<Info>>();
        // SAFETY: every structure of a chain begins with its type and the next one's address.
        unsafe {
            if (*at).s_type == s_type && (*link).function == LINK_INFO {
                return Some(link);
            }
            at = (*at).p_next.cast();
        }
    }
    None
}

/// An array of the API, which may be absent when it is empty.
///
/// # Safety
/// `first` must be the first of `count` elements.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}
