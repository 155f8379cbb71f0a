//! The models that are known by name: where their files lie, how to check them, how their authors run them.
//!
//! Constant data, checked when this crate is compiled. Each entry names one file, by its size and its sum as the hub
//! publishes them, so that what is fetched next year is what was meant today. The layers are those that the crate `models`
//! declares from the published hyperparameters.

mod entries;

use zinc_models::declaration::{Declaration, Fault};

use crate::{ModelId, Sha256Sum};

pub use entries::ENTRIES;

/// A model of the catalog.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its id.
    pub id: ModelId,
    /// Its name for people.
    pub name: &'static str,
    /// Its family: models that share an architecture and a tokenizer.
    pub family: &'static str,
    /// The architecture that its file names in `general.architecture`.
    pub architecture: &'static str,
    /// Its layers, from the hyperparameters of the crate `models`, where they are checked when that crate is compiled.
    pub declare: fn() -> Result<Declaration, Fault>,
    /// Tokens of context in training.
    pub context_train: u32,
    /// Where the hub has it.
    pub hub: HubFile,
    /// A Python package that carries the same file.
    pub package: Option<Package>,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// SHA-256 of the file; `None` if none is published.
    pub sha256: Option<Sha256Sum>,
    /// The mix of block formats, by the name that its makers gave it.
    pub quantisation: &'static str,
    /// Tokens of context if the user asks for nothing else; never more than the model was trained for.
    pub context_tokens: u32,
    /// How the authors sample from it when it answers at once.
    pub sampling: Sampling,
    /// Whether it can think before it answers.
    pub thinking: Thinking,
    /// Its licence, as an SPDX identifier where there is one.
    pub licence: &'static str,
    /// How far this engine was compared with others on it.
    pub verified: Verified,
}

/// A file of the model hub.
#[derive(Clone, Debug)]
pub struct HubFile {
    /// `owner/name`.
    pub repository: &'static str,
    /// Commit of the repository.
    pub revision: &'static str,
    /// Name of the file in it, which it keeps in the cache.
    pub file: &'static str,
}

/// A wheel with a model file in it.
#[derive(Clone, Debug)]
pub struct Package {
    /// What pip is asked for, with its version.
    pub requirement: &'static str,
    /// Path of the model file in the wheel.
    pub member: &'static str,
    /// Bytes of the wheel.
    pub size_bytes: u64,
}

/// Parameters of the sampler, as the authors of a model recommend them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits.
    pub temperature: f32,
    /// Tokens that stay; 0 means all.
    pub top_k: u32,
    /// Probability that stays; 1 means all.
    pub top_p: f32,
    /// Least probability, relative to the greatest, that stays; 0 means any.
    pub min_p: f32,
    /// Subtracted from the logits of tokens that have occurred.
    pub presence_penalty: f32,
}

/// Whether a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Thinking {
    /// It does not.
    No,
    /// Its chat template has a switch, and says what holds if nobody touches it.
    Switch {
        /// How the authors sample from it when it thinks.
        sampling: Sampling,
    },
    /// It always does, sampled as any answer.
    Always,
}

/// How far this engine was compared with independent implementations on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// This very file: token ids, logits and greedy text.
    ThisFile,
    /// A file of the same shapes, types and size with made-up weights has run on a device; its logits were compared on
    /// small models of the architecture.
    FullSize,
    /// Small models of the same architecture. Of this size, only the hyperparameters were checked.
    SmallModels,
}

impl Verified {
    /// In a few words, for tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Verified::ThisFile => "this file",
            Verified::FullSize => "full size",
            Verified::SmallModels => "small models",
        }
    }
}

/// The model that runs if nobody names one.
pub const DEFAULT: &Entry = &ENTRIES[0];

/// The entry of an id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.id.as_str() == id)
}

const _: () = {
    let mut i = 0;
    while i < ENTRIES.len() {
        check(&ENTRIES[i]);
        i += 1;
    }
};

