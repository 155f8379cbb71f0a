//! The Vulkan backend: a graph recorded once per bucket, a step buffer written each step, one
//! submission.
//!
//! `load` puts weights on the device, `compile` records, `submit` writes the step and replays.
//! Nothing waits for the host inside a step. Greedy tokens come back through a small mapped
//! buffer that every step fills; logits are copied only when they are read.

use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use zinc_gguf::DType;
use zinc_graph::backend::{
    Backend, BackendError, DeviceInfo, KvFormat, PhaseTime, PlanId, PlanOptions, StateSizes, Ticket, WeightData,
};
use zinc_graph::batch::{Batch, BatchLimits};
use zinc_graph::fuse::Fusion;
use zinc_graph::reference::{check_weight, n_vocab};
use zinc_graph::section::{ResourceKind, ValueId, WeightClass};
use zinc_graph::{Graph, fuse};

use crate::commands::Commands;
use crate::device::Gpu;
use crate::error::Error;
use crate::measure;
use crate::memory::{Buffer, Place};
use crate::pipeline::Pipelines;
use crate::recording::{Parts, Recording};
use crate::tuning::Tuning;
use crate::weights::{Resource, Weights};

/// Fusions of every plan.
const FUSIONS: &[Fusion] = &[Fusion::MatmulGlu, Fusion::MatmulAdd, Fusion::NormRope, Fusion::RopeKvWrite];
/// Those that follow for plans of few tokens, and of many.
const FUSIONS_FEW: &[Fusion] = &[Fusion::NormMatmul, Fusion::AddRmsNorm];
const FUSIONS_MANY: &[Fusion] = &[Fusion::AddRmsNorm];

/// What rounding both operands to f16 (2^-11 each) does to the worst of many sums of random products.
const F16_PRODUCTS: f32 = 1e-2;
/// What rounding one operand to 16 bits of the largest of sixteen does to it.
const INTEGER_PRODUCTS: f32 = 5e-4;

/// An open device and the pipelines made for it. Clones are the same device, which any number of
/// backends may share.
#[derive(Clone)]
pub struct Device {
    gpu: Arc<Gpu>,
    pipelines: Arc<Mutex<Pipelines>>,
    tuning: Tuning,
}

impl Device {
    /// Opens the device of that id; `pipeline_cache` is what [`Device::pipeline_cache`] gave in an earlier run.
    ///
    /// # Errors
    /// No loader, no such device, or one that lacks what the kernels need.
    pub fn open(id: &str, pipeline_cache: &[u8]) -> Result<Device, Error> {
        let gpu = Arc::new(Gpu::open(id)?);
        let pipelines = Arc::new(Mutex::new(Pipelines::new(&gpu, pipeline_cache)?));
        let tuning = Tuning::of(gpu.candidate.vendor_id);
        Ok(Device { gpu, pipelines, tuning })
    }

