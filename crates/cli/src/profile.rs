//! The profile of a device: a name for its family and memory, such as `amd-rdna4-32gb`.
//!
//! Made from PCI ids, the kind of device that Vulkan reports, and what the kernel knows of the chip; never from names.
//! It is kept nowhere: each start makes it anew, so it is right after a card was changed.

use crate::cards::{AMD, APPLE, Generation, INTEL, NVIDIA};

/// What a profile follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// PCI vendor.
    pub(crate) vendor_id: u32,
    /// PCI device.
    pub(crate) device_id: u32,
    /// Bytes of device-local memory.
    pub(crate) heap_bytes: u64,
    /// Runs on the CPU.
    pub(crate) is_cpu: bool,
    /// Shares the CPU's memory.
    pub(crate) is_integrated: bool,
    /// Version of the graphics block, where the kernel tells it: major, minor.
    pub(crate) block: Option<(u32, u32)>,
}

/// Sizes of memory that are sold, in gigabytes (2^30).
const SOLD_GB: [u32; 23] = [1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 18, 20, 24, 32, 36, 40, 48, 64, 80, 96, 128, 141, 192];

impl Traits {
    /// AMD's generation, if it is one that we know: as the card tells, or else by its PCI id.
    pub(crate) fn generation(&self) -> Option<Generation> {
        let told = self.block.and_then(|(major, minor)| Generation::of_block(major, minor));
        let amd = self.vendor_id == AMD && !self.is_cpu;
        if amd { told.or_else(|| Generation::of_device(self.device_id)) } else { None }
    }

    /// The profile's name.
    pub(crate) fn profile(&self) -> String {
        let gb = memory_gb(self.heap_bytes);
        match self.vendor_id {
            _ if self.is_cpu => "cpu".to_owned(),
            AMD if self.is_integrated => "amd-apu".to_owned(),
            AMD => match self.generation() {
                Some(generation) => format!("amd-{}-{gb}gb", generation.name()),
                None => format!("amd-{gb}gb"),
            },
            NVIDIA => format!("nvidia-{gb}gb"),
            INTEL if self.is_integrated => "intel-igpu".to_owned(),
            INTEL => format!("intel-arc-{gb}gb"),
            APPLE => format!("apple-silicon-{gb}gb"),
            _ => format!("gpu-{gb}gb"),
        }
    }
}

/// The size that a memory is sold as: a driver keeps some of it for itself. A size that nobody sells stands as it is.
pub(crate) fn memory_gb(heap_bytes: u64) -> u32 {
    let gb = heap_bytes as f64 / f64::from(1u32 << 30);
    // A driver keeps less than 4 %.
    let sold = SOLD_GB.iter().copied().find(|&sold| gb <= f64::from(sold) * 1.001 && gb >= f64::from(sold) * 0.96);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float to an integer saturates")]
    sold.unwrap_or_else(|| gb.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCRETE: Traits =
        Traits { vendor_id: AMD, device_id: 0, heap_bytes: 0, is_cpu: false, is_integrated: false, block: None };

    fn card(vendor_id: u32, device_id: u32, mib: u64) -> Traits {
        Traits { vendor_id, device_id, heap_bytes: mib << 20, ..DISCRETE }
    }

    #[test]
    fn profiles_follow_from_ids_and_memory() {
        let apu = Traits { is_integrated: true, ..card(AMD, 0x1586, 98_304) };
        let igpu = Traits { is_integrated: true, ..card(INTEL, 0x46a6, 16_000) };
        let lavapipe = Traits { is_cpu: true, ..card(0x10005, 0, 24_000) };
        // Memory as drivers report it, in MiB.
        let cases = [
            (card(AMD, 0x7551, 32_624), "amd-rdna4-32gb"),
            (card(AMD, 0x7550, 16_304), "amd-rdna4-16gb"),
            (card(AMD, 0x744c, 24_560), "amd-rdna3-24gb"),
            (card(AMD, 0x747e, 16_368), "amd-rdna3-16gb"),
            (card(AMD, 0x73bf, 16_368), "amd-rdna2-16gb"),
            (card(AMD, 0x67df, 8_192), "amd-8gb"),
            (card(NVIDIA, 0x2684, 24_564), "nvidia-24gb"),
            (card(NVIDIA, 0x2335, 143_771), "nvidia-141gb"),
            (card(INTEL, 0x56a0, 16_256), "intel-arc-16gb"),
            (card(APPLE, 0, 32_768), "apple-silicon-32gb"),
            (card(0x1234, 0, 4_096), "gpu-4gb"),
            (apu, "amd-apu"),
            (igpu, "intel-igpu"),
            (lavapipe, "cpu"),
        ];
        for (traits, profile) in cases {
            assert_eq!(traits.profile(), profile, "{traits:x?}");
        }
    }

    #[test]
    fn a_card_that_is_newer_than_the_table_tells_its_generation_itself() {
        let unknown = card(AMD, 0x75ff, 32_624);
        assert_eq!(unknown.profile(), "amd-32gb");
        assert_eq!(Traits { block: Some((12, 0)), ..unknown }.profile(), "amd-rdna4-32gb");
    }

    #[test]
    fn another_card_is_another_profile() {
        let (before, after) = (card(AMD, 0x744c, 24_560), card(AMD, 0x7551, 32_624));
        assert_ne!(before.profile(), after.profile());
    }
}
