//! The Vulkan backend: a graph recorded once per bucket, a step buffer written each step, one
//! submission.
//!
//! `load` puts weights on the device, `compile` records, `submit` writes the step and replays.
//! Nothing waits for the host inside a step. Greedy tokens come back through a small mapped
//! buffer that every step fills; logits are copied only when they are read.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zinc_gguf::DType;
use zinc_graph::backend::{
    Backend, BackendError, DeviceInfo, KvFormat, PhaseTime, PlanId, PlanOptions, StateSizes, Ticket, WeightData,
};
use zinc_graph::batch::{Batch, BatchLimits};
use zinc_graph::fuse::Fusion;
use zinc_graph::reference::{check_weight, n_vocab};
use zinc_graph::report::ReportFor;
use zinc_graph::section::{ResourceKind, ValueId, WeightClass};
use zinc_graph::{Graph, fuse};

use crate::cache::PipelineFile;
use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::fragments;
use crate::kernels;
use crate::lost::{Cause, Work};
use crate::measure;
use crate::memory::{Buffer, Memory, Place};
use crate::pipeline::Pipelines;
use crate::recording::{Parts, Recording};
use crate::split;
use crate::tuning::Tuning;
use crate::upload::Progress;
use crate::weights::{Needs, Resource, Weights};

/// Fusions of every plan.
pub(crate) const FUSIONS: &[Fusion] = &[
    Fusion::MatmulGlu,
    Fusion::MatmulAdd,
    Fusion::NormRope,
    Fusion::RopeKvWrite,
    Fusion::NormGlu,
    Fusion::ExpertSumAdd,
    Fusion::NormDeltaNet,
    Fusion::SliceNormRope,
    Fusion::SliceGlu,
];
/// The fusions that follow for plans of so many tokens; `is_direct` if their products go straight to matrix cores.
fn fusions_of_step(tuning: &Tuning, tokens: u32, is_direct: bool) -> Vec<Fusion> {
    let is_few = tokens <= tuning.gemm_above;
    let are_few_of_experts = tokens <= tuning.expert_gemm_above;
    let all = [
        // The matrix-matrix kernels have no gate after the products of experts.
        (are_few_of_experts, Fusion::ExpertMatmulGlu),
        // Behind it, so that experts take the norm along as well.
        (is_few && !is_direct && tuning.matvec_norm, Fusion::NormMatmul),
        (true, Fusion::AddRmsNorm),
        // One workgroup then has a whole head: for many tokens, several are done sooner.
        (is_few, Fusion::DeltaNetNormGlu),
        (tokens <= tuning.attention_rope_most, Fusion::RopeAttention),
    ];
    all.into_iter().filter_map(|(is_wanted, fusion)| is_wanted.then_some(fusion)).collect()
}

/// What rounding both operands to f16 (2^-11 each) does to the worst of many sums of random products.
const F16_PRODUCTS: f32 = 1e-2;
/// What rounding one operand to 16 bits of the largest of 32 does to it.
const INTEGER_PRODUCTS: f32 = 5e-4;

/// An open device and the pipelines made for it. Clones are the same device, which any number of
/// backends may share.
#[derive(Clone)]
pub struct Device {
    gpu: Arc<Gpu>,
    pipelines: Arc<Mutex<Pipelines>>,
    tuning: Tuning,
    /// Longest part of a step, by estimate.
    part_limit: Duration,
    is_marking: bool,
    file: Option<Arc<Mutex<PipelineFile>>>,
}

impl Device {
    /// Opens the device of that id (see [`Gpu::open`]); `pipeline_cache` is what [`Device::pipeline_cache`] gave in an
    /// earlier run.
    ///
    /// # Errors
    /// No loader, no such device, one that lacks what the kernels need, or that is lost at the first work it is given.
    pub fn open(id: &str, pipeline_cache: &[u8]) -> Result<Device, Error> {
        Self::of(Gpu::open(id)?, pipeline_cache)
    }

    /// Opens the device of that id and keeps its compiled pipelines in a file of `folder`.
    ///
    /// # Errors
    /// As [`Device::open`]; never because of the file.
    pub fn open_cached(id: &str, folder: &Path) -> Result<Device, Error> {
        let gpu = Gpu::open(id)?;
        let file = PipelineFile::open(folder, &gpu.candidate);
        let mut device = Self::of(gpu, file.bytes())?;
        device.file = Some(Arc::new(Mutex::new(file)));
        Ok(device)
    }

