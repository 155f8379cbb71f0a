//! Names of models that are safe as names of folders.

use std::borrow::Cow;
use std::fmt;

use crate::Error;

/// Characters of the longest id: an owner, a repository and a quantisation.
const LENGTH_MAX: usize = 160;
/// Characters that are shown of what is no id.
const SHOWN_MAX: usize = 64;

/// A model's id: small letters, digits, `.`, `_` and `-`, beginning with a letter or digit, without two dots in a row.
/// It names a folder of the cache, so that nothing else may be in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(Cow<'static, str>);

impl ModelId {
    /// The id that a user wrote.
    ///
    /// # Errors
    /// [`Error::BadId`] if it cannot name a folder of the cache.
    pub fn new(text: &str) -> Result<ModelId, Error> {
        match is_id(text) {
            true => Ok(ModelId(Cow::Owned(text.to_owned()))),
            false => Err(Error::BadId { id: text.chars().take(SHOWN_MAX).collect() }),
        }
    }

    /// The id of a constant; a wrong one is a compile error there.
    ///
    /// # Panics
    /// If the text is no id.
    #[must_use]
    pub const fn fixed(text: &'static str) -> ModelId {
        assert!(
            is_id(text),
            "a model id has small letters, digits, '.', '_' and '-', and begins with a letter or digit"
        );
        ModelId(Cow::Borrowed(text))
    }

    /// The text of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_id(text: &str) -> bool {
    let text = text.as_bytes();
    if text.is_empty() || text.len() > LENGTH_MAX {
        return false;
    }
    let mut i = 0;
    while i < text.len() {
        let fits = match text[i] {
            b'a'..=b'z' | b'0'..=b'9' => true,
            b'_' | b'-' => i > 0,
            b'.' => i > 0 && text[i - 1] != b'.',
            _ => false,
        };
        if !fits {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Error, ModelId};

    #[test]
    fn only_names_of_folders_pass() {
        for good in ["a", "smollm2-135m-instruct-q4_1", "qwen2.5", "0", &"x".repeat(160)] {
            assert_eq!(ModelId::new(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(161);
        for bad in [
            "", ".", "..", "a..b", "../x", "/x", "a/b", "a\\b", "A", "-a", ".a", "a b", "a\0", "a\n", "é", "con:",
            &long,
        ] {
            assert!(matches!(ModelId::new(bad), Err(Error::BadId { .. })), "{bad:?}");
        }
    }
}
