//! What a device had begun and ended when it stopped: marks between the phases of a step.
//!
//! Launches between two barriers run side by side, so a mark stands for a phase. AMD's drivers write a number to
//! memory when everything before it has ended (`VK_AMD_buffer_marker`); NVIDIA's keep the last mark that the queue has
//! come to and the last one whose work had ended (`VK_NV_device_diagnostic_checkpoints`). Neither is meant to make
//! anything wait. Other drivers give no marks, and an error then names the part of the step. `VK_EXT_device_fault`,
//! where there is one, gives the driver's own description.

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use ash::{Device, Instance, amd, ext, nv, vk};

use crate::candidate::has_extension;
use crate::device::Gpu;
use crate::error::Error;
use crate::memory::{Buffer, Place};

/// Which of the extensions a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    buffer_marker: bool,
    checkpoints: bool,
    pub(crate) fault: bool,
}

impl Present {
    /// Asks the device.
    ///
    /// # Errors
    /// The driver refuses.
    pub(crate) fn on(instance: &Instance, device: vk::PhysicalDevice) -> Result<Present, Error> {
        let has = |name: &CStr| has_extension(instance, device, name);
        let mut fault = vk::PhysicalDeviceFaultFeaturesEXT::default();
        if has(ext::device_fault::NAME)? {
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut fault);
            // SAFETY: the chain is made of structures that this device knows.
            unsafe { instance.get_physical_device_features2(device, &mut features) };
        }
        Ok(Present {
            buffer_marker: has(amd::buffer_marker::NAME)?,
            checkpoints: has(nv::device_diagnostic_checkpoints::NAME)?,
            fault: fault.device_fault == vk::TRUE,
        })
    }

    /// The extensions to enable.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static CStr> {
        let all = [
            (self.buffer_marker, amd::buffer_marker::NAME),
            (self.checkpoints, nv::device_diagnostic_checkpoints::NAME),
            (self.fault, ext::device_fault::NAME),
        ];
        all.into_iter().filter_map(|(is_present, name)| is_present.then_some(name))
    }
}

/// The functions of those extensions that were enabled.
pub(crate) struct Markers {
    marking: Option<Marking>,
    fault: Option<ext::device_fault::Device>,
    /// The next mark that no plan of this device has; 0 is none.
    next: AtomicU32,
}

enum Marking {
    Amd(amd::buffer_marker::Device),
    Nvidia(nv::device_diagnostic_checkpoints::Device),
}

impl Markers {
    /// Loads them.
    pub(crate) fn new(present: Present, instance: &Instance, device: &Device) -> Markers {
        let marking = if present.buffer_marker {
            Some(Marking::Amd(amd::buffer_marker::Device::new(instance, device)))
        } else if present.checkpoints {
            Some(Marking::Nvidia(nv::device_diagnostic_checkpoints::Device::new(instance, device)))
        } else {
            None
        };
        let fault = present.fault.then(|| ext::device_fault::Device::new(instance, device));
        Markers { marking, fault, next: AtomicU32::new(1) }
    }

    /// The driver's words on why a device was lost; only for one that was.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.fault.as_ref()?;
        let (mut counts, mut info) = (vk::DeviceFaultCountsEXT::default(), vk::DeviceFaultInfoEXT::default());
        let ask = fault.fp().get_device_fault_info_ext;
        // SAFETY: the device was made with the feature and is lost; counts of 0 ask for the description alone, and
        // both structures live through the call.
        let result = unsafe { ask(fault.device(), &raw mut counts, &raw mut info) };
        let is_known = matches!(result, vk::Result::SUCCESS | vk::Result::INCOMPLETE);
        let text = info.description_as_c_str().ok()?.to_string_lossy().trim().to_owned();
        (is_known && !text.is_empty()).then_some(text)
    }
}

/// The marks of one plan.
pub(crate) struct Marks {
    gpu: Arc<Gpu>,
    n_phases: u32,
    place: MarkPlace,
}

enum MarkPlace {
    /// Holds the number of phases that have ended.
    Memory(Buffer),
    /// The mark of phase 0 on the device's queue; those of the others follow.
    Queue(u32),
}

/// How far a step had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The last phase that was begun, if the driver tells.
    pub(crate) begun: Option<usize>,
    /// Phases that had ended.
    pub(crate) ended: usize,
}

