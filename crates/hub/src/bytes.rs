//! Numbers of bytes as people read them.

use std::fmt;

/// A number of bytes, shown in decimal units as disks and networks are sold: `98.4 MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
        match UNITS.iter().find(|(size, _)| self.0 >= *size) {
            // Tenths in integers, rounded down: a size is never shown larger than it is.
            Some((size, unit)) => write!(f, "{}.{} {unit}", self.0 / size, self.0 % size / (size / 10)),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn sizes_read_well() {
        let cases = [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (98_362_432, "98.3 MB"),
            (22_241_950_336, "22.2 GB"),
            (u64::MAX, "18446744.0 TB"),
        ];
        for (n, shown) in cases {
            assert_eq!(Bytes(n).to_string(), shown);
        }
    }
}
