//! Compute pipelines by kernel and specialization constants.
//!
//! One layout serves all: 128 bytes of push constants and nothing else. The driver's own cache is
//! kept so that a second start compiles nothing.

use std::collections::HashMap;
use std::sync::Arc;

use ash::vk;

use crate::device::Gpu;
use crate::error::{Error, call};
use crate::params::Kernel;

/// A kernel with its constants: constant id `i` has `constants[i]`. Constant 0 is always the
/// workgroup's size and constant 1 the subgroup's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The kernel.
    pub kernel: Kernel,
    /// Values of the specialization constants, by id.
    pub constants: Vec<u32>,
    /// How it is linked to the phases around it: constant `LINKS`.
    pub links: u32,
}

/// Id of the constant LINKS in `shaders/common/chain.glsl`.
const LINKS: u32 = 63;

/// The pipelines made so far.
pub struct Pipelines {
    gpu: Arc<Gpu>,
    /// The layout of all.
    pub layout: vk::PipelineLayout,
    cache: vk::PipelineCache,
    modules: HashMap<Kernel, vk::ShaderModule>,
    made: HashMap<Variant, vk::Pipeline>,
}

impl Pipelines {
    /// No pipelines yet; `cached` is what [`Pipelines::cache_bytes`] gave in an earlier run.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn new(gpu: &Arc<Gpu>, cached: &[u8]) -> Result<Pipelines, Error> {
        let ranges = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(128)];
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: the structures live through the call.
        let layout =
            unsafe { gpu.device.create_pipeline_layout(&layout, None) }.map_err(call("vkCreatePipelineLayout"))?;
        let create = vk::PipelineCacheCreateInfo::default().initial_data(cached);
        let made = [create, vk::PipelineCacheCreateInfo::default()].iter().find_map(|create| {
            // SAFETY: the driver checks the header of the data and ignores what is not its own.
            unsafe { gpu.device.create_pipeline_cache(create, None) }.ok()
        });
        // Without a cache pipelines take longer to make, that is all.
        let cache = made.unwrap_or_default();
        Ok(Pipelines { gpu: gpu.clone(), layout, cache, modules: HashMap::new(), made: HashMap::new() })
    }

    /// The pipeline of a variant, made on first use.
    ///
    /// # Errors
    /// The driver's compiler refuses.
    pub fn get(&mut self, variant: &Variant) -> Result<vk::Pipeline, Error> {
        if let Some(pipeline) = self.made.get(variant) {
            return Ok(*pipeline);
        }
        let module = self.module(variant.kernel)?;
        let links = (variant.links != 0).then_some((LINKS, variant.links));
        let (ids, values): (Vec<u32>, Vec<u32>) = (0u32..).zip(variant.constants.iter().copied()).chain(links).unzip();
        let entry = |(at, &id)| vk::SpecializationMapEntry::default().constant_id(id).offset(at * 4).size(4);
        let entries: Vec<vk::SpecializationMapEntry> = (0u32..).zip(&ids).map(entry).collect();
        let data: &[u8] = bytemuck::cast_slice(&values);
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(data);
        let mut width = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(self.gpu.traits.subgroup_size);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&constants)
            .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
        let (low, high) = self.gpu.traits.subgroup_range;
        if low != high {
            stage = stage.push_next(&mut width);
        }
        let create = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
        // SAFETY: module and layout are alive, the structures live through the call.
        let made = unsafe { self.gpu.device.create_compute_pipelines(self.cache, &create, None) };
        let pipeline = made.map_err(|(_, result)| Error::Call { call: "vkCreateComputePipelines", result })?[0];
        self.made.insert(variant.clone(), pipeline);
        Ok(pipeline)
    }

    /// How many there are.
    pub(crate) fn n_made(&self) -> usize {
        self.made.len()
    }

    /// The driver's cache, for the next start.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn cache_bytes(&self) -> Result<Vec<u8>, Error> {
        if self.cache == vk::PipelineCache::null() {
            return Ok(Vec::new());
        }
        // SAFETY: the cache is alive.
        unsafe { self.gpu.device.get_pipeline_cache_data(self.cache) }.map_err(call("vkGetPipelineCacheData"))
    }

    fn module(&mut self, kernel: Kernel) -> Result<vk::ShaderModule, Error> {
        if let Some(module) = self.modules.get(&kernel) {
            return Ok(*module);
        }
        let words: Vec<u32> =
            kernel.spirv().chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let create = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the code is SPIR-V made by the project's own pinned compiler.
        let module =
            unsafe { self.gpu.device.create_shader_module(&create, None) }.map_err(call("vkCreateShaderModule"))?;
        self.modules.insert(kernel, module);
        Ok(module)
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        if self.gpu.is_stuck() {
            return;
        }
        // SAFETY: the owner waited for the device.
        unsafe {
            self.made.values().for_each(|p| self.gpu.device.destroy_pipeline(*p, None));
            self.modules.values().for_each(|m| self.gpu.device.destroy_shader_module(*m, None));
            self.gpu.device.destroy_pipeline_cache(self.cache, None);
            self.gpu.device.destroy_pipeline_layout(self.layout, None);
        }
    }
}
