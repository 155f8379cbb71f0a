//! What is said of machines that are made up: one file in `golden` for each. `ZINC_BLESS=1` writes the files anew.

use std::path::Path;
use std::process::Command;

use zinc_vulkan::candidate::DriverKind;

use super::judge;
use super::machine::{
    Cache, Choice, Distribution, Gpu, Host, KernelSide, Kernels, Machine, ModelState, NoVulkan, Open, Opened, PciGpu,
    Port, Problem, Process, RenderNode,
};
use super::report::{Level, Report};
use crate::cards::{AMD, NVIDIA};
use crate::profile::Traits;

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A desktop with Debian 13, a Radeon AI PRO R9700, Mesa 26.1 and a model that fits: nothing is wrong.
fn good() -> Machine {
    Machine {
        host: Host {
            os: "linux".into(),
            arch: "x86_64".into(),
            kernel: Some("6.12.48".into()),
            distribution: distribution("debian", "Debian GNU/Linux 13 (trixie)", "trixie"),
            is_container: false,
            cpu: "CPU (AVX-512)".into(),
            n_cores: 16,
            memory: Some((64 * GB, 55 * GB)),
            pci_gpus: vec![on_bus(AMD, 0x7551, Some("amdgpu"))],
            render_nodes: vec![node(true)],
            variables: Vec::new(),
            cache: Cache { folder: Some("/var/cache/someone/zinc".into()), problem: None },
        },
        no_vulkan: None,
        gpus: vec![card(0x7551, 32_624, "radv Mesa 26.1.6")],
        choice: Choice::Gpu(0),
        kernels: Some(at_work(29, 140, Some(560.0))),
        model: ModelState::Opened(Box::new(model(22_200 * GB / 1000, 700 * GB / 1000))),
        port: Port { address: ([127, 0, 0, 1], 8080).into(), is_asked: false, problem: None, free: None },
    }
}

fn distribution(id: &str, name: &str, codename: &str) -> Distribution {
    Distribution { name: name.into(), id: id.into(), like: Vec::new(), codename: codename.into() }
}

fn on_bus(vendor_id: u32, device_id: u32, driver: Option<&str>) -> PciGpu {
    PciGpu { address: "0000:03:00.0".into(), vendor_id, device_id, driver: driver.map(str::to_owned) }
}

fn node(is_open: bool) -> RenderNode {
    RenderNode { path: "/dev/dri/renderD128".into(), is_open }
}

/// A discrete AMD card with everything on.
fn card(device_id: u32, mib: u64, driver: &str) -> Gpu {
    let heap_bytes = mib * MIB;
    Gpu {
        id: "vulkan:0".into(),
        name: "AMD Radeon Graphics".into(),
        kind: "discrete GPU".into(),
        driver: driver.into(),
        driver_kind: DriverKind::Radv,
        api: (1, 4, 354),
        pci: Some("0000:03:00.0".into()),
        traits: Traits { vendor_id: AMD, device_id, heap_bytes, is_cpu: false, is_integrated: false, block: None },
        free_bytes: Some(heap_bytes - 700 * MIB),
        others_bytes: 700 * MIB,
        problem: None,
        open: Some(Open { subgroup_width: 64, matrix_tile: Some(16), has_integer_dot: true, is_host_writable: true }),
        kernel: KernelSide {
            compute_timeout_ms: Some(60_000),
            performance_level: Some("auto".into()),
            processes: Vec::new(),
        },
    }
}

fn at_work(n_ops: usize, n_cases: usize, gb_s: Option<f64>) -> Kernels {
    let copy_bytes_per_s = gb_s.map(|rate| rate * 1e9);
    Kernels { n_ops, n_cases, seconds: 4.04, failures: Vec::new(), lost: None, copy_bytes_per_s }
}

fn model(weight_bytes: u64, state_bytes: u64) -> Opened {
    Opened {
        file: "model.gguf".into(),
        name: "A model".into(),
        architecture: "llama".into(),
        context_tokens: 4096,
        weight_bytes,
        state_bytes,
        workspace_bytes: 250_000_000,
        no_chat: None,
    }
}

/// Without a GPU that can be used, on the CPU.
fn on_cpu(no_vulkan: Option<NoVulkan>) -> Machine {
    Machine {
        no_vulkan,
        gpus: Vec::new(),
        choice: Choice::CpuLeft,
        kernels: Some(at_work(29, 310, None)),
        model: ModelState::NotNamed { default_id: "smollm2-135m-q4-1".into(), default_bytes: 98_300_000 },
        ..good()
    }
}

fn no_loader() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoLoader));
    machine.host.distribution = distribution("ubuntu", "Ubuntu 24.04.1 LTS", "noble");
    machine.host.pci_gpus = vec![on_bus(AMD, 0x744c, Some("amdgpu"))];
    machine
}

fn no_gpu_at_all() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoDriver));
    machine.host.distribution = distribution("fedora", "Fedora Linux 42", "");
    machine.host.pci_gpus.clear();
    machine.host.render_nodes.clear();
    machine
}

fn hidden_drivers() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoDriver));
    machine.host.variables = vec![("VK_DRIVER_FILES".into(), "/nonexistent".into())];
    machine
}

