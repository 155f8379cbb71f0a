//! A model's weights and persistent state on the device, and how much memory all of it needs.

use std::sync::Arc;

use zinc_gguf::DType;
use zinc_graph::backend::{Bucket, KvFormat, PlanOptions, StateSizes, WeightData};
use zinc_graph::batch::{PAGE_TOKENS, PageGroup};
use zinc_graph::footprint::plan_tokens;
use zinc_graph::graph::GraphResource;
use zinc_graph::ops::{Op, RopeKvWrite};
use zinc_graph::section::{Node, ResourceKind};
use zinc_graph::{Graph, Plan};

use crate::arena::{Arena, Layout};
use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place};
use crate::planes::{self, Planes};
use crate::upload::{Progress, upload};

/// Device memory that a model needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The weights.
    pub weights_bytes: u64,
    /// Keys and values.
    pub kv_bytes: u64,
    /// Recurrent state.
    pub recurrent_bytes: u64,
    /// The values of steps: of one plan for each size of step.
    pub steps_bytes: u64,
}

impl Needs {
    /// What a graph needs: the weights of these sizes, the state, and plans for steps of up to `step_tokens` (0: none
    /// are counted). `graph` is the one that plans are made of, fused; `allocation_bytes_max` is the device's.
    #[must_use]
    pub fn new(graph: &Graph, sizes: &[u64], state: StateSizes, step_tokens: u32, allocation_bytes_max: u64) -> Needs {
        let mut needs = Needs {
            weights_bytes: Layout::new(sizes, allocation_bytes_max).bytes(),
            kv_bytes: 0,
            recurrent_bytes: 0,
            steps_bytes: 0,
        };
        for resource in &graph.resources {
            let bytes = Resource::bytes(resource, state);
            match resource.kind {
                ResourceKind::Kv { .. } => needs.kv_bytes = needs.kv_bytes.saturating_add(bytes.saturating_mul(2)),
                ResourceKind::State { .. } => needs.recurrent_bytes = needs.recurrent_bytes.saturating_add(bytes),
            }
        }
        let plans = plan_tokens(step_tokens).map(|tokens| values_bytes(graph, tokens, state.n_slots));
        needs.steps_bytes = plans.fold(0, u64::saturating_add);
        needs
    }

    /// Each part with its name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 4] {
        [
            ("weights", self.weights_bytes),
            ("keys and values", self.kv_bytes),
            ("recurrent state", self.recurrent_bytes),
            ("values of steps", self.steps_bytes),
        ]
    }
}

/// Bytes of the values of the plan for steps of up to `tokens`, where at most `outputs` sequences want logits.
pub(crate) fn values_bytes(graph: &Graph, tokens: u32, outputs: u32) -> u64 {
    let bucket = Bucket { tokens, outputs: tokens.min(outputs.max(1)) };
    Plan::new(graph, &PlanOptions { bucket, keep_values: false }).arena_bytes as u64
}

/// A weight on the device.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Storage type.
    pub dtype: DType,
    /// Whether its blocks are taken apart.
    pub is_in_planes: bool,
    /// Device address.
    pub address: u64,
}

impl Placed {
    /// The type as the kernels' constants name it.
    #[must_use]
    pub fn constant(&self) -> u32 {
        self.dtype.id() + if self.is_in_planes { planes::IN_PLANES } else { 0 }
    }
}

/// The weights of a graph, in its order.
#[derive(Default)]
pub struct Weights {
    /// Where each is, and as what.
    pub placed: Vec<Placed>,
    /// The divisors of rotary frequencies, which the host needs too.
    rope_factors: Vec<Option<Vec<f32>>>,
    // Owns the memory that the addresses lie in.
    _arena: Arena,
}

impl Weights {
    /// The storage type of each.
    #[must_use]
    pub fn dtypes(&self) -> Vec<DType> {
        self.placed.iter().map(|weight| weight.dtype).collect()
    }

