//! Whether a model fits a device: the bytes of each part, held against what the device has.
//!
//! The state is what [`EngineConfig::limits`] derives, which is what the engine then allocates; the rest is the backend's
//! own [`Footprint`]. Nothing is guessed: a model that does not fit whole does not fit.

use zinc_graph::footprint::graph_bytes;
use zinc_graph::{Footprint, Graph};

use crate::config::{ConfigError, EngineConfig, Limits};
use crate::kv::PAGE_TOKENS;

/// What the scheduler's books hold for each page: counts, lists, and the places that a prefix is found by. 113 were
/// counted.
const BOOK_BYTES_PER_PAGE: u64 = 120;
/// The same for each page of layers with a window.
const BOOK_BYTES_PER_WINDOW_PAGE: u64 = 40;
/// What the engine has besides: queues, the batch, the requests. 60 kB were counted with one sequence.
const BOOK_BYTES: u64 = 256 << 10;
/// Bytes for each entry of the vocabulary: a row of logits on the host, and candidates with their probabilities.
const BOOK_BYTES_PER_ENTRY: u64 = 16;

/// Bytes of a model on a device, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The weights.
    pub weights_bytes: u64,
    /// Keys and values.
    pub kv_bytes: u64,
    /// Recurrent state, snapshots included.
    pub recurrent_bytes: u64,
    /// Values of steps, and what goes with them.
    pub workspace_bytes: u64,
}

impl Needs {
    /// The sum.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Each part with its name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 4] {
        [
            ("weights", self.weights_bytes),
            ("keys and values", self.kv_bytes),
            ("recurrent state", self.recurrent_bytes),
            ("workspace", self.workspace_bytes),
        ]
    }
}

/// A model and the memory that there is for it.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// The model's graph, as it declares it.
    pub graph: &'a Graph,
    /// What the backend takes for it besides state.
    pub footprint: Footprint,
    /// Bytes that the device has for it.
    pub budget_bytes: u64,
}

impl Room<'_> {
    /// What an engine of that configuration takes.
    ///
    /// # Errors
    /// A configuration that cannot be.
    pub fn needs(&self, config: EngineConfig) -> Result<Needs, ConfigError> {
        let limits = config.limits(self.graph)?;
        Ok(Needs {
            weights_bytes: self.footprint.weights_bytes,
            kv_bytes: limits.kv_bytes,
            recurrent_bytes: limits.recurrent_bytes,
            workspace_bytes: self.footprint.workspace_bytes(&limits.state).saturating_add(self.books(&limits)),
        })
    }

    /// What the engine itself holds on the host. On a GPU that is other memory; it is too little to tell apart.
    fn books(&self, limits: &Limits) -> u64 {
        let n_vocab = self.graph.outputs.first().map_or(0, |&logits| self.graph.shape(logits).cols);
        BOOK_BYTES
            + BOOK_BYTES_PER_PAGE * u64::from(limits.state.n_pages)
            + BOOK_BYTES_PER_WINDOW_PAGE * u64::from(limits.state.n_window_pages)
            + BOOK_BYTES_PER_ENTRY * u64::from(n_vocab)
            // The model's graph, and the same fused.
            + 2 * graph_bytes(self.graph)
    }

    /// Whether that configuration fits.
    #[must_use]
    pub fn holds(&self, config: EngineConfig) -> bool {
        self.needs(config).is_ok_and(|needs| needs.total_bytes() <= self.budget_bytes)
    }

    /// The longest context that fits, in whole pages and of at most `context_max` tokens, with the configuration that
    /// `config_of` makes of a number of tokens; `None` if not even one page does. More tokens must not take less.
    pub fn longest_context(
        &self,
        context_max: u32,
        config_of: impl Fn(u32) -> Result<EngineConfig, ConfigError>,
    ) -> Option<u32> {
        let holds = |tokens: u32| config_of(tokens).is_ok_and(|config| self.holds(config));
        if holds(context_max) {
            return Some(context_max);
        }
        // `fits` pages hold, `fails` do not.
        let (mut fits, mut fails) = (0, context_max.div_ceil(PAGE_TOKENS));
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            if holds(middle * PAGE_TOKENS) { fits = middle } else { fails = middle }
        }
        (fits > 0).then_some(fits * PAGE_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zinc_graph::backend::KvFormat;
    use zinc_graph::graph::GraphResource;
    use zinc_graph::section::ResourceKind;

    use super::*;
    use crate::config::KvSize;

    /// One layer of two heads of 64: 512 bytes a token in f16, a page 8 KiB.
    fn graph() -> Graph {
        let kind = ResourceKind::Kv { n_kv_heads: 2, head_dim: 64 };
        Graph { resources: vec![GraphResource { kind, layer: 0, window: 0 }], ..Graph::default() }
    }

    fn config(context_tokens: u32, kv_format: KvFormat) -> Result<EngineConfig, ConfigError> {
        Ok(EngineConfig {
            context_tokens,
            sequences_max: 1,
            step_tokens: 64,
            kv: KvSize::Contexts,
            kv_format,
            queue_max: 8,
            snapshot_bytes: 0,
            snapshot_tokens: 64,
            decode_gap_max: Duration::from_millis(100),
        })
    }

    #[test]
    fn the_longest_context_is_the_last_that_fits() {
        let graph = graph();
        let footprint = Footprint {
            weights_bytes: 1000,
            workspace_bytes: 24,
            workspace_bytes_per_page: 0,
            window_bytes: 0,
            window_bytes_per_page: 0,
        };
        let own = 1024 + BOOK_BYTES + 2 * graph_bytes(&graph);
        let longest = |budget_bytes, kv_format| {
            Room { graph: &graph, footprint, budget_bytes }.longest_context(1000, |tokens| config(tokens, kv_format))
        };
        let page = 16 * 2 * 64 * 2 * 2 + BOOK_BYTES_PER_PAGE;
        assert_eq!(longest(own + page - 1, KvFormat::F16), None, "not a page");
        assert_eq!(longest(own + page, KvFormat::F16), Some(16));
        assert_eq!(longest(own + 10 * page - 1, KvFormat::F16), Some(9 * 16));
        assert_eq!(longest(own + 10 * page, KvFormat::F32), Some(5 * 16), "nearly twice the bytes");
        assert_eq!(longest(own + 63 * page - 1, KvFormat::F16), Some(62 * 16));
        assert_eq!(longest(own + 63 * page, KvFormat::F16), Some(1000), "all that was asked for");
        assert_eq!(longest(0, KvFormat::F16), None);
        let tables = Footprint { workspace_bytes_per_page: 1000, ..footprint };
        let room = Room { graph: &graph, footprint: tables, budget_bytes: own + 5 * (page + 1000) };
        assert_eq!(room.longest_context(1000, |tokens| config(tokens, KvFormat::F16)), Some(5 * 16));
        let needs = room.needs(config(80, KvFormat::F16).unwrap()).unwrap();
        assert_eq!(
            needs.parts().map(|(_, bytes)| bytes),
            [1000, 5 * 8192, 0, own - 1000 + 5 * (1000 + BOOK_BYTES_PER_PAGE)]
        );
        assert_eq!(needs.total_bytes(), room.budget_bytes);
    }
}
