//! The engine's limits: what the user may choose, and what follows from it.
//!
//! Everything that the engine allocates is derived here and checked before the first byte is
//! taken; afterwards no limit changes.

use zinc_graph::Graph;
use zinc_graph::backend::{KvFormat, StateSizes};
use zinc_graph::section::ResourceKind;

use crate::kv::{PAGE_TOKENS, pages_for};
use crate::scheduler::SchedulerLimits;

const _: () =
    assert!(PAGE_TOKENS == zinc_graph::batch::PAGE_TOKENS, "the scheduler and the kernels count the same pages");

/// Most tokens of one sequence.
pub const CONTEXT_TOKENS_MAX: u32 = 1 << 24;
/// Most sequences at once.
pub const SEQUENCES_MAX: u32 = 1024;
/// Most tokens of one step.
pub const STEP_TOKENS_MAX: u32 = 8192;
/// Most requests in the queue.
pub const QUEUE_MAX: u32 = 1 << 20;
/// Most bytes of keys and values, and of recurrent state: 16 TiB. The device refuses earlier;
/// this keeps the sums inside their types.
pub const STATE_BYTES_MAX: u64 = 1 << 44;

/// What an engine is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens of one sequence, prompt and answer together.
    pub context_tokens: u32,
    /// Sequences that run at once.
    pub sequences_max: u32,
    /// Tokens of one step: all decodes, and as much of the prompts as fits beside them.
    pub step_tokens: u32,
    /// Tokens that all sequences together can keep; `None` is a whole context for each.
    pub kv_tokens: Option<u32>,
    /// Storage of keys and values.
    pub kv_format: KvFormat,
    /// Requests that wait at most.
    pub queue_max: u32,
}

/// The limits that follow, all checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What the user chose.
    pub config: EngineConfig,
    /// Sizes of the persistent state.
    pub state: StateSizes,
    /// Bytes of keys and values.
    pub kv_bytes: u64,
    /// Bytes of recurrent state.
    pub recurrent_bytes: u64,
}

impl EngineConfig {
    /// Derives and checks every size for a graph.
    ///
    /// # Errors
    /// The number that cannot be, and its bounds.
    pub fn limits(self, graph: &Graph) -> Result<Limits, ConfigError> {
        let counts = [
            ("context_tokens", self.context_tokens, 2, CONTEXT_TOKENS_MAX),
            ("sequences_max", self.sequences_max, 1, SEQUENCES_MAX),
            ("step_tokens", self.step_tokens, self.sequences_max, STEP_TOKENS_MAX),
            ("queue_max", self.queue_max, 1, QUEUE_MAX),
            ("kv_tokens", self.kv_tokens.unwrap_or(self.context_tokens), 2, u32::MAX - PAGE_TOKENS),
        ];
        for (name, value, min, max) in counts {
            if value < min || value > max {
                return Err(ConfigError::Range { name, value, min, max });
            }
        }
        let n_pages = match self.kv_tokens {
            Some(kv_tokens) => u64::from(pages_for(kv_tokens)),
            None => u64::from(pages_for(self.context_tokens)) * u64::from(self.sequences_max),
        };
        let (kv_bytes, recurrent_bytes) = self.bytes(graph, n_pages).unwrap_or((u64::MAX, u64::MAX));
        // A slot number is page * 16 + place and has to fit 32 bits.
        let n_pages_small = u32::try_from(n_pages).ok().filter(|n| n.checked_mul(PAGE_TOKENS).is_some());
        match n_pages_small {
            Some(n_pages) if kv_bytes <= STATE_BYTES_MAX && recurrent_bytes <= STATE_BYTES_MAX => {
                let state = StateSizes { n_pages, kv_format: self.kv_format, n_slots: self.sequences_max };
                Ok(Limits { config: self, state, kv_bytes, recurrent_bytes })
            }
            _ => Err(ConfigError::TooLarge {
                context_tokens: self.context_tokens,
                sequences_max: self.sequences_max,
                n_pages,
                bytes: kv_bytes.max(recurrent_bytes),
            }),
        }
    }

