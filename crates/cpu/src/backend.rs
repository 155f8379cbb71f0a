//! The CPU as a device: runs a plan's phases on the kernels of this crate.
//!
//! Weights stay where they are, in the file's map. A step runs in `submit`, on the caller's thread
//! and the pool; `wait` has nothing to wait for.

use zinc_gguf::DType;
use zinc_graph::backend::{
    Backend, BackendError, DeviceInfo, KvFormat, PlanId, PlanOptions, StateSizes, Ticket, WeightData,
};
use zinc_graph::batch::{Batch, BatchLimits, PAGE_TOKENS, PageGroup};
use zinc_graph::fuse::Fusion;
use zinc_graph::graph::GraphResource;
use zinc_graph::reference::{check_weight, n_vocab};
use zinc_graph::section::{ResourceKind, ValueId, WeightClass};
use zinc_graph::{Graph, Plan, fuse};

use crate::arena::Arena;
use crate::attention::q8_row_bytes;
use crate::context::Context;
use crate::error::Error;
use crate::isa::Isa;
use crate::kernels::Step;
use crate::rotation::Rotations;

/// Fusions that pay on a CPU: they save a pass over the output or over the input.
pub(crate) const FUSIONS: &[Fusion] = &[Fusion::MatmulAdd, Fusion::MatmulGlu];

/// Persistent state of one resource.
#[derive(Debug)]
pub(crate) enum State {
    /// Keys and values as halves.
    KvHalf {
        /// Keys, `[n_pages * 16][n_kv_heads][head_dim]`.
        k: Vec<u16>,
        /// Values, the same.
        v: Vec<u16>,
    },
    /// Keys and values as f32.
    KvFull {
        /// Keys, `[n_pages * 16][n_kv_heads][head_dim]`.
        k: Vec<f32>,
        /// Values, the same.
        v: Vec<f32>,
    },
    /// Keys and values as signed bytes with scales, see [`crate::attention::q8_row_bytes`].
    KvBytes {
        /// Keys, `[n_pages * 16][row]`.
        k: Vec<u8>,
        /// Values, the same.
        v: Vec<u8>,
    },
    /// Recurrent state, `[n_slots][len]`.
    Slots {
        /// f32 of a slot.
        len: usize,
        /// All slots.
        data: Vec<f32>,
    },
}

/// A weight in its storage; plain ones are also there as f32.
#[derive(Debug)]
pub(crate) struct Weight {
    /// Bytes of the file.
    pub(crate) data: WeightData,
    /// Axes, fastest first.
    pub(crate) shape: [u32; 3],
    /// Its elements, if its uses read them as f32.
    pub(crate) plain: Option<Vec<f32>>,
}

struct Compiled {
    graph: Graph,
    plan: Plan,
    options: PlanOptions,
    rotations: Rotations,
}

/// The CPU backend.
pub struct Cpu {
    info: DeviceInfo,
    ctx: Context,
    weights: Vec<Weight>,
    states: Vec<State>,
    /// Whose pages each of them has.
    groups: Vec<PageGroup>,
    sizes: StateSizes,
    n_vocab: usize,
    plans: Vec<Compiled>,
    arena: Arena,
    steps: u64,
}

/// This machine's CPU, for people.
#[must_use]
pub fn description() -> String {
    format!("CPU ({})", Isa::best())
}

impl Cpu {
    /// A backend of `n_threads` threads, the caller's included.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn new(n_threads: usize) -> Result<Cpu, Error> {
        Ok(Cpu::with_context(Context::new(n_threads)?))
    }

    /// A backend on a given context: another instruction set, for tests.
    #[must_use]
    pub fn with_context(ctx: Context) -> Cpu {
        let name = format!("CPU ({}, {} threads)", ctx.isa(), ctx.n_threads());
        Cpu {
            info: DeviceInfo { id: "cpu".into(), name, fusions: FUSIONS, is_asynchronous: false },
            ctx,
            weights: Vec::new(),
            states: Vec::new(),
            groups: Vec::new(),
            sizes: StateSizes { n_pages: 0, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 0 },
            n_vocab: usize::MAX,
            plans: Vec::new(),
            arena: Arena::default(),
            steps: 0,
        }
    }

    fn compiled(&self, plan: PlanId) -> Result<&Compiled, BackendError> {
        let (index, count) = (plan.0 as usize, self.plans.len());
        self.plans.get(index).ok_or(BackendError::NoSuch { what: "plan", index, count })
    }

    /// Byte offset and columns of a value of a plan.
    fn place(&self, plan: PlanId, value: ValueId) -> Result<(usize, usize), BackendError> {
        let compiled = self.compiled(plan)?;
        let (index, count) = (usize::from(value.0), compiled.graph.values.len());
        let offset = compiled.plan.offsets.get(index).copied().flatten();
        let offset = offset.ok_or(BackendError::NoSuch { what: "value", index, count })?;
        Ok((offset, compiled.graph.shape(value).cols as usize))
    }
}

