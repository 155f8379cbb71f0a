//! Keys of clients, compared in constant time.
//!
//! A key is kept and compared as its SHA-256, so that the comparison takes the same time whatever the key's length and
//! however much of it is right, and every key of the list is compared with every offer.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// Least length of a key: shorter ones can be guessed over the network.
const KEY_BYTES_MIN: usize = 8;
/// Most length of a key.
const KEY_BYTES_MAX: usize = 1024;
/// Most keys.
const KEYS_MAX: usize = 4096;

/// The keys that open a server.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// A list of keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// One is too short, too long or not printable ASCII.
    #[error("key {place} must be {KEY_BYTES_MIN} to {KEY_BYTES_MAX} printable ASCII characters without spaces")]
    Malformed {
        /// Its place in the list, from 1.
        place: usize,
    },
    /// There are too many.
    #[error("there are {n} keys, at most {KEYS_MAX} are taken")]
    TooMany {
        /// How many.
        n: usize,
    },
    /// A file with none in it would leave the server open.
    #[error("the file has no key in it")]
    None,
}

impl Keys {
    /// Takes a list of keys.
    ///
    /// # Errors
    /// A key that is no key, by its place in the list.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Keys, KeysError> {
        let mut sums = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            let length = KEY_BYTES_MIN..=KEY_BYTES_MAX;
            if !length.contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(KeysError::Malformed { place: at + 1 });
            }
            sums.push(Sha256::digest(key).into());
        }
        if sums.len() > KEYS_MAX {
            return Err(KeysError::TooMany { n: sums.len() });
        }
        Ok(Keys(sums))
    }

    /// Reads the text of a file: a key a line; empty lines and lines that begin with `#` are left out.
    ///
    /// # Errors
    /// As [`Keys::new`], and [`KeysError::None`].
    pub fn from_file_text(text: &str) -> Result<Keys, KeysError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys = Keys::new(lines)?;
        if keys.0.is_empty() { Err(KeysError::None) } else { Ok(keys) }
    }

    /// These and those.
    #[must_use]
    pub fn and(mut self, other: Keys) -> Keys {
        self.0.extend(other.0);
        self
    }

    /// Whether anybody may enter.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `offer` is one of the keys.
    #[must_use]
    pub fn accept(&self, offer: &[u8]) -> bool {
        let sum: [u8; 32] = Sha256::digest(offer).into();
        let found = self.0.iter().fold(Choice::from(0), |found, key| found | key.ct_eq(&sum));
        found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, KeysError};

    #[test]
    fn only_a_key_of_the_list_opens() {
        let keys = Keys::new(["first-key-1", "second-key-2"]).unwrap();
        for (offer, opens) in [
            ("first-key-1", true),
            ("second-key-2", true),
            ("first-key-", false),
            ("first-key-11", false),
            ("", false),
            ("FIRST-KEY-1", false),
        ] {
            assert_eq!(keys.accept(offer.as_bytes()), opens, "{offer}");
        }
        assert!(!keys.is_open() && Keys::default().is_open());
        assert_eq!(format!("{keys:?}"), "2 keys", "a key never reaches a log");
    }

    #[test]
    fn a_file_has_a_key_a_line() {
        let keys = Keys::from_file_text("# ours\n\n  first-key-1  \nsecond-key-2\n").unwrap();
        assert!(keys.accept(b"first-key-1") && keys.accept(b"second-key-2") && !keys.accept(b"# ours"));
        assert_eq!(Keys::from_file_text("# nothing\n").unwrap_err(), KeysError::None);
        assert_eq!(Keys::from_file_text("short\n").unwrap_err(), KeysError::Malformed { place: 1 });
        assert_eq!(Keys::new(["long enough", "x"]).unwrap_err(), KeysError::Malformed { place: 1 });
    }
}