    fn of(gpu: Gpu, cached: &[u8]) -> Result<Device, Error> {
        let gpu = Arc::new(gpu);
        let mut pipelines = Pipelines::new(&gpu, cached)?;
        let mut tuning = Tuning::of(&gpu.traits);
        if let Some(sides) = gpu.traits.matrix_tile.zip(gpu.traits.matrix_tokens) {
            tuning.fragment = fragments::find(&gpu, &mut pipelines, sides.into())?;
        }
        Ok(Device {
            gpu,
            pipelines: Arc::new(Mutex::new(pipelines)),
            tuning,
            part_limit: Duration::from_millis(split::LIMIT_MS.into()),
            is_marking: false,
            file: None,
        })
    }

    /// What the driver has compiled so far, for the next start.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn pipeline_cache(&self) -> Result<Vec<u8>, Error> {
        self.pipelines.lock().unwrap_or_else(PoisonError::into_inner).cache_bytes()
    }

    /// Its entry of the tuning table, for tests that pretend to another device.
    pub fn tuning_mut(&mut self) -> &mut Tuning {
        &mut self.tuning
    }

    /// Changes one entry of its tuning table, for measurements, before a backend is made: see [`Tuning::set`].
    ///
    /// # Errors
    /// What is wrong with the text, or that results would be wrong with this driver.
    pub fn tune(&mut self, entry: &str) -> Result<(), String> {
        let mut tuning = self.tuning;
        tuning.set(entry)?;
        if tuning.matvec_hold && self.gpu.candidate.is_cpu() {
            let name = &self.gpu.candidate.name;
            return Err(format!(
                "`matvec_hold` is not for {name}, which takes a barrier of a subgroup for one of the workgroup and would leave rows \
                 unwritten"
            ));
        }
        self.tuning = tuning;
        Ok(())
    }

    /// Sets the longest time, by estimate, that a part of a step may hold the queue.
    pub fn set_part_limit(&mut self, limit: Duration) {
        self.part_limit = limit;
    }

    /// Sets whether steps note on the device how far they have come, so that the error of a lost device names the op. On
    /// an H200 each phase then takes 1.2 us more, a tenth of Qwen3-8B's speed.
    pub fn set_marking(&mut self, is_marking: bool) {
        self.is_marking = is_marking;
    }

    /// What it is and can do.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Keeps what the driver has compiled. A cache that cannot be kept costs time at the next start and nothing else.
    fn keep(&self, pipelines: &Pipelines) {
        let Some(file) = &self.file else { return };
        if let Ok(bytes) = pipelines.cache_bytes() {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).save(bytes);
        }
    }
}

/// A Vulkan device that runs graphs.
pub struct Vulkan {
    info: DeviceInfo,
    plans: Vec<Recording>,
    weights: Weights,
    resources: Vec<Resource>,
    state: StateSizes,
    n_vocab: usize,
    is_profiling: bool,
    /// Tokens of the largest step that memory is reckoned for before loading.
    step_tokens: u32,
    progress: Box<Progress>,
    commands: Commands,
    device: Device,
}

