//! How much memory this machine has to give.

use std::fs;

/// Where Linux tells what it has, and what it lets this group of processes have.
const SYSTEM: &str = "/proc/meminfo";
const GROUP_LIMIT: &str = "/sys/fs/cgroup/memory.max";
const GROUP_USAGE: &str = "/sys/fs/cgroup/memory.current";

/// Bytes that programs can still take without others being moved to the disk; `None` where the system does not say.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let system = field(&read(SYSTEM)?, "MemAvailable")?;
    Some(system.min(group_bytes(read(GROUP_LIMIT).as_deref(), read(GROUP_USAGE).as_deref())))
}

/// Bytes of memory that this machine has; `None` where the system does not say.
#[must_use]
pub fn total_bytes() -> Option<u64> {
    field(&fs::read_to_string(SYSTEM).ok()?, "MemTotal")
}

/// A line `Name:  1234 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// What a limit leaves; without one, everything.
fn group_bytes(limit: Option<&str>, usage: Option<&str>) -> u64 {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    number(limit).map_or(u64::MAX, |limit| limit.saturating_sub(number(usage).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{available_bytes, field, group_bytes, total_bytes};

    #[test]
    fn what_linux_writes_is_read() {
        let text = "MemTotal:       16318400 kB\nMemFree:          120 kB\nMemAvailable:    8159200 kB\n";
        assert_eq!(field(text, "MemTotal"), Some(16_318_400 * 1024));
        assert_eq!(field(text, "MemAvailable"), Some(8_159_200 * 1024));
        for bad in ["", "MemTotal: x kB", "MemTotal: 5", "MemTotal 5 kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(field(bad, "MemTotal"), None, "{bad}");
        }
        assert_eq!(group_bytes(Some("max\n"), Some("5\n")), u64::MAX);
        assert_eq!(group_bytes(Some("100\n"), Some("30\n")), 70);
        assert_eq!(group_bytes(Some("100\n"), Some("130\n")), 0);
        assert_eq!(group_bytes(None, None), u64::MAX);
        if let (Some(available), Some(total)) = (available_bytes(), total_bytes()) {
            assert!(available <= total && total > 1 << 20, "{available} of {total}");
        }
    }
}