    /// What the driver has compiled so far, for the next start.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn pipeline_cache(&self) -> Result<Vec<u8>, Error> {
        self.pipelines.lock().unwrap_or_else(PoisonError::into_inner).cache_bytes()
    }

    /// Its entry of the tuning table, to be changed for measurements before a backend is made.
    pub fn tuning_mut(&mut self) -> &mut Tuning {
        &mut self.tuning
    }

    /// What it is and can do.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
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
        let info = DeviceInfo { id: candidate.id.clone(), name: candidate.name.clone(), fusions: FUSIONS };
        Ok(Vulkan {
            info,
            plans: Vec::new(),
            weights: Weights::default(),
            resources: Vec::new(),
            state: StateSizes { n_pages: 0, kv_format: KvFormat::F16, n_slots: 0 },
            n_vocab: usize::MAX,
            is_profiling: false,
            commands: Commands::new(&device.gpu)?,
            device: device.clone(),
        })
    }

    fn device_error(&self, error: &Error) -> BackendError {
        let remedy = match error {
            Error::Call { result: vk::Result::ERROR_DEVICE_LOST, .. } => {
                "; the driver gave the device up: see the kernel log"
            }
            Error::Call { result: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, .. } => {
                "; use a smaller model, a shorter context, or another device"
            }
            _ => "",
        };
        BackendError::Device { device: self.info.id.clone(), message: format!("{error}{remedy}") }
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
        self.weights = Weights::load(&self.device.gpu, &mut self.commands, graph, weights)?;
        self.resources = Resource::make_all(&self.device.gpu, graph, state)?;
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
        self.check_weights(graph, &weights)?;
        self.load_checked(graph, &weights, state).map_err(|e| self.device_error(&e))
    }

    fn compile(&mut self, graph: &Graph, options: &PlanOptions) -> Result<PlanId, BackendError> {
        graph.validate()?;
        let tuning = &self.device.tuning;
        let is_few = tuning.matvec_norm && options.bucket.tokens <= tuning.gemm_above;
        let more = if is_few { FUSIONS_FEW } else { FUSIONS_MANY };
        let fused = if options.keep_values { graph.clone() } else { fuse(&fuse(graph, FUSIONS), more) };
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
            is_profiled: self.is_profiling,
        };
        let recording = Recording::new(parts, fused, options).map_err(|e| self.device_error(&e))?;
        self.plans.push(recording);
        Ok(PlanId(u32::try_from(self.plans.len() - 1).expect("plans are few")))
    }

    fn write(&mut self, plan: PlanId, value: ValueId, data: &[f32]) -> Result<(), BackendError> {
        let offset = self.plan(plan)?.place_of_input(value, data.len())?;
        self.write_values(plan, offset, data).map_err(|e| self.device_error(&e))
    }

    fn submit(&mut self, plan: PlanId, batch: &Batch) -> Result<Ticket, BackendError> {
        let bucket = self.plan(plan)?.options.bucket;
        batch.validate(&BatchLimits {
            tokens_max: bucket.tokens as usize,
            outputs_max: bucket.outputs as usize,
            n_vocab: self.n_vocab,
            n_pages: self.state.n_pages as usize,
            n_state_slots: self.state.n_slots as usize,
        })?;
        let recording = &mut self.plans[plan.0 as usize];
        recording.write_batch(batch, self.state.n_pages)?;
        let commands = recording.commands;
        self.commands.submit(commands).map(Ticket).map_err(|e| self.device_error(&e))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<(), BackendError> {
        self.commands.wait(ticket.0).map_err(|e| self.device_error(&e))
    }

    fn read(&mut self, plan: PlanId, value: ValueId, row: usize, dst: &mut [f32]) -> Result<(), BackendError> {
        let recording = self.plan(plan)?;
        let offset = recording.place_of_output(value, row, dst.len())?;
        if dst.is_empty() || recording.read_integers(value, row, dst) {
            return Ok(());
        }
        self.read_values(plan, offset, dst).map_err(|e| self.device_error(&e))
    }

    fn set_profiling(&mut self, is_on: bool) {
        self.is_profiling = is_on;
    }

    fn phase_times(&mut self, plan: PlanId) -> Result<Vec<PhaseTime>, BackendError> {
        self.plan(plan)?.phase_times().map_err(|e| self.device_error(&e))
    }

    fn product_tolerance(&self) -> f32 {
        let has_cores = self.device.gpu.traits.matrix_tile.is_some() && self.device.tuning.matrix_cores;
        match (has_cores, self.device.tuning.integer_dot) {
            (true, _) => F16_PRODUCTS,
            (false, true) => INTEGER_PRODUCTS,
            _ => 0.0,
        }
    }

    fn copy_bandwidth(&mut self) -> Result<Option<f64>, BackendError> {
        measure::copy_bandwidth(&self.device.gpu, &mut self.commands).map(Some).map_err(|e| self.device_error(&e))
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
        self.copy_slots(from, to).map_err(|e| self.device_error(&e))
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // What the commands use is freed next. A lost device has stopped using it.
        let _ = self.commands.wait_for_all();
    }
}
