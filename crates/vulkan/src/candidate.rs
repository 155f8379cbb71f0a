//! The devices of this machine: their order, their ids, and which one to take.
//!
//! A device that cannot be used is listed too, with what it lacks. Ids: `vulkan:0` in the order of
//! preference; `vulkan:0000:03:00.0` by PCI address and `vulkan:1f2e…` by the first digits of the
//! UUID, which stay the same whatever else is plugged in.

use std::cmp::Reverse;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::{Entry, Instance, vk};

use crate::error::{Error, call};
use crate::features;
use crate::memory::Memory;

/// The least Vulkan version that the kernels run on.
pub(crate) const API: u32 = vk::API_VERSION_1_3;
/// Fewest digits of a UUID that name a device.
const UUID_DIGITS_MIN: usize = 4;

/// A driver, as far as that changes the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// Mesa's for AMD.
    Radv,
    /// AMD's own, open (AMDVLK) or not.
    Amdvlk,
    /// Mesa's for Intel.
    Anv,
    /// NVIDIA's own.
    Nvidia,
    /// Mesa's for NVIDIA.
    Nvk,
    /// Mesa's for the CPU.
    Lavapipe,
    /// Another.
    Other,
}

/// A device of this machine.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// `vulkan:0`, in the order of preference.
    pub id: String,
    /// The driver's name of the device.
    pub name: String,
    /// Driver name and version, for reports.
    pub driver: String,
    /// Which driver.
    pub driver_id: vk::DriverId,
    /// Vulkan version: major, minor, patch.
    pub api: (u32, u32, u32),
    /// Discrete, integrated, virtual or CPU.
    pub kind: vk::PhysicalDeviceType,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// PCI address (`0000:03:00.0`), if the driver tells.
    pub pci: Option<String>,
    /// UUID in hexadecimal digits.
    pub uuid: String,
    /// What compiled pipelines depend on: the driver's build and the device, in hexadecimal digits.
    pub pipeline_uuid: String,
    /// Device-local memory, as it was when the devices were listed.
    pub memory: Memory,
    /// Bytes of device-local memory.
    pub memory_bytes: u64,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<Error>,
    pub(crate) handle: vk::PhysicalDevice,
}

impl Candidate {
    /// Discrete GPU, integrated GPU, ..., for people.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => "discrete GPU",
            vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated GPU",
            vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual GPU",
            vk::PhysicalDeviceType::CPU => "CPU driver",
            _ => "other device",
        }
    }

    /// Shares its memory with the CPU.
    #[must_use]
    pub fn is_integrated(&self) -> bool {
        self.kind == vk::PhysicalDeviceType::INTEGRATED_GPU
    }

    /// Which driver it is, as far as that changes the advice.
    #[must_use]
    pub fn driver_kind(&self) -> DriverKind {
        match self.driver_id {
            vk::DriverId::MESA_RADV => DriverKind::Radv,
            vk::DriverId::AMD_OPEN_SOURCE | vk::DriverId::AMD_PROPRIETARY => DriverKind::Amdvlk,
            vk::DriverId::INTEL_OPEN_SOURCE_MESA => DriverKind::Anv,
            vk::DriverId::NVIDIA_PROPRIETARY => DriverKind::Nvidia,
            vk::DriverId::MESA_NVK => DriverKind::Nvk,
            vk::DriverId::MESA_LLVMPIPE => DriverKind::Lavapipe,
            _ => DriverKind::Other,
        }
    }

    /// Runs on the CPU: taken only when asked for by its id.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.kind == vk::PhysicalDeviceType::CPU
    }

    /// The order of preference. Memory tells cards apart, the PCI address two alike.
    fn rank(&self) -> impl Ord + use<> {
        let kind = match self.kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => 0,
            vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
            vk::PhysicalDeviceType::CPU => 3,
            _ => 2,
        };
        (self.problem.is_some(), kind, Reverse(self.memory_bytes), self.pci.clone(), self.uuid.clone())
    }
}

/// The device that suits best: a discrete GPU, an integrated one only where there is no discrete one, never a CPU
/// driver.
///
/// # Errors
/// [`Error::NoGpu`] with what each device lacks.
pub fn pick(devices: &[Candidate]) -> Result<&Candidate, Error> {
    let usable = devices.iter().filter(|c| c.problem.is_none() && !c.is_cpu());
    usable.min_by_key(|c| c.rank()).ok_or_else(|| {
        let lacks = devices.iter().map(|c| match &c.problem {
            Some(problem) => problem.to_string(),
            None => format!("{} ({}) is a CPU driver, taken only by its id", c.name, c.id),
        });
        let lacks = lacks.collect::<Vec<_>>().join("; ");
        Error::NoGpu { because: if lacks.is_empty() { lacks } else { format!(": {lacks}") } }
    })
}