fn closed_node() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoDriver));
    machine.host.render_nodes = vec![node(false)];
    machine
}

fn container() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoDriver));
    machine.host.is_container = true;
    machine.host.render_nodes.clear();
    machine
}

fn container_without_the_hosts_driver() -> Machine {
    let mut machine = container();
    machine.host.pci_gpus = vec![on_bus(NVIDIA, 0x2684, Some("nvidia"))];
    machine
}

fn wrong_driver_lavapipe() -> Machine {
    let mut machine = on_cpu(None);
    machine.host.distribution = distribution("arch", "Arch Linux", "");
    machine.host.pci_gpus = vec![on_bus(NVIDIA, 0x2684, None)];
    machine.gpus = vec![lavapipe()];
    machine
}

fn lavapipe() -> Gpu {
    Gpu {
        name: "llvmpipe".into(),
        kind: "CPU driver".into(),
        driver_kind: DriverKind::Lavapipe,
        pci: None,
        traits: Traits {
            vendor_id: 0x10005,
            device_id: 0,
            heap_bytes: 25 * GB,
            is_cpu: true,
            is_integrated: false,
            block: None,
        },
        others_bytes: 2 * GB,
        open: Some(Open { subgroup_width: 8, matrix_tile: Some(8), has_integer_dot: false, is_host_writable: true }),
        kernel: KernelSide::default(),
        ..card(0, 24_000, "llvmpipe Mesa 26.1.6 (LLVM 19.1.7)")
    }
}

fn lavapipe_named() -> Machine {
    Machine { gpus: vec![lavapipe()], kernels: Some(at_work(29, 31, Some(11.0))), ..good() }
}

fn wrong_driver_amdvlk() -> Machine {
    let mut machine = good();
    machine.host.distribution = distribution("fedora", "Fedora Linux 42", "");
    machine.gpus[0].driver = "AMD open-source driver 2025.Q2.1 (LLPC)".into();
    machine.gpus[0].driver_kind = DriverKind::Amdvlk;
    machine
}

fn old_api() -> Machine {
    let mut machine = on_cpu(None);
    machine.host.distribution = distribution("debian", "Debian GNU/Linux 12 (bookworm)", "bookworm");
    machine.gpus = vec![Gpu {
        api: (1, 2, 131),
        open: None,
        problem: Some(Problem {
            sentence: "AMD Radeon Graphics has a driver for Vulkan 1.2; the kernels need 1.3".into(),
            is_old_driver: true,
        }),
        ..card(0x744c, 24_560, "radv Mesa 20.3.5")
    }];
    machine
}

fn old_mesa_and_everything_off() -> Machine {
    let mut machine = good();
    machine.host.distribution = distribution("debian", "Debian GNU/Linux 12 (bookworm)", "bookworm");
    machine.gpus = vec![Gpu {
        open: Some(Open { subgroup_width: 64, matrix_tile: None, has_integer_dot: true, is_host_writable: false }),
        free_bytes: Some(12 * GB),
        others_bytes: 13 * GB,
        kernel: KernelSide {
            compute_timeout_ms: Some(2000),
            performance_level: Some("low".into()),
            processes: vec![
                Process { pid: 4242, name: "llama-server".into(), bytes: 11 * GB },
                Process { pid: 900, name: "game".into(), bytes: GB },
            ],
        },
        ..card(0x744c, 24_560, "radv Mesa 24.2.8")
    }];
    machine.kernels = Some(at_work(29, 120, Some(210.0)));
    machine.model = ModelState::Opened(Box::new(Opened {
        no_chat: Some("the file has no chat template".into()),
        ..model(5 * GB, GB)
    }));
    machine
}

fn too_little_memory() -> Machine {
    let mut machine = good();
    machine.gpus = vec![card(0x7550, 16_304, "radv Mesa 26.1.6")];
    machine.model = ModelState::Opened(Box::new(model(22 * GB, GB)));
    machine
}

fn context_too_long() -> Machine {
    Machine { model: ModelState::Opened(Box::new(model(22 * GB, 40 * GB))), ..good() }
}

fn port_taken() -> Machine {
    let mut machine = good();
    machine.port.problem = Some("another program listens there".into());
    machine.port.free = Some(8081);
    machine
}

fn port_asked_and_taken() -> Machine {
    let mut machine = port_taken();
    machine.port.is_asked = true;
    machine
}

fn broken_model() -> Machine {
    Machine {
        model: ModelState::Broken {
            sentence: "cut.gguf: tensor data ends after 1000 of 2000 bytes".into(),
            remedy: None,
        },
        ..good()
    }
}

fn kernels_fail() -> Machine {
    let failures = vec!["matmul/Q4_K (seed 0x1): step 0, output 0: differs".to_owned(), "rope/x: differs".to_owned()];
    Machine { kernels: Some(Kernels { failures, ..at_work(29, 140, Some(560.0)) }), ..good() }
}

fn device_lost() -> Machine {
    let lost = Some("the driver of AMD Radeon Graphics gave the device up (VK_ERROR_DEVICE_LOST)".to_owned());
    Machine { kernels: Some(Kernels { lost, ..at_work(3, 3, None) }), ..good() }
}

