//! What a backend is: a device that takes a graph once and a batch each step.
//!
//! The trait knows plans, values and batches; no op, model or sequence. A backend owns one device,
//! its weights and its persistent state. `submit` may return before the work is done; `wait` and
//! `read` see its results.

use zinc_gguf::{Bytes, DType};

use crate::batch::{Batch, BatchError, PageGroup};
use crate::fuse::Fusion;
use crate::graph::{Graph, GraphError, GraphResource};
use crate::section::ValueId;

/// Storage format of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvFormat {
    /// Four bytes an element: the reference.
    F32,
    /// Two bytes an element.
    F16,
    /// A signed byte an element, and one scale in f16 for every [`Q8_GROUP`] of a head.
    Q8,
}

/// Elements that share a scale in [`KvFormat::Q8`].
pub const Q8_GROUP: u32 = 32;
/// Largest scale of such a group: 127 steps stay within f16.
const Q8_SCALE_MAX: f32 = 515.5;

impl KvFormat {
    /// Every format.
    pub const ALL: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8];

    /// Bytes of a token's keys, or of its values: `width` elements, those of all heads. In [`KvFormat::Q8`] the bytes of all
    /// elements, then the scales, up to a multiple of 16 bytes.
    #[must_use]
    pub const fn row_bytes(self, width: u64) -> u64 {
        match self {
            KvFormat::F32 => width * 4,
            KvFormat::F16 => width * 2,
            KvFormat::Q8 => (width + 2 * width.div_ceil(Q8_GROUP as u64)).next_multiple_of(16),
        }
    }

    /// What the elements of a head must be a multiple of.
    #[must_use]
    pub const fn head_unit(self) -> u32 {
        match self {
            KvFormat::F32 | KvFormat::F16 => 1,
            KvFormat::Q8 => Q8_GROUP,
        }
    }

    /// What comes back of elements of whole heads after they are stored. In [`KvFormat::Q8`] a scale is the largest
    /// magnitude of its group over 127, rounded to f16 and at most 515.5, so that elements stay within f16; an element
    /// is the multiple of the scale next to it, and of two the even one.
    #[expect(clippy::cast_possible_truncation, reason = "seven bits times eleven are exact in f32")]
    pub fn store(self, x: &[f32], stored: &mut [f32]) {
        match self {
            KvFormat::F32 => stored.copy_from_slice(x),
            KvFormat::F16 => {
                stored.iter_mut().zip(x).for_each(|(stored, &x)| *stored = half::f16::from_f32(x).to_f32());
            }
            KvFormat::Q8 => {
                let group = Q8_GROUP as usize;
                for (stored, x) in stored.chunks_mut(group).zip(x.chunks(group)) {
                    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                    let scale = half::f16::from_f32((most * (1.0 / 127.0)).min(Q8_SCALE_MAX)).to_f32();
                    for (stored, &x) in stored.iter_mut().zip(x) {
                        let steps = (f64::from(x) / f64::from(scale)).round_ties_even().clamp(-127.0, 127.0);
                        *stored = if scale == 0.0 { 0.0 } else { (steps * f64::from(scale)) as f32 };
                    }
                }
            }
        }
    }
}

/// The device behind a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Stable id, as `--device` takes it: `cpu`, `vulkan:0`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Fusions that the backend has kernels for.
    pub fusions: &'static [Fusion],
    /// It computes by itself: `submit` returns before the step is done.
    pub is_asynchronous: bool,
}

/// A weight's storage: bytes in the file's own layout, kept alive by the handle.
#[derive(Clone)]
pub struct WeightData {
    /// Storage type.
    pub dtype: DType,
    /// The tensor, row by row.
    pub bytes: Bytes,
}

impl std::fmt::Debug for WeightData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WeightData({}, {} bytes)", self.dtype, self.bytes.len())
    }
}

/// Sizes of the persistent state, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSizes {
    /// Pages of 16 tokens in the pool.
    pub n_pages: u32,
    /// Pages of the pool of layers that see a window only; 0 if they share the pages of the others.
    pub n_window_pages: u32,
    /// Format of keys and values.
    pub kv_format: KvFormat,
    /// Slots of recurrent state.
    pub n_slots: u32,
}

impl StateSizes {
    /// Which pages the keys and values of a resource lie in.
    #[must_use]
    pub const fn group_of(&self, resource: &GraphResource) -> PageGroup {
        if self.n_window_pages > 0 && resource.window > 0 { PageGroup::Window } else { PageGroup::Full }
    }

    /// Pages of a group.
    #[must_use]
    pub const fn pages_of(&self, group: PageGroup) -> u32 {
        match group {
            PageGroup::Full => self.n_pages,
            PageGroup::Window => self.n_window_pages,
        }
    }
}