impl Marks {
    /// Marks for so many phases, where the driver has any.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(gpu: &Arc<Gpu>, n_phases: usize) -> Result<Option<Marks>, Error> {
        let n_phases = u32::try_from(n_phases).unwrap_or(u32::MAX);
        let place = match gpu.markers.marking {
            None => return Ok(None),
            Some(Marking::Amd(_)) => MarkPlace::Memory(Buffer::new(gpu, 4, Place::Readback)?),
            // One more: the end of the step.
            Some(Marking::Nvidia(_)) => {
                MarkPlace::Queue(gpu.markers.next.fetch_add(n_phases.saturating_add(1), Ordering::Relaxed))
            }
        };
        Ok(Some(Marks { gpu: gpu.clone(), n_phases, place }))
    }

    /// Records that `n` phases have ended, and that the next one begins.
    pub(crate) fn mark(&self, buffer: vk::CommandBuffer, n: usize) {
        let n = u32::try_from(n).unwrap_or(u32::MAX).min(self.n_phases);
        match (&self.gpu.markers.marking, &self.place) {
            (Some(Marking::Amd(amd)), MarkPlace::Memory(memory)) => {
                let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
                // SAFETY: recording state; the plan keeps the buffer, which has room for one word and takes copies.
                unsafe { amd.cmd_write_buffer_marker(buffer, stage, memory.handle, 0, n) };
            }
            (Some(Marking::Nvidia(nvidia)), MarkPlace::Queue(first)) => {
                let mark = std::ptr::without_provenance::<c_void>(first.saturating_add(n) as usize);
                // SAFETY: recording state; the driver hands the pointer back and never follows it.
                unsafe { nvidia.cmd_set_checkpoint(buffer, mark) };
            }
            _ => {}
        }
    }

    /// How far the step had come that did not end; `is_lost` if the driver has given the device up.
    pub(crate) fn reached(&self, is_lost: bool) -> Option<Reached> {
        match (&self.gpu.markers.marking, &self.place) {
            (Some(Marking::Amd(_)), MarkPlace::Memory(memory)) => {
                let word: [u8; 4] = memory.bytes()?.get(..4)?.try_into().ok()?;
                Reached::of(None, Some(u32::from_le_bytes(word)), self.n_phases)
            }
            // Only the queue of a lost device tells.
            (Some(Marking::Nvidia(nvidia)), MarkPlace::Queue(first)) if is_lost => {
                let queue = self.gpu.queue.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the queue is the device's, which is lost.
                let mut found =
                    vec![vk::CheckpointDataNV::default(); unsafe { nvidia.get_queue_checkpoint_data_len(*queue) }];
                // SAFETY: as above; there is room for as many as the driver said.
                unsafe { nvidia.get_queue_checkpoint_data(*queue, &mut found) };
                let at = |stage: vk::PipelineStageFlags| {
                    let mark = found.iter().find(|mark| mark.stage.contains(stage))?.p_checkpoint_marker.addr();
                    u32::try_from(mark).ok()?.checked_sub(*first)
                };
                let begun = at(vk::PipelineStageFlags::TOP_OF_PIPE);
                Reached::of(begun, at(vk::PipelineStageFlags::BOTTOM_OF_PIPE), self.n_phases)
            }
            _ => None,
        }
    }
}

impl Reached {
    /// From the marks that were found: those of this plan count up to `n_phases`, others say nothing.
    fn of(begun: Option<u32>, ended: Option<u32>, n_phases: u32) -> Option<Reached> {
        let own = |mark: Option<u32>| mark.filter(|&mark| mark <= n_phases).map(|mark| mark as usize);
        let (begun, ended) = (own(begun), own(ended));
        // A step that was begun after another plan's has ended nothing yet.
        let ended = ended.or(begun.map(|_| 0))?;
        Some(Reached { begun: begun.filter(|&begun| begun >= ended), ended })
    }

    /// For people; `phase` says what a phase does.
    pub(crate) fn sentence(self, n_phases: usize, phase: impl Fn(usize) -> String) -> String {
        let what = |index: usize| match index < n_phases {
            true => format!("phase {} of {n_phases}, {}", index + 1, phase(index)),
            false => "what comes before its first phase or after its last".to_owned(),
        };
        let begun = match self.begun {
            Some(begun) if begun > self.ended => format!("; the last one begun was {}", what(begun)),
            _ => String::new(),
        };
        format!("{}{begun}", what(self.ended))
    }
}

#[cfg(test)]
mod tests {
    use super::Reached;

    #[test]
    fn marks_name_the_phase_in_flight() {
        let names = ["embed", "matmul of layer 0", "argmax"];
        let sentence = |begun, ended| {
            Reached::of(begun, ended, 3).map(|reached| reached.sentence(3, |phase| names[phase].to_owned()))
        };
        // Marks that were found: begun, ended. A number above 3 is that of another plan.
        for (begun, ended, expected) in [
            (None, Some(0), Some("phase 1 of 3, embed")),
            (None, Some(2), Some("phase 3 of 3, argmax")),
            (None, Some(3), Some("what comes before its first phase or after its last")),
            (Some(1), Some(1), Some("phase 2 of 3, matmul of layer 0")),
            (Some(2), Some(1), Some("phase 2 of 3, matmul of layer 0; the last one begun was phase 3 of 3, argmax")),
            (Some(0), Some(70), Some("phase 1 of 3, embed")),
            // The next step's first mark, while the end of this one is not seen.
            (Some(0), Some(2), Some("phase 3 of 3, argmax")),
            (Some(70), Some(2), Some("phase 3 of 3, argmax")),
            (Some(70), Some(71), None),
            (None, None, None),
        ] {
            assert_eq!(sentence(begun, ended).as_deref(), expected, "{begun:?} {ended:?}");
        }
    }
}
