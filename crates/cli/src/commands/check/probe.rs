//! The real machine, gathered: the system's files, Vulkan, the device at work, the model, the port.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use zinc_gguf::{DType, Gguf};
use zinc_graph::backend::KvFormat;
use zinc_graph::conformance::Case;
use zinc_graph::ops;
use zinc_graph::report::{Report, ReportFor};
use zinc_hub::Resolved;
use zinc_vulkan::candidate::Candidate;

use super::host;
use super::machine::{
    Cache, Choice, Gpu, Host, KernelSide, Kernels, Machine, ModelState, NoVulkan, Open, Opened, Port, Problem,
};
use crate::args::generate::GenerateArgs;
use crate::args::serve::ServerArgs;
use crate::args::shared::DeviceArgs;
use crate::commands::open_error;
use crate::commands::serve::{PORT, SEQUENCES};
use crate::device::{Device, Devices};
use crate::failure::{Failure, Outcome};
use crate::fit::{self, Space};
use crate::profile::Traits;
use crate::progress::Bar;
use crate::resolve;
use crate::session::{self, ModelFile};

/// How long the kernels' test goes on; the case that runs then is the last.
const TEST_TIME: Duration = Duration::from_secs(3);
/// Ports that are tried for a free one.
const PORTS_TRIED: u16 = 100;
/// Variables that choose drivers or change what they do.
const VARIABLES: [&str; 8] = [
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "AMD_VULKAN_ICD",
    "RADV_DEBUG",
    "RADV_PERFTEST",
    "RADV_FORCE_FAMILY",
    "MESA_VK_VERSION_OVERRIDE",
    "MESA_VK_DEVICE_SELECT",
];

/// Looks at everything. What cannot be found out is absent in the result; nothing here fails.
pub(super) fn machine(args: &GenerateArgs, server: &ServerArgs) -> Machine {
    let root = Path::new("/");
    let devices = Devices::find();
    let no_vulkan = devices.without_gpus.as_ref().map(|error| match error {
        zinc_vulkan::Error::NoLoader(_) => NoVulkan::NoLoader,
        zinc_vulkan::Error::NoDriver => NoVulkan::NoDriver,
        other => NoVulkan::Failed(other.to_string()),
    });
    let mut gpus: Vec<Gpu> = devices.gpus.iter().map(|candidate| gpu(root, candidate)).collect();
    let (choice, opened) = choose(&args.device, &devices);
    if let (Choice::Gpu(index), Some(Device::Vulkan(device))) = (&choice, &opened) {
        let traits = &device.gpu().traits;
        gpus[*index].open = Some(Open {
            subgroup_width: traits.subgroup_size,
            matrix_tile: traits.matrix_tile,
            has_integer_dot: traits.has_integer_dot,
            is_host_writable: traits.is_host_writable,
        });
    }
    Machine {
        host: computer(root),
        no_vulkan,
        gpus,
        choice,
        kernels: opened.as_ref().map(kernels),
        model: model(args, server),
        port: port(server),
    }
}

fn computer(root: &Path) -> Host {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: host::kernel_release(root),
        distribution: host::distribution(root),
        is_container: host::is_container(root),
        cpu: zinc_cpu::description(),
        n_cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory: host::memory(root),
        pci_gpus: host::pci_gpus(root),
        render_nodes: host::render_nodes(root),
        variables: VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?))).collect(),
        cache: cache(resolve::cache_folder().as_deref()),
    }
}

/// Whether models and compiled kernels can be kept: a file is made there and taken away.
fn cache(folder: Option<&Path>) -> Cache {
    let Some(folder) = folder else {
        return Cache { folder: None, problem: Some("neither HOME nor XDG_CACHE_HOME is an absolute path".into()) };
    };
    let trial = folder.join(format!("check.{}.part", std::process::id()));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&trial, b"zinc"));
    let _ = std::fs::remove_file(&trial);
    let shown = Some(folder.display().to_string());
    Cache { folder: shown, problem: written.err().map(|error| error.to_string()) }
}

fn gpu(root: &Path, candidate: &Candidate) -> Gpu {
    let pci = candidate.pci.as_deref();
    let memory = &candidate.memory;
    let is_old = |error: &zinc_vulkan::Error| {
        matches!(error, zinc_vulkan::Error::TooOld { .. } | zinc_vulkan::Error::Missing { .. })
    };
    Gpu {
        id: candidate.id.clone(),
        name: candidate.name.clone(),
        kind: candidate.kind_name().to_owned(),
        driver: candidate.driver.clone(),
        driver_kind: candidate.driver_kind(),
        api: candidate.api,
        pci: candidate.pci.clone(),
        traits: traits(root, candidate),
        free_bytes: memory.is_reported.then_some(memory.free_bytes()),
        others_bytes: if memory.is_reported { memory.others_bytes() } else { 0 },
        problem: candidate
            .problem
            .as_ref()
            .map(|error| Problem { sentence: error.to_string(), is_old_driver: is_old(error) }),
        open: None,
        kernel: pci.map_or_else(KernelSide::default, |pci| host::kernel_side(root, pci)),
    }
}

