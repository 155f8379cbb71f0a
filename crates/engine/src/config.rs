//! The engine's limits: what the user may choose, and what follows from it.
//!
//! Everything that the engine allocates is derived here and checked before the first byte is
//! taken; afterwards no limit changes.

use std::fmt;
use std::time::Duration;

use zinc_graph::Graph;
use zinc_graph::backend::{KvFormat, StateSizes};
use zinc_graph::section::ResourceKind;

use crate::kv::{KvLimits, PAGE_TOKENS, WindowLimits, pages_for, window_pages};
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
/// Most snapshots of recurrent state.
pub const SNAPSHOTS_MAX: u32 = 4096;
/// Most milliseconds between two tokens that may be asked for.
pub const DECODE_GAP_MS_MAX: u32 = 60_000;

/// Memory for keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvSize {
    /// A whole context for each sequence that may run.
    Contexts,
    /// That many tokens for all sequences together.
    Tokens(u32),
    /// As many tokens as fit that many bytes.
    Bytes(u64),
}

/// What an engine is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens of one sequence, prompt and answer together.
    pub context_tokens: u32,
    /// Sequences that run at once.
    pub sequences_max: u32,
    /// Tokens of one step: all decodes, and as much of the prompts as fits beside them.
    pub step_tokens: u32,
    /// What all sequences together can keep.
    pub kv: KvSize,
    /// Storage of keys and values.
    pub kv_format: KvFormat,
    /// Requests that wait at most.
    pub queue_max: u32,
    /// Bytes for snapshots of recurrent state, beside the states of running sequences. Only models that have such
    /// state use them.
    pub snapshot_bytes: u64,
    /// Tokens between two snapshots; a multiple of 16.
    pub snapshot_tokens: u32,
    /// A step with decodes has no more prompt tokens than are computed in that time; 16 in any case.
    pub decode_gap_max: Duration,
}

/// The limits that follow, all checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What the user chose.
    pub config: EngineConfig,
    /// Sizes of the persistent state.
    pub state: StateSizes,
    /// Tokens that layers see whose pages are of `state.n_window_pages`; 0 if there are none such.
    pub window_tokens: u32,
    /// Bytes of keys and values.
    pub kv_bytes: u64,
    /// Bytes of recurrent state, snapshots included.
    pub recurrent_bytes: u64,
    /// Snapshots of recurrent state.
    pub n_snapshots: u32,
}

/// Bytes of state that a graph needs.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// A page of the layers that see everything.
    page_bytes: u64,
    /// A page of those that see a window.
    window_page_bytes: u64,
    slot_bytes: u64,
    /// The widest window.
    window: Option<u32>,
}

/// Pages of both kinds.
#[derive(Clone, Copy, Debug)]
struct Pages {
    n_pages: u64,
    /// 0 if layers with a window share the others'.
    n_window_pages: u64,
}

impl Unit {
    fn bytes(&self, pages: Pages) -> Option<u64> {
        let of_window = if pages.n_window_pages > 0 { pages.n_window_pages } else { pages.n_pages };
        let bytes = self.page_bytes.checked_mul(pages.n_pages)?;
        bytes.checked_add(self.window_page_bytes.checked_mul(of_window)?)
    }
}