    /// Copies weights that were checked against the graph to the device.
    ///
    /// # Errors
    /// Out of device memory, or a lost device.
    pub fn load(
        gpu: &Arc<Gpu>,
        commands: &mut Commands,
        graph: &Graph,
        weights: &[WeightData],
        progress: &mut Progress,
    ) -> Result<Weights, Error> {
        let sizes: Vec<u64> = weights.iter().map(|w| w.bytes.len() as u64).collect();
        let layout = Layout::new(&sizes, gpu.traits.allocation_bytes_max);
        let mut arena = Arena::new(gpu, &layout)?;
        let planes = weights.iter().zip(&graph.weights).map(|(data, weight)| Planes::of(data.dtype, weight.shape));
        let planes: Vec<Option<&Planes>> = planes.collect();
        upload(gpu, commands, (&mut arena, &layout), (weights, &planes), progress)?;
        let placed = weights.iter().zip(&planes).zip(&layout.spots).map(|((data, planes), &spot)| Placed {
            dtype: data.dtype,
            is_in_planes: planes.is_some(),
            address: arena.address(spot),
        });
        let placed = placed.collect();
        let mut rope_factors = vec![None; weights.len()];
        for node in graph.nodes.iter().filter(|node| matches!(node.op, Op::Rope(_))) {
            for weight in node.weights.as_slice() {
                let bytes = &weights[usize::from(weight.0)].bytes;
                let floats = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                rope_factors[usize::from(weight.0)] = Some(floats.collect());
            }
        }
        Ok(Weights { placed, rope_factors, _arena: arena })
    }

    /// The divisors of a rotary node's frequencies, if it has any; they come after the weights of its norms.
    #[must_use]
    pub fn rope_factors(&self, node: &Node) -> Option<&[f32]> {
        let at = match node.op {
            Op::NormRope(_) | Op::RopeKvWrite(RopeKvWrite { norm: Some(_), .. }) => 1,
            Op::RopeAttention(op) => op.factors_at()?,
            _ => 0,
        };
        let weight = node.weights.as_slice().get(at)?;
        self.rope_factors[usize::from(weight.0)].as_deref()
    }
}

/// A persistent resource.
pub struct Resource {
    /// What it holds.
    pub kind: ResourceKind,
    /// Whose pages keys and values have.
    pub group: PageGroup,
    /// Keys, or the state of all slots.
    pub first: Buffer,
    /// Values.
    pub second: Option<Buffer>,
}

impl Resource {
    /// Those of a graph, in its order. Their contents are whatever the memory held: a sequence that
    /// begins reads no state, and attention no key that was not written.
    ///
    /// # Errors
    /// Out of device memory.
    pub fn make_all(gpu: &Arc<Gpu>, graph: &Graph, state: StateSizes) -> Result<Vec<Resource>, Error> {
        let make = |resource: &GraphResource| {
            let bytes = Self::bytes(resource, state);
            // Places among bytes are counted in 32 bits.
            let is_bytes = state.kv_format == KvFormat::Q8 && matches!(resource.kind, ResourceKind::Kv { .. });
            let most = if is_bytes { u64::from(u32::MAX) } else { u64::MAX };
            if bytes > gpu.traits.allocation_bytes_max.min(most) {
                return Err(gpu.too_large("the state of one layer", bytes));
            }
            let first = Buffer::new(gpu, bytes, Place::Device)?;
            let is_pair = matches!(resource.kind, ResourceKind::Kv { .. });
            let second = if is_pair { Some(Buffer::new(gpu, bytes, Place::Device)?) } else { None };
            Ok(Resource { kind: resource.kind, group: state.group_of(resource), first, second })
        };
        graph.resources.iter().map(make).collect()
    }

    /// Bytes of one buffer: the keys, the values, or the state.
    fn bytes(resource: &GraphResource, state: StateSizes) -> u64 {
        match resource.kind {
            ResourceKind::Kv { n_kv_heads, head_dim } => {
                let width = u64::from(n_kv_heads) * u64::from(head_dim);
                let n_pages = state.pages_of(state.group_of(resource));
                // Sixteen bytes an element is more than any format has.
                let row_bytes = if width > u64::MAX / 16 { u64::MAX } else { state.kv_format.row_bytes(width) };
                (u64::from(n_pages) * u64::from(PAGE_TOKENS)).saturating_mul(row_bytes)
            }
            ResourceKind::State { len } => 4 * u64::from(len) * u64::from(state.n_slots),
        }
    }

    /// Device addresses of both parts, 0 for one that is not there.
    #[must_use]
    pub fn addresses(&self) -> (u64, u64) {
        (self.first.address, self.second.as_ref().map_or(0, |second| second.address))
    }
}
