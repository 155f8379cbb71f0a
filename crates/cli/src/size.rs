//! Sizes of memory as people write them: `512MiB`, `2G`, `1.5 GB`, `1000000`.

/// Units, the longer first where one ends with another.
const UNITS: [(&str, f64); 10] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("b", 1.0),
];
/// 16 TiB: more than any machine has.
const BYTES_MAX: f64 = 17_592_186_044_416.0;

/// Bytes of a size.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let unit =
        UNITS.iter().find_map(|(name, bytes)| lower.strip_suffix(name).map(|number| (number.trim_end(), *bytes)));
    let (number, unit) = unit.unwrap_or((lower.as_str(), 1.0));
    let bytes = number.parse::<f64>().ok().map(|n| n * unit).filter(|n| (1.0..=BYTES_MAX).contains(n));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded just before")]
    let bytes = bytes.map(|n| n as u64);
    bytes.ok_or_else(|| "it must be a number of bytes up to 16 TiB, as in 512MiB or 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("1000", 1000),
            ("2G", 2 << 30),
            ("512MiB", 512 << 20),
            ("1.5 GB", 1_500_000_000),
            ("64k", 65_536),
            ("7 b", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1", "0", "nan", "inf", "1e30", "5 apples", "99999G"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