    /// Bytes of keys and values and of recurrent state; none if they pass 64 bits.
    fn bytes(&self, graph: &Graph, n_pages: u64) -> Option<(u64, u64)> {
        let n_kv_tokens = n_pages.checked_mul(u64::from(PAGE_TOKENS))?;
        let (mut kv, mut recurrent) = (0u64, 0u64);
        for resource in &graph.resources {
            match resource.kind {
                ResourceKind::Kv { n_kv_heads, head_dim } => {
                    let n = n_kv_tokens.checked_mul(u64::from(n_kv_heads).checked_mul(u64::from(head_dim))?)?;
                    kv = kv.checked_add(self.kv_format.bytes(n.checked_mul(2).filter(|&n| n <= STATE_BYTES_MAX)?))?;
                }
                ResourceKind::State { len } => {
                    let n = u64::from(len).checked_mul(u64::from(self.sequences_max))?;
                    recurrent = recurrent.checked_add(n.checked_mul(4)?)?;
                }
            }
        }
        Some((kv, recurrent))
    }
}

impl Limits {
    /// The part that the scheduler needs.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerLimits {
        SchedulerLimits {
            n_pages: self.state.n_pages,
            sequences_max: self.config.sequences_max,
            step_tokens: self.config.step_tokens,
            queue_max: self.config.queue_max,
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number outside its bounds.
    #[error("`{name}` is {value}; it must be {min} to {max}")]
    Range {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u32,
        /// The least allowed.
        min: u32,
        /// The most allowed.
        max: u32,
    },
    /// More state than anything could hold.
    #[error(
        "a context of {context_tokens} tokens for {sequences_max} sequences needs {n_pages} pages, {bytes} bytes of state, \
         more than any device has; lower one of them"
    )]
    TooLarge {
        /// Tokens of a sequence.
        context_tokens: u32,
        /// Sequences at once.
        sequences_max: u32,
        /// Pages that would be needed.
        n_pages: u64,
        /// Bytes that would be needed, `u64::MAX` for any number beyond.
        bytes: u64,
    },
}

/// Something that works and may disappoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Positions beyond those of training.
    #[error(
        "the context of {context_tokens} tokens is longer than the {context_train} the model was trained with; quality falls beyond that"
    )]
    ContextBeyondTraining {
        /// What was asked for.
        context_tokens: u32,
        /// What the model knows.
        context_train: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_graph::graph::GraphResource;

    const CONFIG: EngineConfig = EngineConfig {
        context_tokens: 100,
        sequences_max: 3,
        step_tokens: 64,
        kv_tokens: None,
        kv_format: KvFormat::F16,
        queue_max: 8,
    };

    fn graph() -> Graph {
        let kinds = [ResourceKind::Kv { n_kv_heads: 2, head_dim: 64 }, ResourceKind::State { len: 10 }];
        let resources = kinds.iter().chain(&kinds).map(|&kind| GraphResource { kind, layer: 0 }).collect();
        Graph { resources, ..Graph::default() }
    }

    #[test]
    fn sizes_follow_from_the_configuration() {
        let limits = CONFIG.limits(&graph()).unwrap();
        assert_eq!(limits.state, StateSizes { n_pages: 21, kv_format: KvFormat::F16, n_slots: 3 });
        assert_eq!(
            limits.kv_bytes,
            21 * 16 * (2 * 64) * 2 * 2 * 2,
            "tokens * elements * key and value * 2 bytes * 2 layers"
        );
        assert_eq!(limits.recurrent_bytes, 10 * 3 * 4 * 2);
        let limits = EngineConfig { kv_tokens: Some(150), ..CONFIG }.limits(&graph()).unwrap();
        assert_eq!(limits.state.n_pages, 10);
    }

    #[test]
    fn absurd_sizes_are_refused_with_their_numbers() {
        let check = |config: EngineConfig| config.limits(&graph()).unwrap_err();
        let range = |name, value, min, max| ConfigError::Range { name, value, min, max };
        assert_eq!(
            check(EngineConfig { context_tokens: u32::MAX, ..CONFIG }),
            range("context_tokens", u32::MAX, 2, 1 << 24)
        );
        assert_eq!(check(EngineConfig { sequences_max: 0, ..CONFIG }), range("sequences_max", 0, 1, 1024));
        assert_eq!(check(EngineConfig { step_tokens: 2, ..CONFIG }), range("step_tokens", 2, 3, 8192));
        assert_eq!(
            check(EngineConfig { kv_tokens: Some(u32::MAX), ..CONFIG }),
            range("kv_tokens", u32::MAX, 2, u32::MAX - 16)
        );
        let error = check(EngineConfig { context_tokens: 1 << 24, sequences_max: 1024, step_tokens: 1024, ..CONFIG });
        assert!(matches!(error, ConfigError::TooLarge { n_pages: 0x4000_0000, .. }), "{error}");
    }
}