impl EngineConfig {
    /// Derives and checks every size for a graph.
    ///
    /// # Errors
    /// The number that cannot be, and its bounds.
    pub fn limits(self, graph: &Graph) -> Result<Limits, ConfigError> {
        let gap_ms = u32::try_from(self.decode_gap_max.as_millis()).unwrap_or(u32::MAX);
        let kv_tokens = if let KvSize::Tokens(n) = self.kv { n } else { self.context_tokens };
        let counts = [
            ("context_tokens", self.context_tokens, 2, CONTEXT_TOKENS_MAX),
            ("sequences_max", self.sequences_max, 1, SEQUENCES_MAX),
            ("step_tokens", self.step_tokens, self.sequences_max, STEP_TOKENS_MAX),
            ("queue_max", self.queue_max, 1, QUEUE_MAX),
            ("kv_tokens", kv_tokens, 2, u32::MAX - PAGE_TOKENS),
            ("snapshot_tokens", self.snapshot_tokens, PAGE_TOKENS, CONTEXT_TOKENS_MAX),
            ("decode_gap_max", gap_ms, 1, DECODE_GAP_MS_MAX),
        ];
        for (name, value, min, max) in counts {
            if value < min || value > max {
                return Err(ConfigError::Range { name, value, min, max });
            }
        }
        if !self.snapshot_tokens.is_multiple_of(PAGE_TOKENS) {
            return Err(ConfigError::SnapshotTokens { snapshot_tokens: self.snapshot_tokens });
        }
        let unit_of_head = self.kv_format.head_unit();
        for resource in &graph.resources {
            if let ResourceKind::Kv { head_dim, .. } = resource.kind
                && !head_dim.is_multiple_of(unit_of_head)
            {
                return Err(ConfigError::KvHead { head_dim, unit: unit_of_head });
            }
        }
        let unit = unit(graph, self.kv_format)
            .filter(|u| u.page_bytes.max(u.window_page_bytes).max(u.slot_bytes) <= STATE_BYTES_MAX);
        let pages @ Pages { n_pages, n_window_pages } = self.pages(unit)?;
        let n_snapshots = unit.map_or(0, |unit| self.n_snapshots(unit));
        let n_slots = self.sequences_max + n_snapshots;
        let kv_bytes = unit.and_then(|unit| unit.bytes(pages)).unwrap_or(u64::MAX);
        let recurrent_bytes = unit.and_then(|unit| unit.slot_bytes.checked_mul(u64::from(n_slots))).unwrap_or(u64::MAX);
        // A slot number is page * 16 + place and has to fit 32 bits.
        let small = |n: u64| u32::try_from(n).ok().filter(|n| n.checked_mul(PAGE_TOKENS).is_some());
        match small(n_pages).zip(small(n_window_pages)) {
            Some((n_pages, n_window_pages)) if kv_bytes <= STATE_BYTES_MAX && recurrent_bytes <= STATE_BYTES_MAX => {
                let state = StateSizes { n_pages, n_window_pages, kv_format: self.kv_format, n_slots };
                let window = unit.and_then(|unit| unit.window).filter(|_| n_window_pages > 0);
                Ok(Limits {
                    config: self,
                    state,
                    window_tokens: window.unwrap_or(0),
                    kv_bytes,
                    recurrent_bytes,
                    n_snapshots,
                })
            }
            _ => Err(ConfigError::TooLarge {
                context_tokens: self.context_tokens,
                sequences_max: self.sequences_max,
                n_pages,
                bytes: kv_bytes.max(recurrent_bytes),
            }),
        }
    }

    fn pages(&self, unit: Option<Unit>) -> Result<Pages, ConfigError> {
        let window = unit.and_then(|unit| unit.window).filter(|&window| window < self.context_tokens);
        let pages = |n_pages| Pages { n_pages, n_window_pages: window.map_or(0, |w| self.n_window_pages(w, n_pages)) };
        // More than all sequences can fill would never be used.
        let contexts = u64::from(pages_for(self.context_tokens)) * u64::from(self.sequences_max);
        match (self.kv, unit) {
            (KvSize::Tokens(n), _) => Ok(pages(u64::from(pages_for(n)))),
            (KvSize::Bytes(bytes), Some(unit)) => {
                let holds = |n_pages: u64| unit.bytes(pages(n_pages)).is_some_and(|needed| needed <= bytes);
                if holds(contexts) {
                    return Ok(pages(contexts));
                }
                // `fits` pages hold, `fails` do not.
                let (mut fits, mut fails) = (0, contexts);
                while fails - fits > 1 {
                    let middle = fits + (fails - fits) / 2;
                    if holds(middle) { fits = middle } else { fails = middle }
                }
                let page_bytes = unit.page_bytes.saturating_add(unit.window_page_bytes);
                if fits > 0 { Ok(pages(fits)) } else { Err(ConfigError::KvTooSmall { bytes, page_bytes }) }
            }
            (KvSize::Contexts | KvSize::Bytes(_), _) => Ok(pages(contexts)),
        }
    }

