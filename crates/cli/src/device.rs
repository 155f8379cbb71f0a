//! From `--device` to a backend.

use zinc_graph::Backend;

use crate::args::DeviceArgs;
use crate::failure::Failure;

/// A device that `--device` can name.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// As `--device` takes it.
    pub(crate) id: String,
    /// For people.
    pub(crate) name: String,
}

/// The devices of this machine.
pub(crate) fn list() -> Vec<Device> {
    let mut devices = vec![Device { id: "cpu".into(), name: zinc_cpu::description() }];
    // A machine without a Vulkan loader has the CPU alone.
    for gpu in zinc_vulkan::device::candidates().unwrap_or_default() {
        devices.push(Device { id: gpu.id, name: format!("{} ({})", gpu.name, gpu.driver) });
    }
    devices
}

/// Opens the device that the arguments ask for.
pub(crate) fn open(args: &DeviceArgs) -> Result<Box<dyn Backend>, Failure> {
    open_tuned(args, &[])
}

/// The same with entries of its tuning table changed.
pub(crate) fn open_tuned(args: &DeviceArgs, tuning: &[String]) -> Result<Box<dyn Backend>, Failure> {
    if !tuning.is_empty() && !args.device.starts_with("vulkan:") {
        return Err(Failure::usage("--tuning is for Vulkan devices"));
    }
    match args.device.as_str() {
        "auto" | "cpu" => {
            let cpu = zinc_cpu::Cpu::new(threads(args)?).map_err(Failure::failed)?;
            Ok(Box::new(cpu))
        }
        id if id.starts_with("vulkan:") => {
            let failure =
                |e| Failure::usage(e).remedy("zinc devices   lists what there is; --device cpu works everywhere");
            let mut gpu = zinc_vulkan::Device::open(id, &[]).map_err(failure)?;
            for entry in tuning {
                gpu.tuning_mut().set(entry).map_err(Failure::usage)?;
            }
            Ok(Box::new(zinc_vulkan::Vulkan::new(&gpu).map_err(failure)?))
        }
        other => {
            let known: Vec<String> = list().into_iter().map(|d| d.id).collect();
            Err(Failure::usage(format!("there is no device `{other}`"))
                .remedy(format!("this build has: auto, {}", known.join(", "))))
        }
    }
}

/// The threads asked for, or one for each core that this process may use.
fn threads(args: &DeviceArgs) -> Result<usize, Failure> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    match args.threads {
        None => Ok(available),
        Some(n) if (1..=1024).contains(&n) => Ok(n),
        Some(n) => {
            Err(Failure::usage(format!("--threads is {n}; it must be 1 to 1024 (this machine has {available} cores)")))
        }
    }
}