/// Stops the build at an entry that cannot be.
const fn check(entry: &Entry) {
    assert!(entry.context_tokens > 0, "a model of the catalog has a context");
    assert!(entry.context_tokens <= entry.context_train, "the context is longer than the model was trained for");
    assert!(entry.size_bytes > 0, "a model of the catalog has a size");
    // Without a commit, only the sum tells which file is meant.
    assert!(entry.hub.revision.len() == 40 || entry.sha256.is_some(), "a branch needs a sum");
    check_sampling(&entry.sampling);
    if let Thinking::Switch { sampling } = &entry.thinking {
        check_sampling(sampling);
    }
}

const fn check_sampling(sampling: &Sampling) {
    let Sampling { temperature, top_p, min_p, presence_penalty, top_k: _ } = *sampling;
    assert!(temperature >= 0.0 && temperature <= 2.0, "the temperature is not from 0 to 2");
    assert!(top_p > 0.0 && top_p <= 1.0, "top_p is not above 0 and at most 1");
    assert!(min_p >= 0.0 && min_p < 1.0, "min_p is not from 0 to below 1");
    assert!(presence_penalty >= -2.0 && presence_penalty <= 2.0, "the presence penalty is not from -2 to 2");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{DEFAULT, ENTRIES, Verified, find};

    #[test]
    fn every_id_finds_its_own_entry() {
        let ids: HashSet<&str> = ENTRIES.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids.len(), ENTRIES.len());
        assert!(ENTRIES.iter().all(|entry| std::ptr::eq(find(entry.id.as_str()).unwrap(), entry)));
        assert!(find("no-such-model").is_none());
    }

    /// Names of files become paths in the cache and parts of addresses, and nothing in them is escaped.
    #[test]
    fn every_file_and_address_is_plain() {
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        for entry in &ENTRIES {
            assert!(plain(entry.hub.file) && entry.hub.file.ends_with(".gguf"), "{}", entry.id);
            let (owner, name) = entry.hub.repository.split_once('/').unwrap();
            assert!(plain(owner) && plain(name), "{}", entry.id);
            assert!(plain(entry.hub.revision) && !entry.id.as_str().contains("--"), "{}", entry.id);
        }
    }

    /// The default needs no account, no licence to accept and little space, and has a second source.
    #[test]
    fn the_default_is_free_and_small() {
        assert_eq!(DEFAULT.licence, "Apache-2.0");
        assert!(DEFAULT.size_bytes < 100_000_000);
        assert!(DEFAULT.package.is_some() && ENTRIES.iter().filter(|entry| entry.package.is_some()).count() == 1);
    }

    /// The file's bits for each parameter are those of its types: a size, a sum or a shape of another model would show.
    #[test]
    fn sizes_fit_the_shapes() {
        for entry in &ENTRIES {
            let n_parameters = (entry.declare)().unwrap().n_parameters();
            let bits = entry.size_bytes as f64 * 8.0 / n_parameters as f64;
            // Q4_K_M has 4.8 in large matrices; embeddings of small models are stored with more, and every file has its
            // tokens in the header. Some files of Gemma 4 keep layers' caches that no layer reads.
            let most = if n_parameters < 700_000_000 { 9.0 } else { 6.3 };
            assert!((4.4..most).contains(&bits), "{}: {bits:.2} bits for each of {n_parameters} parameters", entry.id);
        }
    }

    /// Words on the fixtures and measurements of this tree.
    #[test]
    fn nothing_is_called_verified_that_was_not() {
        let of = |level| ENTRIES.iter().filter(move |e| e.verified == level).map(|e| e.id.as_str()).collect::<Vec<_>>();
        assert_eq!(of(Verified::ThisFile), ["smollm2-135m-instruct-q4_1", "qwen25-coder-0.5b-q4k-m"]);
        assert_eq!(of(Verified::FullSize), ["qwen35-2b-q4k-m", "qwen3-8b-q4k-m", "qwen35-35b-a3b-q4k-xl"]);
    }
}