/// The device that the arguments mean, open.
fn choose(args: &DeviceArgs, devices: &Devices) -> (Choice, Option<Device>) {
    match Device::open(args) {
        Ok(opened) => {
            let choice = match &opened {
                Device::Cpu { .. } if args.device == "auto" => Choice::CpuLeft,
                Device::Cpu { .. } => Choice::CpuAsked,
                Device::Vulkan(device) => {
                    let uuid = &device.gpu().candidate.uuid;
                    devices
                        .gpus
                        .iter()
                        .position(|gpu| gpu.uuid == *uuid)
                        .map_or_else(|| Choice::Nothing { sentence: "the device went away".into() }, Choice::Gpu)
                }
            };
            (choice, Some(opened))
        }
        Err(Failure { message, .. }) => (Choice::Nothing { sentence: message }, None),
    }
}

/// The device at work.
fn kernels(device: &Device) -> Kernels {
    let mut kernels =
        Kernels { n_ops: 0, n_cases: 0, seconds: 0.0, failures: Vec::new(), lost: None, copy_bytes_per_s: None };
    if let Err(failure) = put_to_work(device, &mut kernels) {
        kernels.lost = Some(failure.message);
    }
    kernels
}

/// A few seconds of the kernels' test: one case of each op, then more of them, and the speed of a copy.
fn put_to_work(device: &Device, kernels: &mut Kernels) -> Outcome {
    let started = Instant::now();
    let cases = in_turns(ops::cases());
    let bar = Bar::new("kernels", cases.len() as u64);
    let mut names: Vec<String> = Vec::new();
    for case in cases {
        if started.elapsed() > TEST_TIME || kernels.lost.is_some() {
            break;
        }
        let failure = case.run(device.backend(0)?.as_mut()).err();
        kernels.failures.extend(failure.map(|failure| failure.to_string()));
        kernels.n_cases += 1;
        let op = op_of(&case).to_owned();
        if !names.contains(&op) {
            names.push(op);
        }
        kernels.lost = device.lost().map(|failure| failure.message);
        bar.advance(1);
    }
    bar.finish();
    kernels.n_ops = names.len();
    kernels.seconds = started.elapsed().as_secs_f64();
    if kernels.lost.is_none() {
        kernels.copy_bytes_per_s = device.backend(0)?.copy_bandwidth().map_err(Failure::failed)?;
    }
    Ok(())
}

fn op_of(case: &Case) -> &str {
    case.name.split('/').next().unwrap_or_default()
}

/// The first case of each op, then the second of each, and so on.
fn in_turns(cases: Vec<Case>) -> Vec<Case> {
    let mut seen: Vec<(String, usize)> = Vec::new();
    let mut numbered: Vec<(usize, Case)> = Vec::new();
    for case in cases {
        let turn = match seen.iter_mut().find(|(name, _)| name == op_of(&case)) {
            Some((_, n)) => {
                *n += 1;
                *n
            }
            None => {
                seen.push((op_of(&case).to_owned(), 0));
                0
            }
        };
        numbered.push((turn, case));
    }
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, case)| case).collect()
}

/// The model that would run. Nothing is fetched.
fn model(args: &GenerateArgs, server: &ServerArgs) -> ModelState {
    let mut device = args.device.clone();
    if server.port.is_some() {
        device.max_seqs = device.max_seqs.or(Some(SEQUENCES));
    }
    match find(args).and_then(|found| match found {
        Ok(file) => opened(&file, &device).map(|opened| ModelState::Opened(Box::new(opened))),
        Err(state) => Ok(state),
    }) {
        Ok(state) => state,
        Err(Failure { message, remedy, .. }) => ModelState::Broken { sentence: message, remedy },
    }
}

