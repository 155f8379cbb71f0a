//! A model of the hub by the name of its repository: `owner/name`, `owner/name:Q4_K_M`, `owner/name@revision:Q4_K_M`.

use std::fmt;

use crate::{Error, ModelId};

/// Characters of the longest reference.
const LENGTH_MAX: usize = 256;
/// What people put before `owner/name` when they copy it.
const PREFIXES: [&str; 4] = ["https://huggingface.co/", "huggingface.co/", "hf.co/", "hf:"];

/// A repository of the hub, and which of its models is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubReference {
    repository: String,
    revision: String,
    quantisation: Option<String>,
}

impl HubReference {
    /// Reads what a user wrote. `None` if it is no such name at all: without a slash it is an id.
    ///
    /// # Errors
    /// [`Error::BadReference`] for a name that no repository can have.
    pub fn parse(text: &str) -> Option<Result<HubReference, Error>> {
        let name = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let is_path = name.starts_with(['/', '.', '~']) || name.matches('/').count() != 1;
        if is_path && name == text {
            return None;
        }
        let bad = || Error::BadReference { text: text.chars().take(LENGTH_MAX).collect() };
        Some(parse(name).filter(|_| text.len() <= LENGTH_MAX).ok_or_else(bad))
    }

    /// `owner/name`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// A branch, a tag or a commit; `main` unless the user said otherwise.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Which of the repository's models, as the user wrote it.
    #[must_use]
    pub fn quantisation(&self) -> Option<&str> {
        self.quantisation.as_deref()
    }

    /// The folder of the model of that name in the cache. The hub allows no `--` in names, so that no two models share
    /// one, except for capitals, which its names do not differ by either.
    ///
    /// # Errors
    /// [`Error::BadId`] for names that are no folder's.
    pub fn id(&self, quantisation: &str) -> Result<ModelId, Error> {
        let revision = if self.revision == "main" { String::new() } else { format!("--{}", self.revision) };
        let text = format!("{}{revision}--{quantisation}", self.repository.replace('/', "--"));
        ModelId::new(&text.to_ascii_lowercase())
    }

    /// What the ids of all models of this repository and revision begin with.
    #[must_use]
    pub fn id_prefix(&self) -> String {
        self.id("").map_or_else(|_| String::new(), |id| id.to_string())
    }
}

impl fmt::Display for HubReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if self.revision != "main" {
            write!(f, "@{}", self.revision)?;
        }
        self.quantisation.iter().try_for_each(|quantisation| write!(f, ":{quantisation}"))
    }
}

fn parse(name: &str) -> Option<HubReference> {
    let (rest, quantisation) = match name.split_once(':') {
        Some((rest, quantisation)) => (rest, Some(quantisation)),
        None => (name, None),
    };
    let (repository, revision) = rest.split_once('@').unwrap_or((rest, "main"));
    let (owner, repository_name) = repository.split_once('/')?;
    let is_sound = is_word(owner) && is_word(repository_name) && is_word(revision) && quantisation.is_none_or(is_word);
    is_sound.then(|| HubReference {
        repository: repository.to_owned(),
        revision: revision.to_owned(),
        quantisation: quantisation.map(str::to_owned),
    })
}

/// A part of a name: it goes into addresses and, in small letters, into the name of a folder, and nothing is escaped.
fn is_word(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let begins_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    begins_well && text.bytes().all(plain) && !text.contains("..") && !text.contains("--")
}

#[cfg(test)]
mod tests {
    use super::HubReference;

    #[test]
    fn names_of_repositories_are_read() {
        let cases = [
            ("unsloth/Qwen3-4B-GGUF:Q4_K_M", "unsloth/Qwen3-4B-GGUF", "main", Some("Q4_K_M")),
            ("unsloth/Qwen3-4B-GGUF", "unsloth/Qwen3-4B-GGUF", "main", None),
            ("a/b@0123abc:UD-Q4_K_XL", "a/b", "0123abc", Some("UD-Q4_K_XL")),
            ("hf.co/a/b:q8_0", "a/b", "main", Some("q8_0")),
            ("hf:a/b", "a/b", "main", None),
            ("https://huggingface.co/a/b", "a/b", "main", None),
            ("a/b:model-q4.gguf", "a/b", "main", Some("model-q4.gguf")),
        ];
        for (text, repository, revision, quantisation) in cases {
            let read = HubReference::parse(text).unwrap().unwrap();
            assert_eq!((read.repository(), read.revision(), read.quantisation()), (repository, revision, quantisation));
        }
        for id in ["qwen35-2b-q4k-m", "", "/a/b", "./a", "a/b/c", "../b", "~/b", "a//b"] {
            assert!(HubReference::parse(id).is_none(), "{id}");
        }
        let long = format!("a/{}", "b".repeat(300));
        let bad = [
            "a/",
            "/b:",
            "a/b:",
            "a/..b",
            "a/b c",
            "a/b?x",
            "a/b@:q",
            "a/b:../c",
            "a/b\u{1b}[31m",
            "a/b--c",
            "hf:b",
            &long,
        ];
        for text in bad {
            assert!(HubReference::parse(text).is_none_or(|read| read.is_err()), "{text:?}");
        }
    }

    #[test]
    fn an_id_is_a_folder_of_its_own() {
        let read = |text| HubReference::parse(text).unwrap().unwrap();
        let id = read("unsloth/Qwen3-4B-GGUF:Q4_K_M").id("Q4_K_M").unwrap();
        assert_eq!(id.as_str(), "unsloth--qwen3-4b-gguf--q4_k_m");
        assert!(id.as_str().starts_with(&read("unsloth/Qwen3-4B-GGUF").id_prefix()));
        assert_eq!(read("a/b@v1:Q8_0").id("Q8_0").unwrap().as_str(), "a--b--v1--q8_0");
        assert_eq!(read("a/b@v1:Q8_0").to_string(), "a/b@v1:Q8_0");
    }
}
