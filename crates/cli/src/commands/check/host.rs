//! What the system's files say: distribution, memory, graphics controllers, render nodes, the kernel's side of a card.
//!
//! Every function takes the folder that stands for `/`, so that tests make up a system. A file that is absent or not as
//! expected says nothing; nothing here fails.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::machine::{Distribution, KernelSide, PciGpu, Process, RenderNode};

/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 16;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 8192;
/// Open files of one process that are looked at.
const FILES_MAX: usize = 1024;
/// How long a compute step may take where `lockup_timeout` is not set, as the kernel's documentation has it.
const COMPUTE_TIMEOUT_MS: u64 = 60_000;

pub(super) fn distribution(root: &Path) -> Distribution {
    let text = read(&root.join("etc/os-release")).or_else(|| read(&root.join("usr/lib/os-release")));
    let text = text.unwrap_or_default();
    let value = |key: &str| -> String {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
    };
    let like = value("ID_LIKE").split_whitespace().map(str::to_owned).collect();
    Distribution { name: value("PRETTY_NAME"), id: value("ID"), like, codename: value("VERSION_CODENAME") }
}

pub(super) fn kernel_release(root: &Path) -> Option<String> {
    line(&root.join("proc/sys/kernel/osrelease"))
}

pub(super) fn is_container(root: &Path) -> bool {
    ["run/.containerenv", ".dockerenv"].iter().any(|file| root.join(file).exists())
}

/// Bytes of memory: all, and what programs can still take.
pub(super) fn memory(root: &Path) -> Option<(u64, u64)> {
    let text = read(&root.join("proc/meminfo"))?;
    let value = |key: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((value("MemTotal")?, value("MemAvailable")?))
}