impl Backend for Cpu {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError> {
        self.weights.clear();
        self.plans.clear();
        for (decl, data) in graph.weights.iter().zip(weights) {
            check_weight(&decl.name, decl.shape, &data)?;
            if decl.class == WeightClass::Plain && data.dtype != DType::F32 {
                return Err(BackendError::WeightType { name: decl.name.clone(), dtype: data.dtype });
            }
            let plain = (decl.class == WeightClass::Plain).then(|| floats(&data.bytes));
            self.weights.push(Weight { data, shape: decl.shape, plain });
        }
        self.states = graph.resources.iter().map(|resource| state_of(resource, &state)).collect();
        self.groups = graph.resources.iter().map(|resource| state.group_of(resource)).collect();
        self.sizes = state;
        self.n_vocab = n_vocab(graph);
        Ok(())
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        graph.validate()?;
        let graph = if options.keep_values { graph.clone() } else { fuse(graph, FUSIONS) };
        graph.validate()?;
        let plan = Plan::new(&graph, options);
        self.arena.grow(plan.arena_bytes);
        let rotations = Rotations::new(&graph, &self.weights);
        self.plans.push(Compiled { graph, plan, options: options.clone(), rotations });
        Ok(PlanId(u32::try_from(self.plans.len() - 1).expect("plans are few")))
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        let (offset, cols) = self.place(plan, value)?;
        let rows_max = self.compiled(plan)?.options.bucket.tokens as usize;
        if data.len() > rows_max * cols {
            return Err(BackendError::NoSuch { what: "row", index: data.len() / cols, count: rows_max });
        }
        self.arena.bytes_at(offset, data.len()).copy_from_slice(data);
        Ok(())
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let bucket = self.compiled(plan)?.options.bucket;
        batch.validate(&BatchLimits {
            tokens_max: bucket.tokens as usize,
            outputs_max: bucket.outputs as usize,
            n_vocab: self.n_vocab,
            n_pages: self.sizes.n_pages as usize,
            n_window_pages: self.sizes.n_window_pages as usize,
            n_state_slots: self.sizes.n_slots as usize,
        })?;
        let Cpu { ctx, weights, states, groups, plans, arena, .. } = self;
        let Compiled { graph, plan, rotations, .. } = &mut plans[plan.0 as usize];
        rotations.turn(&batch.positions);
        let values = arena.values(graph, plan, batch);
        let mut step = Step { ctx, graph, values, weights, states, groups, batch, rotations };
        for phase in &plan.phases {
            step.phase(phase);
        }
        ctx.pool.end_aside();
        self.steps += 1;
        Ok(Ticket(self.steps))
    }

    fn wait(&mut self, _ticket: Ticket) -> Result<(), BackendError> {
        Ok(())
    }

    fn aside(&mut self, work: Box<dyn FnOnce() + Send>) {
        self.ctx.pool.aside(work);
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        let (offset, cols) = self.place(plan, value)?;
        let compiled = self.compiled(plan)?;
        let bucket = compiled.options.bucket;
        let count = compiled.graph.rows(value, bucket.tokens as usize, bucket.outputs as usize);
        if row * cols + dst.len() > count * cols {
            return Err(BackendError::NoSuch { what: "row", index: row, count });
        }
        dst.copy_from_slice(self.arena.bytes_at(offset + row * cols * 4, dst.len()));
        Ok(())
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError> {
        let count = self.sizes.n_slots as usize;
        for index in [from as usize, to as usize] {
            if index >= count {
                return Err(BackendError::NoSuch { what: "state slot", index, count });
            }
        }
        for state in &mut self.states {
            if let State::Slots { len, data } = state {
                data.copy_within(from as usize * *len..(from as usize + 1) * *len, to as usize * *len);
            }
        }
        Ok(())
    }
}

/// Little-endian f32s.
fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Zeroed state; the system gives the pages as they are first written.
fn state_of(resource: &GraphResource, sizes: &StateSizes) -> State {
    match resource.kind {
        ResourceKind::Kv { n_kv_heads, head_dim } => {
            let n_pages = sizes.pages_of(sizes.group_of(resource)) as usize;
            let (n_rows, width) = (n_pages * PAGE_TOKENS as usize, n_kv_heads as usize * head_dim as usize);
            let n = n_rows * width;
            match sizes.kv_format {
                KvFormat::F16 => State::KvHalf { k: vec![0; n], v: vec![0; n] },
                KvFormat::F32 => State::KvFull { k: vec![0.0; n], v: vec![0.0; n] },
                KvFormat::Q8 => {
                    let n = n_rows * q8_row_bytes(width);
                    State::KvBytes { k: vec![0; n], v: vec![0; n] }
                }
            }
        }
        ResourceKind::State { len } => {
            let len = len as usize;
            State::Slots { len, data: vec![0.0; len * sizes.n_slots as usize] }
        }
    }
}