impl Vulkan {
    /// A backend of its own on an open device.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn new(device: &Device) -> Result<Vulkan, Error> {
        let candidate = &device.gpu.candidate;
        let info = DeviceInfo {
            id: candidate.id.clone(),
            name: candidate.name.clone(),
            fusions: FUSIONS,
            is_asynchronous: true,
        };
        Ok(Vulkan {
            info,
            plans: Vec::new(),
            weights: Weights::default(),
            resources: Vec::new(),
            state: StateSizes { n_pages: 0, n_window_pages: 0, kv_format: KvFormat::F16, n_slots: 0 },
            n_vocab: usize::MAX,
            is_profiling: false,
            step_tokens: 0,
            progress: Box::new(|_, _| ()),
            commands: Commands::new(&device.gpu)?,
            device: device.clone(),
        })
    }

    /// The same backend, which makes sure before loading that plans for steps of up to so many tokens will fit too.
    #[must_use]
    pub fn with_step_tokens(mut self, step_tokens: u32) -> Vulkan {
        self.step_tokens = step_tokens;
        self
    }

    /// The same backend, which tells how many bytes of the weights have arrived, and of how many.
    #[must_use]
    pub fn with_progress(mut self, progress: Box<Progress>) -> Vulkan {
        self.progress = progress;
        self
    }

    /// The device's memory as it is now.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.device.gpu.memory_now()
    }

    /// Bytes of the device's own memory that the buffers of this device have, of all backends on it.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.device.gpu.allocated_bytes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What loading takes: `graph` as the model declares it, with weights of these sizes in bytes.
    #[must_use]
    pub fn needs(&self, graph: &Graph, sizes: &[u64], state: StateSizes) -> Needs {
        let most = self.device.gpu.traits.allocation_bytes_max;
        Needs::new(&fuse(graph, FUSIONS), sizes, state, self.step_tokens, most)
    }

    fn device_error(&self, error: Error) -> BackendError {
        let error = self.device.gpu.failed(error);
        let part = self.in_flight(&error).map(|part| format!(": {part}")).unwrap_or_default();
        let remedy = error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        BackendError::Device { device: self.info.id.clone(), message: format!("{error}{part}{remedy}") }
    }

    /// The op during which the device was lost; where the driver does not tell, what that part of the step does.
    fn in_flight(&self, error: &Error) -> Option<String> {
        let Error::Lost(lost) = error else { return None };
        let Some((Work::Step { plan, tokens, .. }, ended, _)) = lost.in_flight else { return None };
        let plan = self.plans.get(plan as usize)?;
        let dtypes = self.weights.dtypes();
        let (n_tokens, kv_format) = (u64::from(tokens), self.state.kv_format);
        let of = ReportFor { dtypes: &dtypes, n_tokens, context: 0, kv_format };
        plan.stopped_at(lost.cause == Cause::Lost, &of).or_else(|| plan.labels.get(ended as usize).cloned())
    }

    fn check_alive(&self) -> Result<(), BackendError> {
        self.device.gpu.check_alive().map_err(|e| self.device_error(e))
    }

    fn plan(&self, plan: PlanId) -> Result<&Recording, BackendError> {
        let (index, count) = (plan.0 as usize, self.plans.len());
        self.plans.get(index).ok_or(BackendError::NoSuch { what: "plan", index, count })
    }

    /// Sizes, and types where no kernel can convert.
    fn check_weights(&self, graph: &Graph, weights: &[WeightData]) -> Result<(), BackendError> {
        if graph.weights.len() != weights.len() {
            return Err(BackendError::NoSuch { what: "weight", index: weights.len(), count: graph.weights.len() });
        }
        for (decl, data) in graph.weights.iter().zip(weights) {
            check_weight(&decl.name, decl.shape, data)?;
            if decl.class == WeightClass::Plain && data.dtype != DType::F32 {
                return Err(BackendError::WeightType { name: decl.name.clone(), dtype: data.dtype });
            }
            // Kernels count the bytes of a tensor in 32 bits.
            let (needed, available) = (data.bytes.len() as u64, u64::from(u32::MAX));
            if needed > available {
                let device = self.info.id.clone();
                return Err(BackendError::OutOfMemory { device, what: "one tensor", needed, available });
            }
        }
        Ok(())
    }

    fn load_checked(&mut self, graph: &Graph, weights: &[WeightData], state: StateSizes) -> Result<(), Error> {
        self.commands.wait_for_all()?;
        self.plans.clear();
        self.resources.clear();
        self.weights = Weights::default();
        let sizes: Vec<u64> = weights.iter().map(|w| w.bytes.len() as u64).collect();
        let gpu = &self.device.gpu;
        gpu.check_room(&self.needs(graph, &sizes, state).parts())?;
        // Before the weights, so that a full device shows before they move.
        let resources = Resource::make_all(gpu, graph, state)?;
        let weights = Weights::load(gpu, &mut self.commands, graph, weights, &mut self.progress)?;
        gpu.check_kept()?;
        (self.resources, self.weights) = (resources, weights);
        self.state = state;
        self.n_vocab = n_vocab(graph);
        Ok(())
    }

    /// Copies host memory into a plan's values.
    fn write_values(&mut self, plan: PlanId, offset: u64, data: &[f32]) -> Result<(), Error> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let mut host = Buffer::new(&self.device.gpu, bytes.len() as u64, Place::Upload)?;
        host.fill(bytes)?;
        let values = self.plans[plan.0 as usize].values.handle;
        self.commands.run(|commands, b| {
            commands.barrier(b);
            commands.copy(b, (host.handle, 0), (values, offset), bytes.len() as u64);
            commands.barrier(b);
        })
    }

    /// Copies part of a plan's values to the host.
    fn read_values(&mut self, plan: PlanId, offset: u64, data: &mut [f32]) -> Result<(), Error> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        let host = Buffer::new(&self.device.gpu, bytes.len() as u64, Place::Readback)?;
        let values = self.plans[plan.0 as usize].values.handle;
        self.commands.run(|commands, b| {
            commands.barrier(b);
            commands.copy(b, (values, offset), (host.handle, 0), bytes.len() as u64);
            commands.host_barrier(b);
        })?;
        let mapped = host.bytes().ok_or_else(|| self.unmapped())?;
        bytes.copy_from_slice(&mapped[..bytes.len()]);
        Ok(())
    }

    fn unmapped(&self) -> Error {
        Error::Missing { device: self.info.name.clone(), missing: "memory that the host can read" }
    }

    fn copy_slots(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let resources = &self.resources;
        self.commands.run(|commands, b| {
            commands.barrier(b);
            for resource in resources {
                if let ResourceKind::State { len } = resource.kind {
                    let bytes = 4 * u64::from(len);
                    let at = |slot: u32| (resource.first.handle, u64::from(slot) * bytes);
                    commands.copy(b, at(from), at(to), bytes);
                }
            }
            commands.barrier(b);
        })
    }
}

