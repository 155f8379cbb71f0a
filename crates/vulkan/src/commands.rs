//! Command buffers: recorded once, submitted each step, ordered by one timeline semaphore.
//!
//! Each submission notes what it does, so that a device that stops can say what was in flight.
//! Waits are cut into slices: work that another thread sees fail ends every wait on that device.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ash::vk;

use crate::device::Gpu;
use crate::error::{Error, call};
use crate::lost::{Cause, Work};
use crate::waits::looks;

/// Longest wait for work that was submitted. A CPU driver may take minutes for a long prompt.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Longest wait in one call of the driver.
const WAIT_SLICE: Duration = Duration::from_millis(500);
/// Submissions whose purpose is remembered; older ones have ended long since.
const IN_FLIGHT_MAX: usize = 64;

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

/// Work that was submitted: its parts reach the values from `first` to `last` of the timeline.
#[derive(Clone, Copy, Debug)]
struct Submission {
    first: u64,
    last: u64,
    work: Work,
}

/// The pool and the timeline.
pub struct Commands {
    gpu: Arc<Gpu>,
    pool: vk::CommandPool,
    timeline: vk::Semaphore,
    submitted: u64,
    /// The newest submissions, oldest first.
    in_flight: VecDeque<Submission>,
    /// Microseconds of the last wait for a step.
    last_wait: AtomicU64,
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
        let timeline = unsafe { gpu.device.create_semaphore(&create, None) }.map_err(|result| {
            // SAFETY: nothing was allocated from the pool.
            unsafe { gpu.device.destroy_command_pool(pool, None) };
            call("vkCreateSemaphore")(result)
        })?;
        Ok(Commands {
            gpu: gpu.clone(),
            pool,
            timeline,
            submitted: 0,
            in_flight: VecDeque::new(),
            last_wait: AtomicU64::new(0),
        })
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

    /// Frees a recorded buffer whose submissions have ended.
    pub(crate) fn free(&self, buffer: vk::CommandBuffer) {
        // SAFETY: callers waited for its end.
        unsafe { self.gpu.device.free_command_buffers(self.pool, &[buffer]) };
    }

    /// Records commands, submits them, waits for their end and frees them: for what happens outside of steps.
    ///
    /// # Errors
    /// A lost device.
    pub fn run(&mut self, record: impl FnOnce(&Commands, vk::CommandBuffer)) -> Result<(), Error> {
        self.run_as(Work::Other("a copy"), record)
    }

    /// The same, under a name of its own for the error of a device that is lost meanwhile.
    ///
    /// # Errors
    /// A lost device.
    pub fn run_as(&mut self, work: Work, record: impl FnOnce(&Commands, vk::CommandBuffer)) -> Result<(), Error> {
        let buffer = self.record(record)?;
        let ticket = self.submit_parts(&[buffer], work)?;
        self.wait(ticket)?;
        self.free(buffer);
        Ok(())
    }