/// The one device that an id names; `vulkan` is the best GPU.
///
/// # Errors
/// None, or several.
pub fn find<'a>(devices: &'a [Candidate], id: &str) -> Result<&'a Candidate, Error> {
    if id == "vulkan" {
        return pick(devices);
    }
    if let Some(exact) = devices.iter().find(|c| c.id == id) {
        return Ok(exact);
    }
    let wanted = id.strip_prefix("vulkan:").unwrap_or(id).to_ascii_lowercase();
    let is_hex = wanted.chars().all(|c| c.is_ascii_hexdigit());
    let fits = |c: &&Candidate| {
        if wanted.contains(':') {
            // The domain may be left out.
            return c
                .pci
                .as_ref()
                .is_some_and(|pci| *pci == wanted || pci.split_once(':').map(|p| p.1) == Some(&wanted));
        }
        is_hex && wanted.len() >= UUID_DIGITS_MIN && c.uuid.starts_with(&wanted)
    };
    let ids = |of: &[&Candidate]| of.iter().map(|c| c.id.as_str()).collect::<Vec<_>>().join(", ");
    let fitting: Vec<&Candidate> = devices.iter().filter(fits).collect();
    match fitting[..] {
        [one] => Ok(one),
        [] if devices.is_empty() => Err(Error::NoDriver),
        [] => Err(Error::NoDevice { id: id.to_owned(), known: ids(&devices.iter().collect::<Vec<_>>()) }),
        _ => Err(Error::Ambiguous { id: id.to_owned(), fitting: ids(&fitting) }),
    }
}

/// Held while instances, devices and memory are made and freed. Drivers are to allow that from several threads, but
/// NVIDIA's 580 locks itself up now and then when one thread frees a device while another allocates (`tests/threads.rs`).
pub(crate) fn driver_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn instance() -> Result<(Entry, Instance), Error> {
    // SAFETY: loading the system's Vulkan loader runs its initialisers, as for any program that uses it.
    let entry = unsafe { Entry::load() }.map_err(|e| Error::NoLoader(e.to_string()))?;
    // The loader stays in the process (docs/decisions/006): unloading it while another thread loads a driver is not safe everywhere.
    std::mem::forget(entry.clone());
    let application = vk::ApplicationInfo::default().application_name(c"zinc").api_version(API);
    let create = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: `create` and what it points to live through the call.
    let instance = unsafe { entry.create_instance(&create, None) }.map_err(|result| match result {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoDriver,
        result => call("vkCreateInstance")(result),
    })?;
    Ok((entry, instance))
}

/// Every device, best first, those that cannot be used last.
pub(crate) fn list(instance: &Instance) -> Result<Vec<Candidate>, Error> {
    // SAFETY: the instance is alive.
    let handles = match unsafe { instance.enumerate_physical_devices() } {
        Ok(handles) => handles,
        // What the loader says where drivers are installed and none has a device.
        Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Vec::new(),
        Err(result) => return Err(call("vkEnumeratePhysicalDevices")(result)),
    };
    let mut found = handles.into_iter().map(|handle| describe(instance, handle)).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_cached_key(Candidate::rank);
    for (index, candidate) in found.iter_mut().enumerate() {
        candidate.id = format!("vulkan:{index}");
    }
    Ok(found)
}

fn describe(instance: &Instance, handle: vk::PhysicalDevice) -> Result<Candidate, Error> {
    // SAFETY: the handle comes from this instance.
    let base = unsafe { instance.get_physical_device_properties(handle) };
    let has_pci = has_extension(instance, handle, ash::ext::pci_bus_info::NAME)?;
    let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    if base.api_version >= vk::API_VERSION_1_2 {
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut v11);
        if has_pci {
            properties = properties.push_next(&mut pci);
        }
        // SAFETY: the chain is made of structures that the device knows.
        unsafe { instance.get_physical_device_properties2(handle, &mut properties) };
    }
    let at = || format!("{:04x}:{:02x}:{:02x}.{:x}", pci.pci_domain, pci.pci_bus, pci.pci_device, pci.pci_function);
    let name = text(&base.device_name);
    let has_budget = has_extension(instance, handle, ash::ext::memory_budget::NAME)?;
    let memory = Memory::of(instance, handle, has_budget, 0);
    let version = base.api_version;
    Ok(Candidate {
        id: String::new(),
        driver: format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)).trim().to_owned(),
        driver_id: driver.driver_id,
        api: (vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version)),
        kind: base.device_type,
        vendor_id: base.vendor_id,
        device_id: base.device_id,
        pci: has_pci.then(at),
        uuid: hex(&v11.device_uuid),
        pipeline_uuid: hex(&base.pipeline_cache_uuid),
        memory_bytes: memory.heap_bytes,
        memory,
        problem: features::check(instance, handle, &name, version).err(),
        name,
        handle,
    })
}

