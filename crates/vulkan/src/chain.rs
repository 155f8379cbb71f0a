//! The chain: phases of a step of few tokens that follow each other without a barrier.
//!
//! A barrier drains the device: the next launch begins when the last has ended, and only then asks for weights. Linked launches
//! begin as soon as there is room. Their workgroups ask for what no phase before has made and wait until all workgroups of that
//! phase have arrived (`shaders/common/chain.glsl`). A link is a counter of arrivals that is never set back: in step `n` of a
//! plan a phase has `n` times its workgroups behind it.
//!
//! It relies on what Vulkan leaves open and a family has to be known for: workgroups begin in the order of their commands, so that
//! none that waits keeps out one that it waits for (`docs/decisions/024-phases-without-barriers.md`).

use std::sync::Arc;

use crate::device::Gpu;
use crate::error::Error;
use crate::kernels::Launch;
use crate::memory::{Buffer, Place};
use crate::params::Kernel;

/// Words of a link, as the kernels know it: a cache line, so that counters do not wait for each other. The first is the counter, the
/// second has the workgroups of the phase before.
const LINK_WORDS: usize = 16;
const BEFORE: usize = 1;
/// Link bits of a kernel: it waits for the phase before, the phase behind waits for it.
const WAITS: u32 = 1;
const IS_AWAITED: u32 = 2;

/// Kernels that can be linked.
const LINKED: [Kernel; 5] = [Kernel::Attention, Kernel::GemmDirect, Kernel::Matvec, Kernel::RmsNorm, Kernel::Rope];

/// The links of a plan's phases; none by default.
#[derive(Default)]
pub struct Chain {
    is_linked: Vec<bool>,
    steps: u32,
    _links: Option<Buffer>,
}

impl Chain {
    /// Links phases that can be to the ones before them.
    ///
    /// # Errors
    /// Out of device memory.
    pub fn link(gpu: &Arc<Gpu>, phases: &mut [Vec<Launch>]) -> Result<Chain, Error> {
        let is_linked = linked(phases);
        let mut words = vec![0; LINK_WORDS * (phases.len() + 1)];
        for (index, before) in phases.iter().enumerate() {
            words[LINK_WORDS * (index + 1) + BEFORE] = n_workgroups(before);
        }
        let mut links = Buffer::new(gpu, 4 * words.len() as u64, Place::Upload)?;
        links.fill(bytemuck::cast_slice(&words))?;
        for (index, phase) in phases.iter_mut().enumerate() {
            let is_awaited = is_linked.get(index + 1).is_some_and(|&is| is);
            let bits = u32::from(is_linked[index]) * WAITS + u32::from(is_awaited) * IS_AWAITED;
            let address = links.address + (4 * LINK_WORDS * index) as u64;
            phase.iter_mut().filter(|_| bits != 0).for_each(|launch| launch.link(bits, address));
        }
        Ok(Chain { is_linked, steps: 0, _links: Some(links) })
    }

    /// Whether a phase waits by itself for the one before, with no barrier between.
    #[must_use]
    pub fn is_linked(&self, phase: usize) -> bool {
        self.is_linked.get(phase).is_some_and(|&is| is)
    }

    /// The number of the next step to be submitted, counted from 1.
    #[must_use]
    pub fn next_step(&self) -> u32 {
        self.steps.wrapping_add(1)
    }

    /// That step is submitted: one that is not must not be counted, or the next would wait for its workgroups.
    pub fn begin_step(&mut self) {
        self.steps = self.next_step();
    }
}

fn n_workgroups(phase: &[Launch]) -> u32 {
    phase.iter().map(|launch| launch.groups.iter().product::<u32>()).sum()
}

/// Of each phase, whether it can wait for the one before by itself.
fn linked(phases: &[Vec<Launch>]) -> Vec<bool> {
    let can =
        |phase: &[Launch]| !phase.is_empty() && phase.iter().all(|l| l.is_dense && LINKED.contains(&l.variant.kernel));
    let has_matvec = |phase: &[Launch]| phase.iter().any(|launch| launch.variant.kernel == Kernel::Matvec);
    // A barrier between two products of one token costs less than their asking twice for the weights that are on their way
    // (H200, Qwen3-8B: 391 tok/s with it, 387 without).
    let pays = |pair: &[Vec<Launch>]| !(has_matvec(&pair[0]) && has_matvec(&pair[1]));
    let pairs = phases.windows(2).map(|pair| can(&pair[0]) && can(&pair[1]) && pays(pair));
    std::iter::once(false).chain(pairs).take(phases.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Variant;

    fn phase(kernels: &[Kernel]) -> Vec<Launch> {
        let launch = |&kernel: &Kernel| Launch {
            variant: Variant { kernel, constants: vec![64, 32], links: 0 },
            push: vec![0; 8],
            groups: [3, 2, 1],
            is_dense: true,
        };
        kernels.iter().map(launch).collect()
    }

    #[test]
    fn a_phase_is_linked_if_all_its_launches_and_those_before_can_be() {
        use Kernel::{Argmax, Attention, GemmDirect, Matvec, RmsNorm, Rope};
        let phases = [
            phase(&[RmsNorm]),
            phase(&[GemmDirect, GemmDirect]),
            phase(&[Rope, Argmax]),
            phase(&[Attention]),
            phase(&[Matvec]),
            phase(&[Matvec]),
            phase(&[RmsNorm]),
        ];
        assert_eq!(linked(&phases), [false, true, false, false, true, false, true]);
        assert_eq!(linked(&[]), []);
        assert_eq!(n_workgroups(&phases[1]), 12);
        let mut experts = phases.to_vec();
        experts[4][0].is_dense = false;
        assert_eq!(linked(&experts), [false, true, false, false, false, false, true]);
    }
}