/// The file of the model, or what is to say where there is none.
fn find(args: &GenerateArgs) -> Result<Result<ModelFile, ModelState>, Failure> {
    let open = |path: &Path, entry| {
        let gguf = Gguf::open(path).map_err(|e| open_error(path, &e))?;
        Ok(Ok(ModelFile { path: path.to_owned(), gguf, entry, hold: None }))
    };
    if let Some(path) = &args.model.model {
        zinc_hub::model_file(path).map_err(|e| resolve::failure(&e))?;
        return open(path, None);
    }
    let folders = resolve::folders()?;
    let id = args.model.model_id.clone().unwrap_or_else(|| resolve::usual_id(&folders));
    match zinc_hub::model_id(&folders, &id).map_err(|e| resolve::failure(&e))? {
        Resolved::Installed(entry, installed) => open(&installed.path, entry),
        Resolved::OnHub(_) => Err(Failure::failed(format!("{id} is not here")).remedy(format!("zinc model pull {id}"))),
        Resolved::Missing(entry) if args.model.model_id.is_none() => {
            Ok(Err(ModelState::NotNamed { default_id: entry.id.to_string(), default_bytes: entry.size_bytes }))
        }
        Resolved::Missing(entry) => {
            Err(Failure::failed(format!("{} is not here", entry.id)).remedy(format!("zinc model pull {}", entry.id)))
        }
    }
}

fn opened(file: &ModelFile, args: &DeviceArgs) -> Result<Opened, Failure> {
    let model = file.model()?;
    let weights = model.weights(&file.gguf).map_err(Failure::model)?;
    let tokenizer = file.tokenizer()?;
    let limits = session::limits(args, file, &model)?;
    let dtypes: Vec<DType> = weights.iter().map(|weight| weight.dtype).collect();
    let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context: 0, kv_format: KvFormat::F16 };
    let fit = Space::of(&args.device).and_then(|space| fit::of_file(file, args, &space));
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The catalog's name is the one that people know.
    let title = file.entry.map(|entry| entry.name.to_owned()).or_else(|| model.name.clone());
    Ok(Opened {
        name: title.unwrap_or_else(|| name.clone()),
        file: name,
        architecture: model.architecture.to_owned(),
        context_tokens: limits.config.context_tokens,
        weight_bytes: Report::new(&model.graph, &of).weight_bytes,
        state_bytes: limits.kv_bytes.saturating_add(limits.recurrent_bytes),
        // Without the device there is nothing to fit; another section says so.
        workspace_bytes: fit.map_or(0, |fit| fit.needs.workspace_bytes),
        no_chat: file.template(&tokenizer).err().map(|failure| failure.message),
    })
}

/// Whether the server could listen where it would.
fn port(server: &ServerArgs) -> Port {
    let address = SocketAddr::new(server.host, server.port.unwrap_or(PORT));
    let problem = listen(address).err();
    let free = problem.as_ref().filter(|error| error.kind() == ErrorKind::AddrInUse).and_then(|_| {
        let mut ports = (1..=PORTS_TRIED).filter_map(|step| address.port().checked_add(step));
        ports.find(|&port| listen(SocketAddr::new(server.host, port)).is_ok())
    });
    let sentence = |error: std::io::Error| match error.kind() {
        ErrorKind::AddrInUse => "another program listens there".to_owned(),
        ErrorKind::PermissionDenied => "this user may not listen there".to_owned(),
        ErrorKind::AddrNotAvailable => "it is no address of this machine".to_owned(),
        _ => error.to_string(),
    };
    Port { address, is_asked: server.port.is_some(), problem: problem.map(sentence), free }
}

fn listen(address: SocketAddr) -> std::io::Result<()> {
    TcpListener::bind(address).map(drop)
}

/// The profile of a device, as far as it is known without opening it.
pub(crate) fn profile_of(candidate: &Candidate) -> String {
    traits(Path::new("/"), candidate).profile()
}

fn traits(root: &Path, candidate: &Candidate) -> Traits {
    let block = candidate.pci.as_deref().and_then(|pci| host::graphics_block(root, pci));
    Traits {
        vendor_id: candidate.vendor_id,
        device_id: candidate.device_id,
        heap_bytes: candidate.memory.heap_bytes,
        is_cpu: candidate.is_cpu(),
        is_integrated: candidate.is_integrated(),
        block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_has_its_turn_before_any_has_a_second() {
        let cases = ops::cases();
        let mut ops: Vec<&str> = cases.iter().map(op_of).collect();
        ops.sort_unstable();
        ops.dedup();
        let (n_ops, n_cases) = (ops.len(), cases.len());
        let turned = in_turns(ops::cases());
        let mut first: Vec<&str> = turned[..n_ops].iter().map(op_of).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!((first.len(), turned.len()), (n_ops, n_cases));
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_one_that_is_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(listen(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse));
        drop(taken);
        assert!(listen(address).is_ok());
    }

    #[test]
    fn a_cache_that_is_a_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cache(Some(&folder.path().join("new"))).problem.is_none());
        let file = folder.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        assert!(cache(Some(&file)).problem.is_some());
        assert!(cache(None).problem.is_some());
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 0, "the trial file is gone");
    }
}
