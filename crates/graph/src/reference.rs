//! The reference backend: every op by its scalar definition, weights dequantised to f32.
//!
//! It is the independent truth that the op table and the tiny models are checked against. It is
//! slow on purpose, and it is a [`Backend`] like any other, so that one driver compares two.

use crate::backend::{
    Backend, BackendError, DeviceInfo, KvFormat, PlanId, PlanOptions, StateSizes, Ticket, WeightData,
};
use crate::batch::{Batch, BatchLimits, PAGE_TOKENS, PageGroup};
use crate::graph::Graph;
use crate::ops::{Io, Op};
use crate::section::{Node, ResourceKind, ValueId};

/// Persistent state in f32.
#[derive(Clone, Debug)]
pub enum Resource {
    /// Keys and values, each `[n_pages * 16][n_kv_heads * head_dim]`, in the pages of their group.
    Kv {
        /// Whose pages these are.
        group: PageGroup,
        /// Keys.
        k: Vec<f32>,
        /// Values.
        v: Vec<f32>,
        /// Format whose rounding is applied on writing.
        format: KvFormat,
    },
    /// Recurrent state, `[n_slots][len]`.
    State {
        /// Elements of a slot.
        len: usize,
        /// All slots.
        data: Vec<f32>,
    },
}

struct PlanState {
    graph: Graph,
    options: PlanOptions,
    values: Vec<Vec<f32>>,
}

/// Runs graphs by the definitions of their ops.
pub struct Reference {
    device: DeviceInfo,
    weights: Vec<Vec<f32>>,
    resources: Vec<Resource>,
    sizes: StateSizes,
    n_vocab: usize,
    plans: Vec<PlanState>,
}

impl Reference {
    /// A reference without weights.
    #[must_use]
    pub fn new() -> Reference {
        Reference {
            device: DeviceInfo {
                id: "reference".into(),
                name: "scalar reference".into(),
                fusions: &[],
                is_asynchronous: false,
            },
            weights: Vec::new(),
            resources: Vec::new(),
            sizes: StateSizes { n_pages: 0, n_window_pages: 0, kv_format: KvFormat::F32, n_slots: 0 },
            n_vocab: usize::MAX,
            plans: Vec::new(),
        }
    }

    /// The persistent state, in the graph's order.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    fn plan(&mut self, plan: PlanId) -> Result<&mut PlanState, BackendError> {
        let count = self.plans.len();
        let index = plan.0 as usize;
        self.plans.get_mut(index).ok_or(BackendError::NoSuch { what: "plan", index, count })
    }
}

impl Default for Reference {
    fn default() -> Self {
        Reference::new()
    }
}

/// Bytes that a weight of that shape and type has.
///
/// # Errors
/// The bytes given do not agree, or the type's block does not divide a row.
pub fn check_weight(name: &str, shape: [u32; 3], data: &WeightData) -> Result<(), BackendError> {
    let n_rows = u64::from(shape[1]) * u64::from(shape[2]);
    let row_bytes = data.dtype.row_bytes(shape[0] as usize).unwrap_or(0) as u64;
    let expected = row_bytes * n_rows;
    let got = data.bytes.len() as u64;
    match expected == got {
        true => Ok(()),
        false => Err(BackendError::WeightSize { name: name.to_owned(), dtype: data.dtype, expected, got }),
    }
}

/// Entries of the vocabulary: rows of the table that `embed` reads.
#[must_use]
pub fn n_vocab(graph: &Graph) -> usize {
    let table = graph.nodes.iter().find(|n| matches!(n.op, Op::Embed(_))).map(|n| n.weights.as_slice()[0]);
    table.map_or(usize::MAX, |w| graph.weights[usize::from(w.0)].shape[1] as usize)
}

