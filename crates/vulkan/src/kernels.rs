//! From an op to launches: pipeline, parameters, workgroups. Used once, when a plan is recorded.
//!
//! The `match` is exhaustive, so an op without an arm does not compile. A node becomes one or more
//! stages; a barrier stands between stages. The arms lie in the files of this folder, by noun.

pub(crate) mod attention;
mod direct;
mod experts;
mod matmul;
mod matvec;
pub(crate) mod recurrent;
mod rounded;
pub(crate) mod rows;
pub(crate) mod tiles;

use std::collections::HashMap;

use zinc_gguf::DType;
use zinc_graph::Graph;
use zinc_graph::backend::KvFormat;
use zinc_graph::batch::PageGroup;
use zinc_graph::ops::{Activation, Op};
use zinc_graph::section::{Node, ResourceId, ValueId, WeightId};
use zinc_graph::shape::Rows;

use crate::device::Traits;
use crate::error::Error;
use crate::params::{Kernel, Params};
use crate::pipeline::Variant;
use crate::scratch::Scratch;
use crate::tuning::Tuning;
use crate::weights::{Placed, Resource};
use matmul::Groups;

/// Where everything of a plan lies, as device addresses.
pub struct Addresses<'a> {
    /// The graph, fused.
    pub graph: &'a Graph,
    /// Each value, if something writes it.
    pub values: &'a [Option<u64>],
    /// Each weight.
    pub weights: &'a [Placed],
    /// Keys and values, or state.
    pub resources: &'a [Resource],
    /// Frequency tables of rotary embeddings, by node.
    pub rope_tables: &'a [Option<u64>],
    /// The step buffer.
    pub step: u64,
    /// The same with places in the pages of layers with a window; `step` if those have none of their own.
    pub window_step: u64,
    /// Whether every value is read after a step.
    pub keep_values: bool,
    /// Format of keys and values.
    pub kv_format: KvFormat,
    /// Tokens, outputs and sequences of the largest step.
    pub bucket: Sizes,
}

/// The largest step of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens.
    pub tokens: u32,
    /// Rows of logits.
    pub outputs: u32,
    /// Sequences.
    pub seqs: u32,
}

/// Threads of a workgroup in kernels that do not say otherwise.
const THREADS: u32 = 256;

/// A kernel to be launched, whose pipeline is not made yet.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel and its constants.
    pub variant: Variant,
    /// Push constants, 128 bytes at most.
    pub push: Vec<u8>,
    /// Workgroups.
    pub groups: [u32; 3],
    /// Whether all workgroups know what they do before the phase: with experts they do not.
    pub is_dense: bool,
}

impl Launch {
    /// Makes it a part of the chain; the kernel's first parameter is the link.
    pub fn link(&mut self, bits: u32, address: u64) {
        self.variant.links = bits;
        self.push[..size_of::<u64>()].copy_from_slice(&address.to_le_bytes());
    }
}

/// Makes launches.
pub struct Recorder<'a> {
    /// Addresses.
    pub at: Addresses<'a>,
    /// The device.
    pub traits: &'a Traits,
    /// Its entry of the tuning table.
    pub tuning: &'a Tuning,
    /// Memory that kernels use between launches.
    pub scratch: &'a mut Scratch,
    /// The sorted slots of routers, by the value that holds their choice.
    groups: HashMap<ValueId, Groups>,
    /// Of each value, whether it is kept in f16.
    rounded: Vec<bool>,
    /// Whether the graph has products with experts.
    has_experts: bool,
}

/// Rows of a value: the symbol as kernels know it, and how many the largest step has.
#[derive(Clone, Copy)]
struct RowCount {
    symbol: u32,
    most: u32,
}

impl<'a> Recorder<'a> {
    /// A recorder that has launched nothing.
    pub fn new(
        at: Addresses<'a>,
        (traits, tuning): (&'a Traits, &'a Tuning),
        scratch: &'a mut Scratch,
    ) -> Recorder<'a> {
        let (groups, rounded, has_experts) = (HashMap::new(), Vec::new(), has_experts(at.graph));
        let mut recorder = Recorder { at, traits, tuning, scratch, groups, rounded, has_experts };
        recorder.find_rounded();
        recorder
    }
}