/// Largest step that a plan takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket {
    /// Tokens.
    pub tokens: u32,
    /// Rows of logits.
    pub outputs: u32,
}

/// How a plan is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Largest step.
    pub bucket: Bucket,
    /// Keep every value readable after the step: no buffer is reused (traces and tests).
    pub keep_values: bool,
}

/// A compiled plan of one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanId(pub u32);

/// A submitted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Time that a phase of a plan took on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseTime {
    /// The ops that ran side by side, with types and shapes.
    pub label: String,
    /// Bytes that they must move, without keys and values.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
}

/// A device that runs graphs.
pub trait Backend: Send {
    /// The device.
    fn device(&self) -> &DeviceInfo;

    /// Takes the weights and makes the persistent state, once. `weights[i]` is `graph.weights[i]`.
    ///
    /// # Errors
    /// Not enough memory, or a storage type without a kernel.
    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError>;

    /// Compiles the loaded graph, fused for this device, for steps up to a bucket.
    ///
    /// # Errors
    /// Not enough memory, or an op without a kernel.
    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError>;

    /// Writes an input of the graph, `[rows][cols]`, for the next step of `plan`.
    ///
    /// # Errors
    /// A value that is not an input, or more rows than the bucket has.
    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError>;

    /// Starts one step.
    ///
    /// # Errors
    /// A batch outside the plan's limits, or a lost device.
    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError>;

    /// Waits until the step is done.
    ///
    /// # Errors
    /// A lost device.
    fn wait(&mut self, ticket: Ticket) -> Result<(), BackendError>;

    /// Does `work` once, beside the next step: a device that computes on the caller's thread gives it to another of its own,
    /// and does it itself after that step if no other came; any other device does it at once.
    fn aside(&mut self, work: Box<dyn FnOnce() + Send>) {
        work();
    }

    /// Reads `dst.len() / cols` rows of an output of the last waited step, from row `row`.
    /// Integers come as the bits of an f32.
    ///
    /// # Errors
    /// A value that is not kept, or rows that the step did not have.
    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError>;

    /// Plans that are compiled from now on take the time of each of their phases, if the device can.
    fn set_profiling(&mut self, is_on: bool) {
        let _ = is_on;
    }

    /// Times of the phases of the last waited step, in order; none from a plan that takes none.
    ///
    /// # Errors
    /// A lost device.
    fn phase_times(&mut self, plan: PlanId) -> Result<Vec<PhaseTime>, BackendError> {
        let _ = plan;
        Ok(Vec::new())
    }

    /// Largest relative error of a matrix product (in shares of the root mean square of its output) beyond that of f32
    /// arithmetic: above 0 where many tokens go through matrix cores, which round operands to f16.
    fn product_tolerance(&self) -> f32 {
        0.0
    }

    /// Bytes per second that a copy inside the device's memory reads and writes, measured; `None` if
    /// the device has no such figure.
    ///
    /// # Errors
    /// A lost device, or no memory for the copy.
    fn copy_bandwidth(&mut self) -> Result<Option<f64>, BackendError> {
        Ok(None)
    }

    /// Copies the recurrent states of one slot to another.
    ///
    /// # Errors
    /// A slot out of range, or a lost device.
    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError>;
}

/// What can go wrong on a device.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The batch is outside the plan's limits.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The graph cannot be run.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The device has not the memory.
    #[error("{device}: {what} needs {needed} bytes, {available} are free")]
    OutOfMemory {
        /// Device id.
        device: String,
        /// What was to be allocated.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// A weight's bytes do not agree with its shape.
    #[error("tensor `{name}`: {got} bytes where {dtype} of that shape has {expected}")]
    WeightSize {
        /// Tensor.
        name: String,
        /// Storage type.
        dtype: DType,
        /// Bytes of the shape.
        expected: u64,
        /// Bytes given.
        got: u64,
    },
    /// A weight has a storage type that its use does not allow.
    #[error("tensor `{name}` is stored as {dtype}, which this use of it does not allow; it must be F32")]
    WeightType {
        /// Tensor.
        name: String,
        /// Storage type found.
        dtype: DType,
    },
    /// A plan, value, row or slot that is not there.
    #[error("{what} {index} does not exist (there are {count})")]
    NoSuch {
        /// What was asked for.
        what: &'static str,
        /// Its index.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The device failed during a step.
    #[error("{device}: {message}")]
    Device {
        /// Device id.
        device: String,
        /// The driver's word, and what to do.
        message: String,
    },
}