    /// Pages of layers that see a window, beside `n_pages` of the others. For each context that those hold there are two
    /// windows: what a sequence sees, and as much before it from where its text, or one that begins alike, may be gone on
    /// with; and for all of them together what one step computes. Never more than the others have: then one pool serves
    /// all layers, and there are none.
    fn n_window_pages(&self, window: u32, n_pages: u64) -> u64 {
        let own = 2 * u64::from(window_pages(window, 1));
        let of_contexts = (n_pages * own).div_ceil(u64::from(pages_for(self.context_tokens)));
        let n = of_contexts.max(own) + u64::from(pages_for(self.step_tokens));
        if n < n_pages { n } else { 0 }
    }

    fn n_snapshots(&self, unit: Unit) -> u32 {
        let fitting = self.snapshot_bytes.checked_div(unit.slot_bytes).unwrap_or(0);
        u32::try_from(fitting).unwrap_or(u32::MAX).min(SNAPSHOTS_MAX)
    }
}

/// Bytes of pages and of a slot; none if they pass 64 bits.
fn unit(graph: &Graph, kv_format: KvFormat) -> Option<Unit> {
    let (mut page_bytes, mut window_page_bytes, mut slot_bytes) = (0u64, 0u64, 0u64);
    for resource in &graph.resources {
        match resource.kind {
            ResourceKind::Kv { n_kv_heads, head_dim } => {
                let n = u64::from(n_kv_heads).checked_mul(u64::from(head_dim))?;
                let row_bytes = Some(n).filter(|&n| n <= STATE_BYTES_MAX).map(|n| kv_format.row_bytes(n))?;
                // Keys and values.
                let bytes = row_bytes.checked_mul(2 * u64::from(PAGE_TOKENS))?;
                let of_kind = if resource.window > 0 { &mut window_page_bytes } else { &mut page_bytes };
                *of_kind = of_kind.checked_add(bytes)?;
            }
            ResourceKind::State { len } => slot_bytes = slot_bytes.checked_add(u64::from(len).checked_mul(4)?)?,
        }
    }
    Some(Unit { page_bytes, window_page_bytes, slot_bytes, window: graph.window() })
}