    /// Submits recorded buffers in order, with no wait between; returns the timeline's value at the end of the last.
    ///
    /// Each is a batch of its own with a value of its own on the timeline: drivers then hand each to the kernel as one
    /// job, and a watchdog's limit holds for one part, not for their sum. Barriers recorded at the end of a part hold
    /// for the parts after it.
    ///
    /// # Errors
    /// A lost device.
    pub fn submit_parts(&mut self, buffers: &[vk::CommandBuffer], work: Work) -> Result<u64, Error> {
        self.gpu.check_alive()?;
        let first = self.submitted + 1;
        let infos: Vec<[vk::CommandBufferSubmitInfo<'_>; 1]> =
            buffers.iter().map(|&buffer| [vk::CommandBufferSubmitInfo::default().command_buffer(buffer)]).collect();
        let signals: Vec<[vk::SemaphoreSubmitInfo<'_>; 1]> =
            (first..).take(buffers.len()).map(|value| [self.signal(value)]).collect();
        let submits: Vec<vk::SubmitInfo2<'_>> = infos
            .iter()
            .zip(&signals)
            .map(|(info, signal)| vk::SubmitInfo2::default().command_buffer_infos(info).signal_semaphore_infos(signal))
            .collect();
        let submitted = {
            let queue = self.gpu.queue.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: buffers, semaphore and queue are alive; the lock makes this the queue's only user.
            unsafe { self.gpu.device.queue_submit2(*queue, &submits, vk::Fence::null()) }
        };
        let last = self.submitted + buffers.len() as u64;
        self.note(Submission { first, last, work });
        submitted.map_err(|result| self.failed("vkQueueSubmit2", result))?;
        self.submitted = last;
        Ok(last)
    }

    fn signal(&self, value: u64) -> vk::SemaphoreSubmitInfo<'static> {
        vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(value)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
    }

    fn note(&mut self, submission: Submission) {
        if self.in_flight.len() == IN_FLIGHT_MAX {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(submission);
    }

    /// Waits until the timeline reaches `value`.
    ///
    /// # Errors
    /// A lost device, or ten minutes without an end.
    pub fn wait(&self, value: u64) -> Result<(), Error> {
        self.wait_at_most(value, WAIT_MAX)
    }

    /// Waits until the timeline reaches `value`. Work that takes longer than `most` makes the device count as lost.
    ///
    /// # Errors
    /// A lost device.
    pub fn wait_at_most(&self, value: u64, most: Duration) -> Result<(), Error> {
        let started = Instant::now();
        let is_step = self.is_step(value);
        let last = if is_step { Duration::from_micros(self.last_wait.load(Ordering::Relaxed)) } else { Duration::ZERO };
        // A CPU driver needs the core itself.
        let looks = (self.gpu.candidate.kind != vk::PhysicalDeviceType::CPU).then(|| looks(last));
        loop {
            self.gpu.check_alive()?;
            let elapsed = started.elapsed();
            let left = most.saturating_sub(elapsed);
            let sleep = match looks {
                Some((from, _)) if elapsed < from => from - elapsed,
                Some((_, until)) if elapsed < until => Duration::ZERO,
                _ => WAIT_SLICE,
            };
            match self.sleep(value, sleep.min(left).min(WAIT_SLICE)) {
                Ok(()) => {
                    if is_step {
                        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
                        self.last_wait.store(took, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                Err(vk::Result::TIMEOUT) if left.is_zero() => {
                    return Err(self.gpu.lose(Cause::Timeout(most.as_secs()), self.unfinished()));
                }
                Err(vk::Result::TIMEOUT) => {}
                Err(result) => return Err(self.failed("vkWaitSemaphores", result)),
            }
        }
    }

    /// Whether a step ends with this value; other work, such as a copy of its logits, is short.
    fn is_step(&self, value: u64) -> bool {
        let of_value = self.in_flight.iter().rev().find(|submission| submission.last == value);
        of_value.is_some_and(|submission| matches!(submission.work, Work::Step { .. }))
    }

    /// Waits for everything that was submitted.
    ///
    /// # Errors
    /// As [`Commands::wait`].
    pub fn wait_for_all(&self) -> Result<(), Error> {
        self.wait(self.submitted)
    }

    /// Whether the timeline has reached `value`. A wait of no time, because the counter itself is not to be relied on
    /// with every driver that validation runs on.
    ///
    /// # Errors
    /// A lost device.
    pub fn has_reached(&self, value: u64) -> Result<bool, Error> {
        match self.poll(value) {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(result) => Err(self.failed("vkWaitSemaphores", result)),
        }
    }

    fn poll(&self, value: u64) -> Result<(), vk::Result> {
        self.sleep(value, Duration::ZERO)
    }

    fn sleep(&self, value: u64, most: Duration) -> Result<(), vk::Result> {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is alive.
        unsafe { self.gpu.device.wait_semaphores(&info, nanoseconds) }
    }

    /// A failed call's error; a lost device is noted with what was in flight.
    fn failed(&self, name: &'static str, result: vk::Result) -> Error {
        match result {
            vk::Result::ERROR_DEVICE_LOST => self.gpu.given_up(self.unfinished()),
            result => call(name)(result),
        }
    }

    /// The oldest work that has not ended, how many of its parts have, and how many it has.
    fn unfinished(&self) -> Option<(Work, u32, u32)> {
        let parts = self.in_flight.iter().flat_map(|submission| submission.first..=submission.last);
        // What a lost device refuses to tell has not ended.
        let reached = parts.take_while(|&value| self.poll(value).is_ok()).last().unwrap_or(0);
        unfinished(&self.in_flight, reached)
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
        let _ = self.wait_for_all();
        if self.gpu.is_stuck() {
            return;
        }
        // SAFETY: nothing that was submitted here is still running: it was waited for, or the device is given up.
        unsafe {
            self.gpu.device.destroy_semaphore(self.timeline, None);
            self.gpu.device.destroy_command_pool(self.pool, None);
        }
    }
}

fn unfinished(in_flight: &VecDeque<Submission>, reached: u64) -> Option<(Work, u32, u32)> {
    let oldest = in_flight.iter().find(|submission| submission.last > reached)?;
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let ended = (reached + 1).saturating_sub(oldest.first);
    Some((oldest.work, count(ended), count(oldest.last + 1 - oldest.first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_work_that_has_not_ended_is_known_with_its_part() {
        let step = Work::Step { plan: 1, tokens: 512, outputs: 1 };
        let upload = Work::Other("the upload of weights");
        let in_flight = VecDeque::from([
            Submission { first: 3, last: 3, work: upload },
            Submission { first: 4, last: 7, work: step },
        ]);
        let cases = [(2, Some((upload, 0, 1))), (3, Some((step, 0, 4))), (5, Some((step, 2, 4))), (7, None)];
        for (reached, expected) in cases {
            assert_eq!(unfinished(&in_flight, reached), expected, "{reached}");
        }
    }
}
