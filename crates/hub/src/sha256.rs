//! A SHA-256 sum that cannot be malformed.

use std::fmt;

use sha2::{Digest, Sha256};

/// A SHA-256 sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256Sum([u8; 32]);

impl Sha256Sum {
    /// The sum that 64 lower-case hexadecimal digits stand for. For constants: anything else is a compile error.
    ///
    /// # Panics
    /// If the text is not a sum.
    #[must_use]
    pub const fn from_hex(text: &str) -> Sha256Sum {
        let text = text.as_bytes();
        assert!(text.len() == 64, "a SHA-256 sum has 64 hexadecimal digits");
        let mut sum = [0; 32];
        let mut i = 0;
        while i < 32 {
            sum[i] = digit(text[2 * i]) << 4 | digit(text[2 * i + 1]);
            i += 1;
        }
        Sha256Sum(sum)
    }

    /// The sum that a server or a record writes, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Sha256Sum> {
        let is_sum = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_sum.then(|| Sha256Sum::from_hex(text))
    }

    /// The sum of what `hasher` has seen.
    pub(crate) fn of(hasher: &Sha256) -> Sha256Sum {
        Sha256Sum(hasher.clone().finalize().into())
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => panic!("a SHA-256 sum is written in lower-case hexadecimal digits"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, Sha256, Sha256Sum};

    /// The example of FIPS 180-2, B.1.
    #[test]
    fn the_published_example_holds() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Sum::of(&Sha256::new_with_prefix(b"abc")), Sha256Sum::from_hex(text));
        assert_eq!(Sha256Sum::from_hex(text).to_string(), text);
    }

    #[test]
    fn a_malformed_sum_is_refused() {
        for text in ["", "ba78", &"g".repeat(64), &"A".repeat(64)] {
            assert!(std::panic::catch_unwind(|| Sha256Sum::from_hex(text)).is_err(), "{text}");
            assert_eq!(Sha256Sum::parse(text), None);
        }
    }
}