impl Limits {
    /// The part that the scheduler needs.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerLimits {
        SchedulerLimits {
            kv: KvLimits {
                n_pages: self.state.n_pages,
                n_slots: self.config.sequences_max,
                n_snapshots: self.n_snapshots,
                is_recurrent: self.recurrent_bytes > 0,
                window: (self.state.n_window_pages > 0)
                    .then_some(WindowLimits { tokens: self.window_tokens, n_pages: self.state.n_window_pages }),
            },
            step_tokens: self.config.step_tokens,
            queue_max: self.config.queue_max,
            snapshot_tokens: self.config.snapshot_tokens,
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { config, state, .. } = self;
        let n_tokens = u64::from(state.n_pages) * u64::from(PAGE_TOKENS);
        write!(
            f,
            "context {} tokens, {} at once, KV cache {} pages = {n_tokens} tokens",
            config.context_tokens, config.sequences_max, state.n_pages
        )?;
        if state.n_window_pages > 0 {
            write!(f, " and {} pages for windows of {} tokens", state.n_window_pages, self.window_tokens)?;
        }
        let kv = mebibytes(self.kv_bytes);
        write!(f, " = {kv}, steps of {} tokens, queue of {}", config.step_tokens, config.queue_max)?;
        if self.recurrent_bytes > 0 {
            let (bytes, n, every) = (mebibytes(self.recurrent_bytes), self.n_snapshots, config.snapshot_tokens);
            write!(f, ", recurrent state {bytes} with {n} snapshots, one every {every} tokens")?;
        }
        Ok(())
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1u32 << 20))
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
    /// Snapshots that do not lie at the ends of pages.
    #[error("`snapshot_tokens` is {snapshot_tokens}; it must be a multiple of {PAGE_TOKENS}")]
    SnapshotTokens {
        /// Tokens between two.
        snapshot_tokens: u32,
    },
    /// Heads that the format of keys and values has no whole groups for.
    #[error(
        "the model has heads of {head_dim} elements; this format of keys and values needs multiples of {unit}: use f16"
    )]
    KvHead {
        /// Elements of a head.
        head_dim: u32,
        /// What it has to be a multiple of.
        unit: u32,
    },
    /// Too little memory for a single page.
    #[error(
        "{bytes} bytes of KV cache are less than one page of {PAGE_TOKENS} tokens, which has {page_bytes}; give more"
    )]
    KvTooSmall {
        /// Bytes given.
        bytes: u64,
        /// Bytes of a page.
        page_bytes: u64,
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
        kv: KvSize::Contexts,
        kv_format: KvFormat::F16,
        queue_max: 8,
        snapshot_bytes: 0,
        snapshot_tokens: 64,
        decode_gap_max: Duration::from_millis(100),
    };

    fn graph() -> Graph {
        let kinds = [ResourceKind::Kv { n_kv_heads: 2, head_dim: 64 }, ResourceKind::State { len: 10 }];
        let resources = kinds.iter().chain(&kinds).map(|&kind| GraphResource { kind, layer: 0, window: 0 }).collect();
        Graph { resources, ..Graph::default() }
    }

    #[test]
    fn sizes_follow_from_the_configuration() {
        let limits = CONFIG.limits(&graph()).unwrap();
        assert_eq!(limits.state, StateSizes { n_pages: 21, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 3 });
        assert_eq!(
            limits.kv_bytes,
            21 * 16 * (2 * 64) * 2 * 2 * 2,
            "tokens * elements * key and value * 2 bytes * 2 layers"
        );
        assert_eq!(limits.recurrent_bytes, 10 * 3 * 4 * 2);
        let in_bytes = EngineConfig { kv_format: KvFormat::Q8, ..CONFIG }.limits(&graph()).unwrap();
        assert_eq!(in_bytes.kv_bytes, 21 * 16 * (128 + 4 * 2 + 8) * 2 * 2, "bytes, scales, up to a word of 16");
        let n_pages = |kv| EngineConfig { kv, ..CONFIG }.limits(&graph()).unwrap().state.n_pages;
        let page_bytes = 16 * (2 * 64) * 2 * 2 * 2;
        assert_eq!(n_pages(KvSize::Tokens(150)), 10);
        assert_eq!(n_pages(KvSize::Bytes(page_bytes * 7 - 1)), 6);
        assert_eq!(n_pages(KvSize::Bytes(u64::MAX)), 21, "no more than can be filled");
        let limits = EngineConfig { snapshot_bytes: 10 * 4 * 2 * 5 + 1, ..CONFIG }.limits(&graph()).unwrap();
        assert_eq!((limits.n_snapshots, limits.state.n_slots, limits.recurrent_bytes), (5, 8, 10 * 4 * 2 * 8));
        assert_eq!(
            limits.to_string(),
            "context 100 tokens, 3 at once, KV cache 21 pages = 336 tokens = 0.3 MiB, steps of 64 tokens, queue of 8, \
             recurrent state 0.0 MiB with 5 snapshots, one every 64 tokens"
        );
    }

    /// One layer that sees everything and five that see 40 tokens, of 512 bytes a token each.
    fn windowed() -> Graph {
        let kind = ResourceKind::Kv { n_kv_heads: 2, head_dim: 64 };
        let resource = |layer| GraphResource { kind, layer, window: if layer == 0 { 0 } else { 40 } };
        Graph { resources: (0..6).map(resource).collect(), ..Graph::default() }
    }

    #[test]
    fn windows_have_pages_for_what_is_seen_and_as_much_before_it() {
        let config = EngineConfig { context_tokens: 1600, ..CONFIG };
        let limits = config.limits(&windowed()).unwrap();
        // 40 tokens lie in four pages at most; three sequences have twice that, and a step of 64 tokens four.
        let sizes = |n_pages, n_window_pages| (n_pages, n_window_pages, (n_pages + 5 * n_window_pages) * 16 * 512);
        let of = |limits: &Limits| {
            (u64::from(limits.state.n_pages), u64::from(limits.state.n_window_pages), limits.kv_bytes)
        };
        assert_eq!(of(&limits), sizes(300, 3 * 8 + 4));
        let window = WindowLimits { tokens: 40, n_pages: 28 };
        assert_eq!(limits.scheduler().kv.window, Some(window));
        assert_eq!(
            limits.to_string(),
            "context 1600 tokens, 3 at once, KV cache 300 pages = 4800 tokens and 28 pages for windows of 40 tokens = \
             3.4 MiB, steps of 64 tokens, queue of 8"
        );
        let with = |kv| of(&EngineConfig { kv, ..config }.limits(&windowed()).unwrap());
        assert_eq!(with(KvSize::Tokens(1600)), sizes(100, 8 + 4));
        assert_eq!(with(KvSize::Tokens(400)), sizes(25, 8 + 4), "never less than one sequence needs");
        let (.., bytes) = sizes(150, 12 + 4);
        assert_eq!(with(KvSize::Bytes(bytes)), sizes(150, 12 + 4), "both kinds fit the bytes");
        assert_eq!(with(KvSize::Bytes(bytes - 1)), sizes(149, 12 + 4));
        // Where there is nothing to save, all layers share one pool.
        let page_bytes = 6 * 16 * 512;
        assert_eq!(with(KvSize::Bytes(12 * page_bytes)), (12, 0, 12 * page_bytes));
        assert_eq!(with(KvSize::Bytes(12 * page_bytes + 16 * 512)), sizes(13, 12));
        let short = EngineConfig { context_tokens: 40, ..config };
        assert_eq!(of(&short.limits(&windowed()).unwrap()), (9, 0, 9 * page_bytes), "nobody leaves the window");
        assert_eq!(short.limits(&windowed()).unwrap().scheduler().kv.window, None);
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
            check(EngineConfig { kv: KvSize::Tokens(u32::MAX), ..CONFIG }),
            range("kv_tokens", u32::MAX, 2, u32::MAX - 16)
        );
        let unaligned = ConfigError::SnapshotTokens { snapshot_tokens: 40 };
        assert_eq!(check(EngineConfig { snapshot_tokens: 40, ..CONFIG }), unaligned);
        assert_eq!(
            check(EngineConfig { decode_gap_max: Duration::MAX, ..CONFIG }),
            range("decode_gap_max", u32::MAX, 1, 60_000)
        );
        let kind = ResourceKind::Kv { n_kv_heads: 1, head_dim: 80 };
        let odd = Graph { resources: vec![GraphResource { kind, layer: 0, window: 0 }], ..Graph::default() };
        let refused = EngineConfig { kv_format: KvFormat::Q8, ..CONFIG }.limits(&odd).unwrap_err();
        assert_eq!(refused, ConfigError::KvHead { head_dim: 80, unit: 32 });
        let too_small = ConfigError::KvTooSmall { bytes: 100, page_bytes: 16 * 128 * 2 * 2 * 2 };
        assert_eq!(check(EngineConfig { kv: KvSize::Bytes(100), ..CONFIG }), too_small);
        let error = check(EngineConfig { context_tokens: 1 << 24, sequences_max: 1024, step_tokens: 1024, ..CONFIG });
        assert!(matches!(error, ConfigError::TooLarge { n_pages: 0x4000_0000, .. }), "{error}");
    }
}