fn nothing_is_computed() -> Machine {
    Machine { kernels: Some(at_work(29, 140, Some(90_000.0))), ..good() }
}

fn datacentre() -> Machine {
    let mut machine = good();
    machine.host.pci_gpus = vec![on_bus(NVIDIA, 0x2335, Some("nvidia"))];
    machine.gpus[0] = Gpu {
        name: "NVIDIA H200".into(),
        driver_kind: DriverKind::Nvidia,
        traits: Traits { vendor_id: NVIDIA, device_id: 0x2335, ..card(0, 143_771, "").traits },
        free_bytes: Some(149 * GB),
        kernel: KernelSide::default(),
        open: Some(Open { subgroup_width: 32, matrix_tile: Some(16), has_integer_dot: true, is_host_writable: false }),
        ..card(0, 143_771, "NVIDIA 580.65.06")
    };
    machine.kernels = Some(at_work(29, 200, Some(4000.0)));
    machine
}

/// Graphics in the processor were taken because the card's driver is too old.
fn worse_device_taken() -> Machine {
    let mut machine = old_api();
    let mut old = machine.gpus.remove(0);
    old.id = "vulkan:1".into();
    let mut apu = card(0x1586, 65_536, "radv Mesa 26.1.6");
    (apu.traits.is_integrated, apu.kind) = (true, "integrated GPU".into());
    Machine { gpus: vec![apu, old], choice: Choice::Gpu(0), kernels: Some(at_work(29, 90, Some(210.0))), ..machine }
}

fn cpu_asked() -> Machine {
    let mut machine = on_cpu(Some(NoVulkan::NoLoader));
    machine.choice = Choice::CpuAsked;
    machine.host.memory = Some((16 * GB, 12 * GB));
    machine.host.cache.problem = Some("Read-only file system (os error 30)".into());
    machine.model = ModelState::Opened(Box::new(model(22 * GB, GB)));
    machine
}

fn no_such_device() -> Machine {
    let sentence = "there is no Vulkan device `vulkan:3` (there are: vulkan:0)".into();
    Machine { choice: Choice::Nothing { sentence }, kernels: None, ..good() }
}

fn machines() -> Vec<(&'static str, Level, Machine)> {
    use Level::{Fail, Ok, Warn};
    vec![
        ("ready", Ok, good()),
        ("datacentre", Ok, datacentre()),
        ("no-loader", Fail, no_loader()),
        ("no-gpu-at-all", Warn, no_gpu_at_all()),
        ("hidden-drivers", Fail, hidden_drivers()),
        ("closed-node", Fail, closed_node()),
        ("container", Fail, container()),
        ("container-without-the-hosts-driver", Fail, container_without_the_hosts_driver()),
        ("wrong-driver-lavapipe", Fail, wrong_driver_lavapipe()),
        ("lavapipe-named", Warn, lavapipe_named()),
        ("wrong-driver-amdvlk", Warn, wrong_driver_amdvlk()),
        ("old-api", Fail, old_api()),
        ("old-mesa-and-everything-off", Warn, old_mesa_and_everything_off()),
        ("too-little-memory", Fail, too_little_memory()),
        ("context-too-long", Fail, context_too_long()),
        ("port-taken", Warn, port_taken()),
        ("port-asked-and-taken", Fail, port_asked_and_taken()),
        ("broken-model", Fail, broken_model()),
        ("kernels-fail", Fail, kernels_fail()),
        ("device-lost", Fail, device_lost()),
        ("nothing-is-computed", Fail, nothing_is_computed()),
        ("worse-device-taken", Warn, worse_device_taken()),
        ("cpu-asked", Warn, cpu_asked()),
        ("no-such-device", Fail, no_such_device()),
    ]
}

#[test]
fn every_machine_is_told_what_its_golden_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/check/golden");
    let bless = std::env::var_os("ZINC_BLESS").is_some();
    for (name, level, machine) in machines() {
        let report = judge::report(&machine);
        assert_eq!(report.verdict(), level, "{name}");
        // The version is that of the day.
        let text = report.as_text(false).replacen(concat!("zinc ", env!("CARGO_PKG_VERSION")), "zinc VERSION", 1);
        let path = folder.join(format!("{name}.txt"));
        if bless {
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, golden, "{name}: if this is meant, run the test once with ZINC_BLESS=1");
    }
}

#[test]
fn every_remedy_can_be_pasted_and_every_trouble_has_one() {
    for (name, _, machine) in machines() {
        let Report { sections, .. } = judge::report(&machine);
        for line in sections.iter().flat_map(|section| &section.lines) {
            assert_eq!(line.remedy.is_some(), line.level != Level::Ok, "{name}: {line:?}");
            let Some(remedy) = &line.remedy else { continue };
            assert!(!remedy.contains('\n'), "{name}: {remedy}");
            let read = Command::new("sh").args(["-n", "-c", remedy]).status().unwrap();
            assert!(read.success(), "{name}: a shell does not understand `{remedy}`");
        }
    }
}
