//! What to type: one line for each thing that may be wrong, with the words of the distribution.
//!
//! Every remedy can be pasted into a shell. What no command does stands in it as a comment.

use super::machine::Distribution;
use crate::cards::{AMD, INTEL, NVIDIA};

/// A family of distributions with the same packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Arch,
    Suse,
    Alpine,
    Nix,
    Unknown,
}

impl Family {
    /// From the id of the distribution, or else from those that it is made from.
    pub(super) fn of(distribution: &Distribution) -> Family {
        let ids = std::iter::once(&distribution.id).chain(&distribution.like);
        let family = |id: &String| match id.as_str() {
            "debian" | "raspbian" => Some(Family::Debian),
            "ubuntu" => Some(Family::Ubuntu),
            "fedora" => Some(Family::Fedora),
            "arch" => Some(Family::Arch),
            "suse" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" => Some(Family::Suse),
            "alpine" => Some(Family::Alpine),
            "nixos" => Some(Family::Nix),
            _ => None,
        };
        ids.into_iter().find_map(family).unwrap_or(Family::Unknown)
    }
}

/// Installs the loader and a vendor's driver.
pub(super) fn install_driver(distribution: &Distribution, vendor_id: Option<u32>) -> String {
    let line = match (Family::of(distribution), vendor_id) {
        (Family::Debian, Some(NVIDIA)) => "sudo apt install libvulkan1 nvidia-driver  # from the component non-free",
        (Family::Ubuntu, Some(NVIDIA)) => "sudo apt install libvulkan1 && sudo ubuntu-drivers install",
        (Family::Fedora, Some(NVIDIA)) => "sudo dnf install vulkan-loader akmod-nvidia  # from RPM Fusion",
        (Family::Arch, Some(NVIDIA)) => "sudo pacman -S vulkan-icd-loader nvidia-utils",
        (_, Some(NVIDIA)) => "# install the Vulkan loader and NVIDIA's driver with this system's packages",
        (Family::Debian | Family::Ubuntu, _) => "sudo apt install libvulkan1 mesa-vulkan-drivers",
        (Family::Fedora, _) => "sudo dnf install vulkan-loader mesa-vulkan-drivers",
        (Family::Arch, Some(INTEL)) => "sudo pacman -S vulkan-icd-loader vulkan-intel",
        (Family::Arch, _) => "sudo pacman -S vulkan-icd-loader vulkan-radeon",
        (Family::Suse, Some(INTEL)) => "sudo zypper install libvulkan1 libvulkan_intel",
        (Family::Suse, _) => "sudo zypper install libvulkan1 libvulkan_radeon",
        (Family::Alpine, Some(INTEL)) => "sudo apk add vulkan-loader mesa-vulkan-intel",
        (Family::Alpine, _) => "sudo apk add vulkan-loader mesa-vulkan-ati",
        (Family::Nix, _) => {
            "# set hardware.graphics.enable = true; in configuration.nix, then: sudo nixos-rebuild switch"
        }
        (Family::Unknown, _) => "# install the Vulkan loader and Mesa's Vulkan drivers with this system's packages",
    };
    line.to_owned()
}

/// Brings a newer driver of the vendor.
pub(super) fn newer_driver(distribution: &Distribution, vendor_id: u32) -> String {
    if vendor_id != AMD && vendor_id != INTEL {
        return install_driver(distribution, Some(vendor_id));
    }
    match Family::of(distribution) {
        Family::Debian if !distribution.codename.is_empty() => {
            let codename = &distribution.codename;
            format!(
                "sudo apt install -t {codename}-backports mesa-vulkan-drivers  # with {codename}-backports in apt's sources"
            )
        }
        Family::Debian | Family::Ubuntu => "sudo apt update && sudo apt full-upgrade".to_owned(),
        Family::Fedora => "sudo dnf upgrade --refresh mesa-vulkan-drivers".to_owned(),
        Family::Arch => "sudo pacman -Syu".to_owned(),
        Family::Suse => "sudo zypper update".to_owned(),
        Family::Alpine => "sudo apk upgrade".to_owned(),
        Family::Nix => "sudo nixos-rebuild switch --upgrade".to_owned(),
        Family::Unknown => "# bring Mesa up to date with this system's packages".to_owned(),
    }
}

/// Lets this user open render nodes.
pub(super) fn join_groups() -> String {
    "sudo usermod -aG render,video \"$USER\"  # then log in again".to_owned()
}

/// Gives a container the GPU.
pub(super) fn pass_to_container(vendor_id: u32) -> String {
    match vendor_id {
        NVIDIA => "# start the container with: --device nvidia.com/gpu=all  (needs NVIDIA's container toolkit)",
        _ => "# start the container with: --device /dev/dri",
    }
    .to_owned()
}

/// Another place for models.
pub(super) fn other_cache() -> String {
    "export XDG_CACHE_HOME=/var/tmp/zinc  # or any folder that may be written".to_owned()
}

/// The setting of the firmware for a large window into the card.
pub(super) fn resizable_bar() -> String {
    "systemctl reboot --firmware-setup  # there switch on Above 4G Decoding and Resizable BAR".to_owned()
}

/// A longer time for compute steps.
pub(super) fn longer_timeout() -> String {
    "echo 'options amdgpu lockup_timeout=10000,60000,10000,10000' | sudo tee /etc/modprobe.d/zinc-amdgpu.conf  # then \
     start the machine again"
        .to_owned()
}

/// The card chooses its clocks itself again.
pub(super) fn clocks_auto(pci: &str) -> String {
    format!("echo auto | sudo tee /sys/bus/pci/devices/{pci}/power_dpm_force_performance_level")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(id: &str, like: &[&str], codename: &str) -> Distribution {
        let like = like.iter().map(|id| (*id).to_owned()).collect();
        Distribution { name: String::new(), id: id.into(), like, codename: codename.into() }
    }

    #[test]
    fn each_distribution_has_its_own_words() {
        let debian = distribution("debian", &[], "bookworm");
        let mint = distribution("linuxmint", &["ubuntu", "debian"], "wilma");
        let cachy = distribution("cachyos", &["arch"], "");
        let nobara = distribution("nobara", &["rhel", "centos", "fedora"], "");
        let tumbleweed = distribution("opensuse-tumbleweed", &["opensuse", "suse"], "");
        let unknown = distribution("haiku", &[], "");
        let cases = [
            (&debian, Some(AMD), "sudo apt install libvulkan1 mesa-vulkan-drivers"),
            (&mint, Some(NVIDIA), "sudo apt install libvulkan1 && sudo ubuntu-drivers install"),
            (&cachy, Some(INTEL), "sudo pacman -S vulkan-icd-loader vulkan-intel"),
            (&nobara, None, "sudo dnf install vulkan-loader mesa-vulkan-drivers"),
            (&tumbleweed, Some(AMD), "sudo zypper install libvulkan1 libvulkan_radeon"),
        ];
        for (distribution, vendor, line) in cases {
            assert_eq!(install_driver(distribution, vendor), line);
        }
        assert!(install_driver(&unknown, None).starts_with("# "));
        assert!(
            newer_driver(&debian, AMD).starts_with("sudo apt install -t bookworm-backports mesa-vulkan-drivers  #")
        );
        assert_eq!(newer_driver(&mint, INTEL), "sudo apt update && sudo apt full-upgrade");
    }
}
