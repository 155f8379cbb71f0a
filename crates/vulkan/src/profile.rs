//! GPU timestamps after each phase of a plan.
//!
//! A phase is what runs between two barriers, so its time is that from the end of the phase before
//! to its own: the barrier that follows waits for the same work, and the timestamps cost little.

use std::sync::Arc;

use ash::vk;
use zinc_graph::Graph;
use zinc_graph::backend::{KvFormat, PhaseTime};
use zinc_graph::report::{ReportFor, node_bytes, node_label};

use crate::device::Gpu;
use crate::error::{Error, call};
use crate::weights::Weights;

/// The timestamps of a plan.
pub struct Profile {
    gpu: Arc<Gpu>,
    pool: vk::QueryPool,
    /// What each phase does, and the bytes that it must move.
    phases: Vec<(String, u64)>,
}

impl Profile {
    /// For phases made of these nodes.
    ///
    /// # Errors
    /// The driver refuses, or its queue has no timestamps.
    pub fn new(
        gpu: &Arc<Gpu>,
        graph: &Graph,
        weights: &Weights,
        nodes: &[Vec<usize>],
        n_tokens: u32,
        kv_format: KvFormat,
    ) -> Result<Profile, Error> {
        if gpu.traits.timestamp_ns == 0.0 {
            return Err(Error::Missing { device: gpu.candidate.name.clone(), missing: "timestamps" });
        }
        let dtypes = weights.dtypes();
        // Keys are left out: their number differs from step to step.
        let of = ReportFor { dtypes: &dtypes, n_tokens: u64::from(n_tokens), context: 0, kv_format };
        let phase = |nodes: &Vec<usize>| {
            let mut labels: Vec<String> = nodes.iter().map(|&n| node_label(graph, &graph.nodes[n], &of)).collect();
            labels.dedup();
            let bytes = nodes.iter().map(|&n| node_bytes(graph, &graph.nodes[n], &of)).sum();
            (labels.join(" + "), bytes)
        };
        let count = u32::try_from(nodes.len() + 1).unwrap_or(u32::MAX);
        let create = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
        // SAFETY: `create` lives through the call.
        let pool = unsafe { gpu.device.create_query_pool(&create, None) }.map_err(call("vkCreateQueryPool"))?;
        Ok(Profile { gpu: gpu.clone(), pool, phases: nodes.iter().map(phase).collect() })
    }

    /// Records the timestamp before the first phase.
    pub fn begin(&self, buffer: vk::CommandBuffer) {
        let count = u32::try_from(self.phases.len() + 1).unwrap_or(u32::MAX);
        // SAFETY: recording state; the pool has `count` queries.
        unsafe { self.gpu.device.cmd_reset_query_pool(buffer, self.pool, 0, count) };
        self.write(buffer, 0);
    }

    /// Records the timestamp after a phase.
    pub fn mark(&self, buffer: vk::CommandBuffer, phase: usize) {
        self.write(buffer, u32::try_from(phase + 1).unwrap_or(u32::MAX));
    }

    fn write(&self, buffer: vk::CommandBuffer, query: u32) {
        let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
        // SAFETY: recording state; the query is one of the pool's and was reset by `begin`.
        unsafe { self.gpu.device.cmd_write_timestamp2(buffer, stage, self.pool, query) };
    }

    /// The times of the last step, which has ended.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self) -> Result<Vec<PhaseTime>, Error> {
        // The driver would wait for what will not come.
        self.gpu.check_alive()?;
        let mut ticks = vec![0u64; self.phases.len() + 1];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the pool has as many queries, all written by the step.
        unsafe { self.gpu.device.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .map_err(call("vkGetQueryPoolResults"))?;
        let ns = f64::from(self.gpu.traits.timestamp_ns);
        let phase = |((label, bytes), pair): (&(String, u64), &[u64])| PhaseTime {
            label: label.clone(),
            bytes: *bytes,
            seconds: pair[1].saturating_sub(pair[0]) as f64 * ns * 1e-9,
        };
        Ok(self.phases.iter().zip(ticks.windows(2)).map(phase).collect())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if self.gpu.is_stuck() {
            return;
        }
        // SAFETY: owners wait for the device before they drop a plan.
        unsafe { self.gpu.device.destroy_query_pool(self.pool, None) };
    }
}