impl Backend for Reference {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError> {
        self.weights.clear();
        for (decl, data) in graph.weights.iter().zip(&weights) {
            check_weight(&decl.name, decl.shape, data)?;
            let n: usize = decl.shape.iter().map(|&n| n as usize).product();
            let mut plain = vec![0.0; n];
            zinc_gguf::quants::dequantize(data.dtype, &data.bytes, &mut plain)
                .map_err(|e| BackendError::Device { device: self.device.id.clone(), message: e.to_string() })?;
            self.weights.push(plain);
        }
        self.resources = graph
            .resources
            .iter()
            .map(|r| match r.kind {
                ResourceKind::Kv { n_kv_heads, head_dim } => {
                    let group = state.group_of(r);
                    let n_rows = (state.pages_of(group) * PAGE_TOKENS) as usize;
                    let zeros = vec![0.0; n_rows * (n_kv_heads * head_dim) as usize];
                    Resource::Kv { group, k: zeros.clone(), v: zeros, format: state.kv_format }
                }
                ResourceKind::State { len } => {
                    let len = len as usize;
                    Resource::State { len, data: vec![0.0; len * state.n_slots as usize] }
                }
            })
            .collect();
        self.sizes = state;
        self.n_vocab = n_vocab(graph);
        Ok(())
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        graph.validate()?;
        let id = PlanId(u32::try_from(self.plans.len()).expect("plans are few"));
        let values = vec![Vec::new(); graph.values.len()];
        self.plans.push(PlanState { graph: graph.clone(), options: options.clone(), values });
        Ok(id)
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        let values = &mut self.plan(plan)?.values;
        let (index, count) = (usize::from(value.0), values.len());
        let slot = values.get_mut(index).ok_or(BackendError::NoSuch { what: "value", index, count })?;
        *slot = data.to_vec();
        Ok(())
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let (sizes, n_vocab) = (self.sizes, self.n_vocab);
        let bucket = self.plan(plan)?.options.bucket;
        batch.validate(&BatchLimits {
            tokens_max: bucket.tokens as usize,
            outputs_max: bucket.outputs as usize,
            n_vocab,
            n_pages: sizes.n_pages as usize,
            n_window_pages: sizes.n_window_pages as usize,
            n_state_slots: sizes.n_slots as usize,
        })?;
        let Reference { weights, resources, plans, .. } = self;
        let PlanState { graph, values, .. } = &mut plans[plan.0 as usize];
        for node in &graph.nodes {
            run_node(node, graph, values, weights, resources, batch);
        }
        Ok(Ticket(0))
    }

    fn wait(&mut self, _ticket: Ticket) -> Result<(), BackendError> {
        Ok(())
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        let state = self.plan(plan)?;
        let cols = state.graph.shape(value).cols as usize;
        let values = &state.values[usize::from(value.0)];
        let (start, end) = (row * cols, row * cols + dst.len());
        let rows = values.get(start..end).ok_or(BackendError::NoSuch {
            what: "row",
            index: row,
            count: values.len() / cols,
        })?;
        dst.copy_from_slice(rows);
        Ok(())
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError> {
        let count = self.sizes.n_slots as usize;
        for index in [from as usize, to as usize] {
            if index >= count {
                return Err(BackendError::NoSuch { what: "state slot", index, count });
            }
        }
        for resource in &mut self.resources {
            if let Resource::State { len, data } = resource {
                data.copy_within(from as usize * *len..(from as usize + 1) * *len, to as usize * *len);
            }
        }
        Ok(())
    }
}

fn run_node(
    node: &Node,
    graph: &Graph,
    values: &mut [Vec<f32>],
    weights: &[Vec<f32>],
    resources: &mut [Resource],
    batch: &Batch,
) {
    let size = |id: &ValueId| graph.rows(*id, batch.n_tokens(), batch.n_outputs()) * graph.shape(*id).cols as usize;
    let mut outputs: Vec<Vec<f32>> = node.outputs.as_slice().iter().map(|id| vec![0.0; size(id)]).collect();
    let rows = match node.outputs.as_slice().first() {
        Some(id) => graph.rows(*id, batch.n_tokens(), batch.n_outputs()),
        None => batch.n_tokens(),
    };
    let inputs: Vec<&[f32]> = node.inputs.as_slice().iter().map(|id| values[usize::from(id.0)].as_slice()).collect();
    let weights: Vec<&[f32]> = node.weights.as_slice().iter().map(|id| weights[usize::from(id.0)].as_slice()).collect();
    let resource = node.resource.map(|id| &mut resources[usize::from(id.0)]);
    node.op.reference(&mut Io { inputs: &inputs, weights: &weights, outputs: &mut outputs, batch, resource, rows });
    for (id, output) in node.outputs.as_slice().iter().zip(outputs) {
        values[usize::from(id.0)] = output;
    }
}
