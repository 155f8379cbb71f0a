//! One sequence of one model on one backend, step by step.
//!
//! It stands in for an engine in tests of models and backends: it fills the batch by hand, and hands pages out backwards
//! so that nothing gets away with taking a position for a place.

use std::collections::HashMap;

use zinc_gguf::Gguf;
use zinc_graph::backend::{Bucket, KvFormat, PlanId, PlanOptions, StateSizes};
use zinc_graph::batch::{PAGE_TOKENS, PageGroup, Places};
use zinc_graph::section::ValueId;
use zinc_graph::{Backend, Batch, Graph, fuse};
use zinc_models::Model;

use crate::Error;

/// What a session is made for.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Longest sequence.
    pub context_max: u32,
    /// Format of keys and values.
    pub kv_format: KvFormat,
    /// Run the model as declared, unfused, and keep every value readable; otherwise as an engine would.
    pub keep_values: bool,
}

/// What came out of one step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Logits of each wanted row.
    pub logits: Vec<Vec<f32>>,
    /// The most likely token of each wanted row, chosen by the backend.
    pub greedy: Vec<u32>,
}

/// A sequence that grows by what it is fed.
pub struct Session {
    backend: Box<dyn Backend>,
    model: Model,
    graph: Graph,
    config: SessionConfig,
    n_pages: u32,
    plans: HashMap<u32, PlanId>,
    last_plan: Option<PlanId>,
    position: u32,
    /// Where the recurrent states are: one of two slots, the other takes copies.
    slot: u32,
}

/// A copy of the recurrent states at some position, good for one [`Session::resume`].
#[derive(Debug)]
pub struct Snapshot {
    position: u32,
}

impl Session {
    /// Loads the model of `file` on `backend`.
    ///
    /// # Errors
    /// A file that is no model, or a backend that cannot take it.
    pub fn new(backend: Box<dyn Backend>, file: &Gguf, config: SessionConfig) -> Result<Session, Error> {
        Session::of_model(backend, Model::from_gguf(file)?, file, config)
    }

    /// Loads `model`, whose tensors are those of `file`, on `backend`.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn of_model(
        mut backend: Box<dyn Backend>,
        model: Model,
        file: &Gguf,
        config: SessionConfig,
    ) -> Result<Session, Error> {
        let fusions = if config.keep_values { &[] } else { backend.device().fusions };
        let graph = fuse(&model.graph, fusions);
        let n_pages = config.context_max.div_ceil(PAGE_TOKENS) + 1;
        backend.load(
            &model.graph,
            model.weights(file)?,
            StateSizes { n_pages, n_window_pages: 0, kv_format: config.kv_format, n_slots: 2 },
        )?;
        let plans = HashMap::new();
        Ok(Session { backend, model, graph, config, n_pages, plans, last_plan: None, position: 0, slot: 1 })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Forgets the sequence; the next token has position 0.
    pub fn restart(&mut self) {
        self.position = 0;
    }

    /// Copies the recurrent states to the other slot. Keys and values stay where they are: they are per position.
    ///
    /// # Errors
    /// A failing device.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        self.backend.copy_state(self.slot, 1 - self.slot)?;
        Ok(Snapshot { position: self.position })
    }

    /// Goes on from a snapshot, in the slot that it was copied to; what was fed since is forgotten.
    pub fn resume(&mut self, snapshot: Snapshot) {
        self.position = snapshot.position;
        self.slot = 1 - self.slot;
    }

    /// Appends `ids` in one step; `wanted` are the rows of `ids`, rising, whose logits are read.
    ///
    /// # Errors
    /// A batch that the backend refuses, or a failing device.
    pub fn feed(&mut self, ids: &[u32], wanted: &[u32]) -> Result<Step, Error> {
        let n = count(ids.len());
        let plan = self.plan(n)?;
        let batch = self.batch(ids, wanted);
        let ticket = self.backend.submit(plan, &batch)?;
        self.backend.wait(ticket)?;
        self.position += n;
        self.last_plan = Some(plan);
        let greedy = self.read_value(plan, self.model.greedy, wanted.len())?;
        let logits = self.read_value(plan, self.model.logits, wanted.len())?;
        Ok(Step {
            logits: logits.chunks_exact(self.model.n_vocab as usize).map(<[f32]>::to_vec).collect(),
            greedy: greedy.into_iter().map(f32::to_bits).collect(),
        })
    }

    /// A value of the last step by its name in the graph, `n_rows` rows of it; needs `keep_values`.
    ///
    /// # Errors
    /// A name that the graph does not have, or a value that the backend does not keep.
    pub fn value(&mut self, name: &str, n_rows: usize) -> Result<Vec<f32>, Error> {
        let missing = || Error::NoValue { name: name.to_owned() };
        let id = self.graph.value_named(name).ok_or_else(missing)?;
        let plan = self.last_plan.ok_or_else(missing)?;
        self.read_value(plan, id, n_rows)
    }

    fn read_value(&mut self, plan: PlanId, id: ValueId, n_rows: usize) -> Result<Vec<f32>, Error> {
        let mut data = vec![0.0; n_rows * self.graph.shape(id).cols as usize];
        if n_rows > 0 {
            self.backend.read(plan, id, 0, &mut data)?;
        }
        Ok(data)
    }

    /// One plan for each number of tokens, as buckets would have it at the finest.
    fn plan(&mut self, n_tokens: u32) -> Result<PlanId, Error> {
        if let Some(plan) = self.plans.get(&n_tokens) {
            return Ok(*plan);
        }
        let bucket = Bucket { tokens: n_tokens, outputs: n_tokens };
        let options = PlanOptions { bucket, keep_values: self.config.keep_values };
        let plan = self.backend.compile(&self.graph, &options)?;
        self.plans.insert(n_tokens, plan);
        Ok(plan)
    }

    fn batch(&self, ids: &[u32], wanted: &[u32]) -> Batch {
        let n = count(ids.len());
        let mut batch = Batch {
            ids: ids.to_vec(),
            positions: (self.position..self.position + n).collect(),
            seq_idx: vec![0; ids.len()],
            query_start: vec![0, n],
            full: Places { kv_slots: Vec::new(), block_tables: (0..self.n_pages).rev().collect() },
            window: Places::default(),
            pages_max: self.n_pages,
            state_slots: vec![self.slot],
            output_rows: wanted.to_vec(),
        };
        batch.full.kv_slots =
            batch.positions.iter().map(|&position| batch.slot_of(PageGroup::Full, 0, position)).collect();
        batch
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("a test feeds few tokens")
}