impl Recorder<'_> {
    /// The stages of node `index`.
    ///
    /// # Errors
    /// The driver's compiler refuses a kernel, or the op is larger than a kernel takes.
    pub fn stages(&mut self, index: usize) -> Result<Vec<Vec<Launch>>, Error> {
        let graph = self.at.graph;
        let node = &graph.nodes[index];
        let launch = match node.op {
            Op::Embed(p) => self.embed(node, p.scale)?,
            Op::RmsNorm(p) => self.rms_norm(node, p, false)?,
            Op::AddRmsNorm(p) => self.rms_norm(node, p, true)?,
            Op::Matmul(_) => self.matmul(node)?,
            Op::MatmulAdd(_) => self.matmul_add(node)?,
            Op::MatmulGlu(p) => self.matmul_glu(node, p.activation)?,
            Op::NormMatmul(p) => self.norm_matmul(node, p.norm)?,
            Op::NormMatmulGlu(p) => self.norm_matmul_glu(node, p.norm, p.glu.activation)?,
            Op::NormRope(p) => self.norm_rope(node, index, &p)?,
            Op::RopeKvWrite(p) => self.rope_kv_write(node, index, &p)?,
            Op::Rope(p) => self.rope(node, index, &p)?,
            Op::KvWrite(p) => self.kv_write(node, p)?,
            Op::Add => self.add(node)?,
            Op::Glu(p) => self.glu(node, p.activation)?,
            Op::Softcap(p) => self.softcap(node, p.cap)?,
            Op::SelectRows => self.select_rows(node)?,
            Op::Argmax => self.argmax(node)?,
            Op::Slice(p) => self.slice(node, p)?,
            Op::Scale(p) => self.scale(node, p.factor)?,
            Op::Conv1d(p) => self.conv1d(node, p)?,
            Op::L2Norm(p) => self.l2_norm(node, p)?,
            Op::DeltaGates => self.delta_gates(node)?,
            Op::DeltaNet(p) => return self.delta_net(node, p),
            Op::Router(p) => return self.router(node, p),
            Op::Attention(p) => return Ok(vec![self.attention(node, &p)?]),
            Op::RopeAttention(p) => return Ok(vec![self.rope_attention(node, index, &p)?]),
            Op::ExpertMatmul(p) => self.expert_matmul(node, p)?,
            Op::ExpertSum(p) | Op::ExpertSumAdd(p) => self.expert_sum(node, p.n_used)?,
            Op::NormGlu(p) => self.norm_glu(node, p.norm, p.glu.activation)?,
            Op::GateRows => self.gate_rows(node)?,
            Op::NormDeltaNet(p) => return self.norm_delta_net(node, &p),
            Op::ExpertMatmulGlu(p) => self.expert_matmul_glu(node, p)?,
            Op::SliceGlu(p) => self.slice_glu(node, p)?,
        };
        Ok(vec![vec![launch]])
    }

    fn value(&self, id: ValueId) -> u64 {
        self.at.values[usize::from(id.0)].expect("the plan places every value that a node names")
    }

    fn input(&self, node: &Node, i: usize) -> u64 {
        self.value(node.inputs.as_slice()[i])
    }

    fn output(&self, node: &Node, i: usize) -> u64 {
        self.value(node.outputs.as_slice()[i])
    }

    fn weight(&self, id: WeightId) -> Placed {
        self.at.weights[usize::from(id.0)]
    }

    /// Address of the node's weight `i`, 0 without one.
    fn optional_weight(&self, node: &Node, i: usize) -> u64 {
        node.weights.as_slice().get(i).map_or(0, |w| self.weight(*w).address)
    }

    fn resource(&self, id: Option<ResourceId>) -> (u64, u64) {
        self.at.resources[usize::from(id.expect("the builder gives this op a resource").0)].addresses()
    }

    /// The step as a node sees it that reads or writes a cache.
    fn step_of(&self, id: Option<ResourceId>) -> u64 {
        match self.at.resources[usize::from(id.expect("the builder gives this op a resource").0)].group {
            PageGroup::Full => self.at.step,
            PageGroup::Window => self.at.window_step,
        }
    }

    fn cols(&self, id: ValueId) -> u32 {
        self.at.graph.shape(id).cols
    }

    fn rows(&self, id: ValueId) -> RowCount {
        match self.at.graph.shape(id).rows {
            Rows::Tokens => RowCount { symbol: 0, most: self.at.bucket.tokens },
            Rows::Outputs => RowCount { symbol: 1, most: self.at.bucket.outputs },
        }
    }

    /// `constants` are those from id 2 on.
    fn launch<P: Params>(
        &self,
        threads: u32,
        constants: &[u32],
        params: &P,
        groups: [u32; 3],
    ) -> Result<Launch, Error> {
        self.launch_as(P::KERNEL, threads, constants, params, groups)
    }

    /// The same for a twin of the parameters' own kernel.
    fn launch_as<P: Params>(
        &self,
        kernel: Kernel,
        threads: u32,
        constants: &[u32],
        params: &P,
        groups: [u32; 3],
    ) -> Result<Launch, Error> {
        for (axis, (&n, &most)) in groups.iter().zip(&self.traits.groups_max).enumerate() {
            if n > most {
                return Err(Error::TooManyGroups { kernel: kernel.stem(), axis, n, most });
            }
        }
        let mut all = vec![threads, self.traits.subgroup_size];
        all.extend_from_slice(constants);
        let variant = Variant { kernel, constants: all, links: 0 };
        Ok(Launch { variant, push: params.bytes(), groups, is_dense: true })
    }
}

/// Whether a graph has products with experts.
pub(crate) fn has_experts(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::ExpertMatmul(_) | Op::ExpertMatmulGlu(_)))
}

/// An activation as the kernels' constant, with its parameters `alpha` and `limit`.
fn activation_words(activation: Activation) -> (u32, f32, f32) {
    match activation {
        Activation::Silu => (0, 0.0, 0.0),
        Activation::GeluTanh => (1, 0.0, 0.0),
        Activation::Sigmoid => (2, 0.0, 0.0),
        Activation::Clamped { alpha, limit } => (3, alpha, limit),
    }
}

/// Weights of a row that a kernel takes at a time.
const UNIT: u32 = 32;

/// Bytes of a weight row of `n` elements, which must be whole units.
fn row_bytes(op: &'static str, dtype: DType, n: u32) -> Result<u32, Error> {
    if !n.is_multiple_of(UNIT) {
        return Err(Error::RowLength { op, n, unit: UNIT });
    }
    Ok(dtype.row_bytes(n as usize).and_then(|bytes| u32::try_from(bytes).ok()).expect("weights are checked at load"))
}