impl Backend for Vulkan {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, graph: &Graph, weights: Vec<WeightData>, state: StateSizes) -> Result<(), BackendError> {
        self.check_alive()?;
        self.check_weights(graph, &weights)?;
        self.load_checked(graph, &weights, state).map_err(|e| self.device_error(e))
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        self.check_alive()?;
        graph.validate()?;
        let weights = ("weight", graph.weights.len(), self.weights.placed.len());
        let resources = ("resource", graph.resources.len(), self.resources.len());
        // A graph that was not loaded, or whose loading failed.
        for (what, index, count) in [weights, resources] {
            if index != count {
                return Err(BackendError::NoSuch { what, index, count });
            }
        }
        let (traits, tokens) = (&self.device.gpu.traits, options.bucket.tokens);
        let direct = self.device.tuning.direct_for(traits, tokens, kernels::has_experts(graph));
        let more = fusions_of_step(&self.device.tuning, tokens, direct.is_some());
        let fused = if options.keep_values { graph.clone() } else { fuse(&fuse(graph, FUSIONS), &more) };
        fused.validate()?;
        let pipelines = &mut *self.device.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = Parts {
            gpu: &self.device.gpu,
            pipelines,
            commands: &mut self.commands,
            weights: &self.weights,
            resources: &self.resources,
            state: self.state,
            tuning: &self.device.tuning,
            limit: self.device.part_limit,
            is_profiled: self.is_profiling,
            is_marked: self.device.is_marking,
        };
        let n_made = parts.pipelines.n_made();
        let recording = Recording::new(parts, fused, options).map_err(|e| self.device_error(e))?;
        if pipelines.n_made() > n_made {
            self.device.keep(pipelines);
        }
        self.plans.push(recording);
        Ok(PlanId(u32::try_from(self.plans.len() - 1).expect("plans are few")))
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        let offset = self.plan(plan)?.place_of_input(value, data.len())?;
        self.write_values(plan, offset, data).map_err(|e| self.device_error(e))
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let bucket = self.plan(plan)?.options.bucket;
        batch.validate(&BatchLimits {
            tokens_max: bucket.tokens as usize,
            outputs_max: bucket.outputs as usize,
            n_vocab: self.n_vocab,
            n_pages: self.state.n_pages as usize,
            n_window_pages: self.state.n_window_pages as usize,
            n_state_slots: self.state.n_slots as usize,
        })?;
        let recording = &mut self.plans[plan.0 as usize];
        recording.write_batch(batch, self.state.n_pages)?;
        let work = Work::Step { plan: plan.0, tokens: bucket.tokens, outputs: bucket.outputs };
        let submitted = self.commands.submit_parts(&self.plans[plan.0 as usize].commands, work);
        submitted.map(Ticket).map_err(|e| self.device_error(e))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<(), BackendError> {
        self.commands.wait(ticket.0).map_err(|e| self.device_error(e))
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        self.check_alive()?;
        let recording = self.plan(plan)?;
        let offset = recording.place_of_output(value, row, dst.len())?;
        if dst.is_empty() || recording.read_integers(value, row, dst) {
            return Ok(());
        }
        self.read_values(plan, offset, dst).map_err(|e| self.device_error(e))
    }

    fn set_profiling(&mut self, is_on: bool) {
        self.is_profiling = is_on;
    }

    fn phase_times(&mut self, plan: PlanId) -> Result<Vec<PhaseTime>, BackendError> {
        self.plan(plan)?.phase_times().map_err(|e| self.device_error(e))
    }

    fn product_tolerance(&self) -> f32 {
        let has_cores = self.device.tuning.matrix_side(&self.device.gpu.traits).is_some();
        match (has_cores, self.device.tuning.integer_dot) {
            (true, _) => F16_PRODUCTS,
            (false, true) => INTEGER_PRODUCTS,
            _ => 0.0,
        }
    }

    fn copy_bandwidth(&mut self) -> Result<Option<f64>, BackendError> {
        let pipelines = &mut *self.device.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = measure::copy_bandwidth(&self.device.gpu, pipelines, &mut self.commands);
        measured.map(Some).map_err(|e| self.device_error(e))
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), BackendError> {
        let count = self.state.n_slots as usize;
        for index in [from as usize, to as usize] {
            if index >= count {
                return Err(BackendError::NoSuch { what: "state slot", index, count });
            }
        }
        if from == to {
            return Ok(());
        }
        self.copy_slots(from, to).map_err(|e| self.device_error(e))
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // What the commands use is freed next: a device that was given up has stopped using it, and what a device uses
        // that is stuck is not freed.
        let _ = self.commands.wait_for_all();
    }
}