/// Display and 3D controllers of the vendors whose GPUs can run models.
pub(super) fn pci_gpus(root: &Path) -> Vec<PciGpu> {
    const VENDORS: [u32; 3] = [crate::cards::AMD, crate::cards::NVIDIA, crate::cards::INTEL];
    let mut found = Vec::new();
    for folder in entries(&root.join("sys/bus/pci/devices"), ENTRIES_MAX) {
        let number = |file: &str| hexadecimal(&line(&folder.join(file))?);
        let (Some(class), Some(vendor_id), Some(device_id)) = (number("class"), number("vendor"), number("device"))
        else {
            continue;
        };
        if class >> 16 != 3 || !VENDORS.contains(&vendor_id) {
            continue;
        }
        let driver = fs::read_link(folder.join("driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        found.push(PciGpu { address: name(&folder), vendor_id, device_id, driver });
    }
    found
}

/// Render nodes, and whether this user may open them.
pub(super) fn render_nodes(root: &Path) -> Vec<RenderNode> {
    let nodes =
        entries(&root.join("dev/dri"), ENTRIES_MAX).into_iter().filter(|path| name(path).starts_with("renderD"));
    nodes
        .map(|path| RenderNode {
            path: format!("/dev/dri/{}", name(&path)),
            is_open: OpenOptions::new().read(true).write(true).open(&path).is_ok(),
        })
        .collect()
}

/// Version of the graphics block that the card told the kernel: major, minor.
pub(super) fn graphics_block(root: &Path, pci: &str) -> Option<(u32, u32)> {
    let folder = device(root, pci)?.join("ip_discovery/die/0/GC/0");
    let number = |file: &str| line(&folder.join(file))?.parse().ok();
    Some((number("major")?, number("minor")?))
}

/// What the kernel's files say of a card.
pub(super) fn kernel_side(root: &Path, pci: &str) -> KernelSide {
    let Some(folder) = device(root, pci) else { return KernelSide::default() };
    let driver = fs::read_link(folder.join("driver")).ok().map(|path| name(&path));
    let is_amd = driver.as_deref() == Some("amdgpu");
    let timeout = line(&root.join("sys/module/amdgpu/parameters/lockup_timeout"));
    KernelSide {
        compute_timeout_ms: if is_amd { timeout.map(|text| compute_timeout_ms(&text)) } else { None },
        performance_level: line(&folder.join("power_dpm_force_performance_level")),
        processes: processes(root, pci),
    }
}

/// The module's parameter is one number for all but compute, or graphics, compute, copies and video with commas; what is
/// not above 0 means the default.
fn compute_timeout_ms(text: &str) -> u64 {
    let second = text.split(',').nth(1).and_then(|part| part.trim().parse::<i64>().ok());
    second.and_then(|ms| u64::try_from(ms).ok()).filter(|&ms| ms > 0).unwrap_or(COMPUTE_TIMEOUT_MS)
}

/// Other programs that hold memory of the card, largest first.
fn processes(root: &Path, pci: &str) -> Vec<Process> {
    let mut found = Vec::new();
    for folder in entries(&root.join("proc"), ENTRIES_MAX) {
        let Ok(pid) = name(&folder).parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        // Files of one program may be one and the same client of the driver.
        let mut clients: Vec<(String, u64)> = Vec::new();
        for file in entries(&folder.join("fdinfo"), FILES_MAX) {
            let Some(text) = read(&file).filter(|text| text.contains("drm-pdev")) else { continue };
            let value = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
            let kib =
                value("drm-resident-vram0").or_else(|| value("drm-resident-vram")).or_else(|| value("drm-memory-vram"));
            let bytes = kib.and_then(sized);
            let (true, Some(bytes)) = (value("drm-pdev") == Some(pci), bytes) else { continue };
            let client = value("drm-client-id").unwrap_or_default().to_owned();
            match clients.iter_mut().find(|(id, _)| *id == client) {
                Some((_, most)) => *most = (*most).max(bytes),
                None => clients.push((client, bytes)),
            }
        }
        let bytes = clients.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if bytes > 0 {
            found.push(Process { pid, name: line(&folder.join("comm")).unwrap_or_default(), bytes });
        }
    }
    found.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
    found
}

/// `1234 KiB` in bytes.
fn sized(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The folder of a PCI device; an address is digits and their signs, so that it cannot lead elsewhere.
fn device(root: &Path, pci: &str) -> Option<PathBuf> {
    let is_address = pci.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.') && !pci.contains("..");
    let folder = root.join("sys/bus/pci/devices").join(pci);
    (is_address && folder.is_dir()).then_some(folder)
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Entries of a folder in the order of their names.
fn entries(folder: &Path, most: usize) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().take(most);
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn line(path: &Path) -> Option<String> {
    let text = read(path)?;
    let first = text.lines().next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up system: files with their content.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_distribution_is_read_as_its_file_has_it() {
        let text = "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n";
        let found = distribution(system(&[("etc/os-release", text)]).path());
        assert_eq!((found.id.as_str(), found.like.as_slice()), ("ubuntu", &["debian".to_owned()][..]));
        assert_eq!((found.name.as_str(), found.codename.as_str()), ("Ubuntu 24.04.1 LTS", "noble"));
        assert_eq!(distribution(system(&[]).path()), Distribution::default());
    }

    #[test]
    fn memory_is_what_is_available_rather_than_what_is_free() {
        let text = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    600 kB\n";
        assert_eq!(memory(system(&[("proc/meminfo", text)]).path()), Some((1_024_000, 614_400)));
        assert_eq!(memory(system(&[("proc/meminfo", "MemTotal: many\n")]).path()), None);
    }

    #[test]
    fn only_graphics_controllers_that_can_run_models_count() {
        let at = "sys/bus/pci/devices/0000";
        let mut files = Vec::new();
        // An AMD card, its sound, a server's small VGA chip.
        for (address, class, vendor, device) in [
            ("03:00.0", "0x030000", "0x1002", "0x744c"),
            ("03:00.1", "0x040300", "0x1002", "0xab30"),
            ("05:00.0", "0x030000", "0x1a03", "0x2000"),
        ] {
            for (file, value) in [("class", class), ("vendor", vendor), ("device", device)] {
                files.push((format!("{at}:{address}/{file}"), format!("{value}\n")));
            }
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let found = pci_gpus(system(&files).path());
        let card = PciGpu { address: "0000:03:00.0".into(), vendor_id: 0x1002, device_id: 0x744c, driver: None };
        assert_eq!(found, [card]);
    }

    #[test]
    fn the_watchdog_of_compute_work_is_the_second_number() {
        let cases = [
            ("", 60_000),
            ("-1", 60_000),
            ("10000", 60_000),
            ("10000,2000", 2_000),
            ("1,0,5,5", 60_000),
            ("a,b", 60_000),
        ];
        for (text, ms) in cases {
            assert_eq!(compute_timeout_ms(text), ms, "{text:?}");
        }
    }

    #[test]
    fn the_kernels_files_tell_of_a_card_and_of_who_else_is_on_it() {
        let client = |pci: &str, id: u32, kib: u32| {
            format!(
                "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{pci}\ndrm-client-id:\t{id}\ndrm-memory-vram:\t{kib} KiB\n"
            )
        };
        let (here, elsewhere) = (client("0000:03:00.0", 1, 2048), client("0000:04:00.0", 2, 9999));
        let root = system(&[
            ("sys/bus/pci/devices/0000:03:00.0/power_dpm_force_performance_level", "low\n"),
            ("sys/bus/pci/devices/0000:03:00.0/ip_discovery/die/0/GC/0/major", "12\n"),
            ("sys/bus/pci/devices/0000:03:00.0/ip_discovery/die/0/GC/0/minor", "0\n"),
            ("proc/77/comm", "game\n"),
            // The same client through two files counts once.
            ("proc/77/fdinfo/3", &here),
            ("proc/77/fdinfo/4", &here),
            ("proc/77/fdinfo/5", &elsewhere),
            ("proc/78/comm", "other\n"),
            ("proc/78/fdinfo/3", &elsewhere),
            ("proc/version", "x\n"),
        ]);
        let side = kernel_side(root.path(), "0000:03:00.0");
        assert_eq!(side.performance_level.as_deref(), Some("low"));
        assert_eq!(side.processes, [Process { pid: 77, name: "game".into(), bytes: 2 << 20 }]);
        assert_eq!(graphics_block(root.path(), "0000:03:00.0"), Some((12, 0)));
        assert_eq!(kernel_side(root.path(), "../../../proc"), KernelSide::default());
    }

    #[test]
    fn a_render_node_that_may_not_be_opened_is_told_from_one_that_may() {
        let root = system(&[("dev/dri/renderD128", ""), ("dev/dri/card0", "")]);
        // A folder cannot be opened for writing by anybody.
        fs::create_dir(root.path().join("dev/dri/renderD129")).unwrap();
        let node = |path: &str, is_open| RenderNode { path: path.into(), is_open };
        assert_eq!(render_nodes(root.path()), [node("/dev/dri/renderD128", true), node("/dev/dri/renderD129", false)]);
    }
}
