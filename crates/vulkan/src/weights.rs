//! A model's weights and persistent state on the device.

use std::sync::Arc;

use zinc_gguf::DType;
use zinc_graph::Graph;
use zinc_graph::backend::{StateSizes, WeightData};
use zinc_graph::batch::PAGE_TOKENS;
use zinc_graph::ops::{Op, RopeKvWrite};
use zinc_graph::section::{Node, ResourceKind};

use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Arena, Buffer, Place, STAGING_BYTES, TENSOR_ALIGN, Tensor};

/// The weights of a graph, in its order.
#[derive(Default)]
pub struct Weights {
    /// Storage type and device address of each.
    pub placed: Vec<(DType, u64)>,
    /// The divisors of rotary frequencies, which the host needs too.
    rope_factors: Vec<Option<Vec<f32>>>,
    // Owns the memory that the addresses lie in.
    _arena: Arena,
}

impl Weights {
    /// Copies weights that were checked against the graph to the device.
    ///
    /// # Errors
    /// Out of device memory, or a lost device.
    pub fn load(
        gpu: &Arc<Gpu>,
        commands: &mut Commands,
        graph: &Graph,
        weights: &[WeightData],
    ) -> Result<Weights, Error> {
        let size = |w: &WeightData| (w.bytes.len() as u64).next_multiple_of(TENSOR_ALIGN);
        let mut left: u64 = weights.iter().map(size).sum();
        let mut uploader = Uploader { gpu, commands, arena: Arena::default(), staging: None };
        let mut placed = Vec::with_capacity(weights.len());
        for data in weights {
            let tensor = uploader.arena.reserve(gpu, data.bytes.len() as u64, left)?;
            left -= size(data);
            uploader.upload(tensor, &data.bytes)?;
            placed.push((data.dtype, tensor.address));
        }
        let mut rope_factors = vec![None; weights.len()];
        for node in graph.nodes.iter().filter(|node| matches!(node.op, Op::Rope(_))) {
            for weight in node.weights.as_slice() {
                let bytes = &weights[usize::from(weight.0)].bytes;
                let floats = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                rope_factors[usize::from(weight.0)] = Some(floats.collect());
            }
        }
        Ok(Weights { placed, rope_factors, _arena: uploader.arena })
    }

    /// The divisors of a rotary node's frequencies, if it has any; they come after the weight of its norm.
    #[must_use]
    pub fn rope_factors(&self, node: &Node) -> Option<&[f32]> {
        let is_normed = matches!(node.op, Op::NormRope(_) | Op::RopeKvWrite(RopeKvWrite { norm: Some(_), .. }));
        let weight = node.weights.as_slice().get(usize::from(is_normed))?;
        self.rope_factors[usize::from(weight.0)].as_deref()
    }
}

struct Uploader<'a> {
    gpu: &'a Arc<Gpu>,
    commands: &'a mut Commands,
    arena: Arena,
    staging: Option<Buffer>,
}

impl Uploader<'_> {
    /// Copies bytes to a place in the arena, through staging where the host cannot write there.
    fn upload(&mut self, tensor: Tensor, bytes: &[u8]) -> Result<(), Error> {
        let target = self.arena.buffer_mut(tensor);
        if let Some(mapped) = target.bytes_mut() {
            let from = usize::try_from(tensor.offset).expect("mapped memory has addresses");
            mapped[from..from + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        let staging = match &mut self.staging {
            Some(staging) => staging,
            None => self.staging.insert(Buffer::new(self.gpu, STAGING_BYTES as u64, Place::Upload)?),
        };
        let mut at = tensor.offset;
        for chunk in bytes.chunks(STAGING_BYTES) {
            staging.fill(chunk)?;
            let size = chunk.len() as u64;
            let (from, to) = ((staging.handle, 0), (target.handle, at));
            self.commands.run(|commands, b| {
                commands.copy(b, from, to, size);
                commands.barrier(b);
            })?;
            at += size;
        }
        Ok(())
    }
}

/// A persistent resource.
pub struct Resource {
    /// What it holds.
    pub kind: ResourceKind,
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
        let make = |kind: ResourceKind| {
            let (bytes, is_pair) = match kind {
                ResourceKind::Kv { n_kv_heads, head_dim } => {
                    let width = u64::from(n_kv_heads) * u64::from(head_dim);
                    (state.kv_format.bytes(u64::from(state.n_pages) * u64::from(PAGE_TOKENS) * width), true)
                }
                ResourceKind::State { len } => (4 * u64::from(len) * u64::from(state.n_slots), false),
            };
            let first = Buffer::new(gpu, bytes, Place::Device)?;
            let second = if is_pair { Some(Buffer::new(gpu, bytes, Place::Device)?) } else { None };
            Ok(Resource { kind, first, second })
        };
        graph.resources.iter().map(|resource| make(resource.kind)).collect()
    }

    /// Device addresses of both parts, 0 for one that is not there.
    #[must_use]
    pub fn addresses(&self) -> (u64, u64) {
        (self.first.address, self.second.as_ref().map_or(0, |second| second.address))
    }
}