pub(crate) fn has_extension(instance: &Instance, device: vk::PhysicalDevice, name: &CStr) -> Result<bool, Error> {
    // SAFETY: the handle comes from this instance.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) };
    let extensions = extensions.map_err(call("vkEnumerateDeviceExtensionProperties"))?;
    Ok(extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
}

fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up device: kind, gigabytes, PCI bus.
    fn device(name: &str, kind: vk::PhysicalDeviceType, gigabytes: u64, bus: u8) -> Candidate {
        let heap_bytes = gigabytes << 30;
        Candidate {
            id: String::new(),
            name: name.to_owned(),
            driver: String::new(),
            driver_id: vk::DriverId::default(),
            api: (1, 3, 0),
            kind,
            vendor_id: 0,
            device_id: 0,
            pci: Some(format!("0000:{bus:02x}:00.0")),
            uuid: format!("abcd{bus:02x}"),
            pipeline_uuid: String::new(),
            memory: Memory { heap_bytes, budget_bytes: heap_bytes, usage_bytes: 0, is_reported: true },
            memory_bytes: heap_bytes,
            problem: None,
            handle: vk::PhysicalDevice::null(),
        }
    }

    fn listed(mut devices: Vec<Candidate>) -> Vec<Candidate> {
        devices.sort_by_cached_key(Candidate::rank);
        for (index, candidate) in devices.iter_mut().enumerate() {
            candidate.id = format!("vulkan:{index}");
        }
        devices
    }

    use vk::PhysicalDeviceType as Kind;

    #[test]
    fn a_discrete_gpu_is_taken_before_an_integrated_one_and_never_a_cpu_driver() {
        let (small, large) = (device("small", Kind::DISCRETE_GPU, 16, 9), device("large", Kind::DISCRETE_GPU, 24, 3));
        let (apu, cpu) = (device("apu", Kind::INTEGRATED_GPU, 60, 1), device("cpu", Kind::CPU, 100, 0));
        let picked = |devices: &[&Candidate]| {
            let devices = listed(devices.iter().map(|&c| c.clone()).collect());
            assert_eq!(find(&devices, "vulkan").ok().map(|c| &c.name), pick(&devices).ok().map(|c| &c.name));
            pick(&devices).map(|c| c.name.clone())
        };
        assert_eq!(picked(&[&cpu, &apu, &small, &large]).unwrap(), "large");
        assert_eq!(picked(&[&cpu, &apu]).unwrap(), "apu");
        let broken = Candidate { problem: Some(Error::Missing { device: "old".into(), missing: "limbs" }), ..large };
        assert_eq!(picked(&[&broken, &apu, &cpu]).unwrap(), "apu");
        let error = picked(&[&broken, &cpu]).unwrap_err().to_string();
        assert_eq!(
            error,
            "no GPU here can be used: cpu (vulkan:0) is a CPU driver, taken only by its id; \
             old has no limbs, which the kernels need"
        );
        assert_eq!(picked(&[]).unwrap_err().to_string(), "no GPU here can be used");
    }

    #[test]
    fn two_alike_are_told_apart_and_keep_their_ids() {
        let (first, second) = (device("card", Kind::DISCRETE_GPU, 16, 3), device("card", Kind::DISCRETE_GPU, 16, 0x43));
        for devices in [listed(vec![first.clone(), second.clone()]), listed(vec![second, first])] {
            let bus = |id: &str| find(&devices, id).map(|c| c.uuid.clone());
            assert_eq!(bus("vulkan:0").unwrap(), "abcd03");
            assert_eq!(bus("vulkan:1").unwrap(), "abcd43");
            assert_eq!(bus("vulkan:0000:43:00.0").unwrap(), "abcd43");
            assert_eq!(bus("vulkan:03:00.0").unwrap(), "abcd03");
            assert_eq!(bus("vulkan:ABCD4").unwrap(), "abcd43");
            assert_eq!(
                bus("vulkan:abcd").unwrap_err().to_string(),
                "`vulkan:abcd` fits several devices: vulkan:0, vulkan:1"
            );
            for absent in ["vulkan:2", "vulkan:abc", "vulkan:", "vulkan:44:00.0", "vulkan:é"] {
                let error = bus(absent).unwrap_err().to_string();
                assert_eq!(error, format!("there is no Vulkan device `{absent}` (there are: vulkan:0, vulkan:1)"));
            }
        }
        assert!(matches!(find(&[], "vulkan:0"), Err(Error::NoDriver)));
        assert!(matches!(find(&[], "vulkan"), Err(Error::NoGpu { .. })));
    }
}
