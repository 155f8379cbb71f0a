//! Command buffers: recorded once, submitted each step, ordered by one timeline semaphore.

use std::sync::{Arc, PoisonError};

use ash::vk;

use crate::device::Gpu;
use crate::error::{Error, call};

/// One kernel launch, ready to be recorded.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The pipeline.
    pub pipeline: vk::Pipeline,
    /// Push constants, 128 bytes at most.
    pub push: Vec<u8>,
    /// Workgroups.
    pub groups: [u32; 3],
}

/// The pool and the timeline.
pub struct Commands {
    gpu: Arc<Gpu>,
    pool: vk::CommandPool,
    timeline: vk::Semaphore,
    submitted: u64,
}

impl Commands {
    /// An empty pool.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Commands, Error> {
        let create = vk::CommandPoolCreateInfo::default()
            .queue_family_index(gpu.queue_family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the family is the device's own.
        let pool = unsafe { gpu.device.create_command_pool(&create, None) }.map_err(call("vkCreateCommandPool"))?;
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let create = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the structures live through the call.
        let timeline = unsafe { gpu.device.create_semaphore(&create, None) }.map_err(call("vkCreateSemaphore"))?;
        Ok(Commands { gpu: gpu.clone(), pool, timeline, submitted: 0 })
    }

    /// Records a command buffer with `record`.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn record(&self, record: impl FnOnce(&Commands, vk::CommandBuffer)) -> Result<vk::CommandBuffer, Error> {
        let allocate = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is alive and used by this thread alone.
        let buffer = unsafe { self.gpu.device.allocate_command_buffers(&allocate) }
            .map_err(call("vkAllocateCommandBuffers"))?[0];
        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: a fresh command buffer.
        unsafe { self.gpu.device.begin_command_buffer(buffer, &begin) }.map_err(call("vkBeginCommandBuffer"))?;
        record(self, buffer);
        // SAFETY: recording was begun above.
        unsafe { self.gpu.device.end_command_buffer(buffer) }.map_err(call("vkEndCommandBuffer"))?;
        Ok(buffer)
    }

    /// Records commands, submits them, waits for their end and frees them: for what happens outside of steps.
    ///
    /// # Errors
    /// A lost device.
    pub fn run(&mut self, record: impl FnOnce(&Commands, vk::CommandBuffer)) -> Result<(), Error> {
        let buffer = self.record(record)?;
        let ticket = self.submit(buffer)?;
        self.wait(ticket)?;
        // SAFETY: the submission has ended.
        unsafe { self.gpu.device.free_command_buffers(self.pool, &[buffer]) };
        Ok(())
    }

    /// Submits a recorded buffer; returns the timeline's value at its end.
    ///
    /// # Errors
    /// A lost device.
    pub fn submit(&mut self, buffer: vk::CommandBuffer) -> Result<u64, Error> {
        let value = self.submitted + 1;
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(buffer)];
        let signals = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(value)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let submits = [vk::SubmitInfo2::default().command_buffer_infos(&buffers).signal_semaphore_infos(&signals)];
        let queue = self.gpu.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: buffer, semaphore and queue are alive; the lock makes this the queue's only user.
        unsafe { self.gpu.device.queue_submit2(*queue, &submits, vk::Fence::null()) }
            .map_err(call("vkQueueSubmit2"))?;
        self.submitted = value;
        Ok(value)
    }

    /// Waits until the timeline reaches `value`.
    ///
    /// # Errors
    /// A lost device, or ten minutes without an end.
    pub fn wait(&self, value: u64) -> Result<(), Error> {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is alive.
        unsafe { self.gpu.device.wait_semaphores(&info, 600_000_000_000) }.map_err(call("vkWaitSemaphores"))
    }

    /// Waits for everything that was submitted.
    ///
    /// # Errors
    /// As [`Commands::wait`].
    pub fn wait_for_all(&self) -> Result<(), Error> {
        self.wait(self.submitted)
    }

    /// Records one dispatch.
    pub fn dispatch(&self, buffer: vk::CommandBuffer, layout: vk::PipelineLayout, dispatch: &Dispatch) {
        let [x, y, z] = dispatch.groups;
        // SAFETY: recording state; pipeline and layout are alive; the push constants fit the layout's range.
        unsafe {
            self.gpu.device.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, dispatch.pipeline);
            self.gpu.device.cmd_push_constants(buffer, layout, vk::ShaderStageFlags::COMPUTE, 0, &dispatch.push);
            self.gpu.device.cmd_dispatch(buffer, x, y, z);
        }
    }

    /// Everything before is visible to kernels and copies after.
    pub fn barrier(&self, buffer: vk::CommandBuffer) {
        let stages = vk::PipelineStageFlags2::COMPUTE_SHADER | vk::PipelineStageFlags2::ALL_TRANSFER;
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(stages)
            .src_access_mask(vk::AccessFlags2::SHADER_WRITE | vk::AccessFlags2::TRANSFER_WRITE)
            .dst_stage_mask(stages)
            .dst_access_mask(
                vk::AccessFlags2::SHADER_READ
                    | vk::AccessFlags2::SHADER_WRITE
                    | vk::AccessFlags2::TRANSFER_READ
                    | vk::AccessFlags2::TRANSFER_WRITE,
            )];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: recording state.
        unsafe { self.gpu.device.cmd_pipeline_barrier2(buffer, &info) };
    }

    /// Results become visible to the host once the submission has ended.
    pub fn host_barrier(&self, buffer: vk::CommandBuffer) {
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(vk::PipelineStageFlags2::COMPUTE_SHADER | vk::PipelineStageFlags2::COPY)
            .src_access_mask(vk::AccessFlags2::SHADER_WRITE | vk::AccessFlags2::TRANSFER_WRITE)
            .dst_stage_mask(vk::PipelineStageFlags2::HOST)
            .dst_access_mask(vk::AccessFlags2::HOST_READ)];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: recording state.
        unsafe { self.gpu.device.cmd_pipeline_barrier2(buffer, &info) };
    }

    /// Records that a buffer is filled with zeros.
    pub fn fill(&self, buffer: vk::CommandBuffer, target: vk::Buffer, size: u64) {
        // SAFETY: the whole of a live buffer; `size` is a multiple of four.
        unsafe { self.gpu.device.cmd_fill_buffer(buffer, target, 0, size, 0) };
    }

    /// Records a copy.
    pub fn copy(&self, buffer: vk::CommandBuffer, from: (vk::Buffer, u64), to: (vk::Buffer, u64), size: u64) {
        let regions = [vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size }];
        // SAFETY: both ranges lie in live buffers; callers bound them.
        unsafe { self.gpu.device.cmd_copy_buffer(buffer, from.0, to.0, &regions) };
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // A lost device has stopped using them.
        let _ = self.wait_for_all();
        // SAFETY: nothing that was submitted here is still running.
        unsafe {
            self.gpu.device.destroy_semaphore(self.timeline, None);
            self.gpu.device.destroy_command_pool(self.pool, None);
        }
    }
}
