//! One pipeline as a line of JSON: a hash of its code, its constants, the width asked for, and the driver's words.

use std::collections::HashMap;
use std::ffi::c_char;
use std::fmt::Write as _;
use std::io::Write as _;

use ash::khr::pipeline_executable_properties::DeviceFn;
use ash::vk;

use crate::link;

/// Instructions that are counted in the assembly, by the beginning of their names.
const COUNTED: [&str; 2] = ["v_wmma", "v_dot4"];

/// Appends the line of a pipeline. Without a file to write to, or when the driver says nothing, there is none: whoever
/// asked for the report misses it.
///
/// # Safety
/// `pipeline` must have been made from `info` on `device`, with its statistics kept.
pub(crate) unsafe fn append(
    device: vk::Device,
    functions: &DeviceFn,
    info: &vk::ComputePipelineCreateInfo<'_>,
    pipeline: vk::Pipeline,
    code: &[u32],
) {
    let Some(path) = std::env::var_os("ZINC_PIPELINE_REPORT") else { return };
    // SAFETY: as the caller promises.
    let (constants, asked) = unsafe { (constants(&info.stage), width_asked(&info.stage)) };
    // SAFETY: as the caller promises.
    let Some(said) = (unsafe { said(device, functions, pipeline) }) else { return };
    let mut line = format!("{{\"code\":\"{:016x}\",\"constants\":{constants:?},\"wave_asked\":{asked},", fnv1a(code));
    let _ = write!(line, "\"wave\":{},\"statistics\":{{", said.subgroup_size);
    for (i, (name, value)) in said.statistics.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(line, "{comma}\"{}\":{value}", name.replace(['"', '\\'], "'"));
    }
    line += "}}\n";
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

struct Said {
    subgroup_size: u32,
    statistics: Vec<(String, u64)>,
}

/// What the driver says of the one executable that a compute pipeline has.
///
/// # Safety
/// As [`append`].
unsafe fn said(device: vk::Device, functions: &DeviceFn, pipeline: vk::Pipeline) -> Option<Said> {
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    let mut count = 1;
    let mut properties = [vk::PipelineExecutablePropertiesKHR::default()];
    // SAFETY: room for one.
    let result = unsafe {
        (functions.get_pipeline_executable_properties_khr)(
            device,
            &raw const info,
            &raw mut count,
            properties.as_mut_ptr(),
        )
    };
    if result.as_raw() < 0 || count == 0 {
        return None;
    }
    let executable = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
    let get = functions.get_pipeline_executable_statistics_khr;
    let mut count = 0;
    // SAFETY: asks for the count alone.
    unsafe { get(device, &raw const executable, &raw mut count, std::ptr::null_mut()) }.result().ok()?;
    let mut found = vec![vk::PipelineExecutableStatisticKHR::default(); count as usize];
    // SAFETY: room for as many as there are.
    unsafe { get(device, &raw const executable, &raw mut count, found.as_mut_ptr()) }.result().ok()?;
    let mut statistics: Vec<(String, u64)> = Vec::new();
    for statistic in found {
        if statistic.format != vk::PipelineExecutableStatisticFormatKHR::UINT64 {
            continue;
        }
        // SAFETY: the format says which member of the union it is.
        let value = unsafe { statistic.value.u64 };
        statistics.push((text(&statistic.name), value));
    }
    // SAFETY: as the caller promises.
    if let Some(assembly) = unsafe { assembly(device, functions, &executable) } {
        for prefix in COUNTED {
            let starts = |line: &&str| line.split_whitespace().any(|word| word.starts_with(prefix));
            statistics.push((prefix.to_owned(), assembly.lines().filter(starts).count() as u64));
        }
    }
    Some(Said { subgroup_size: properties[0].subgroup_size, statistics })
}

/// The last of the driver's representations: machine code as text. Not every driver has one.
///
/// # Safety
/// As [`append`].
unsafe fn assembly(
    device: vk::Device,
    functions: &DeviceFn,
    executable: &vk::PipelineExecutableInfoKHR<'_>,
) -> Option<String> {
    let get = functions.get_pipeline_executable_internal_representations_khr;
    let mut count = 0;
    // SAFETY: asks for the count alone.
    unsafe { get(device, executable, &raw mut count, std::ptr::null_mut()) }.result().ok()?;
    let mut found = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
    // SAFETY: asks for the sizes.
    unsafe { get(device, executable, &raw mut count, found.as_mut_ptr()) }.result().ok()?;
    let mut texts: Vec<Vec<u8>> = found.iter().map(|r| vec![0; r.data_size]).collect();
    for (representation, text) in found.iter_mut().zip(&mut texts) {
        representation.p_data = text.as_mut_ptr().cast();
    }
    // SAFETY: room for each text.
    unsafe { get(device, executable, &raw mut count, found.as_mut_ptr()) }.result().ok()?;
    let last = texts.last()?;
    let end = last.iter().position(|&b| b == 0).unwrap_or(last.len());
    Some(String::from_utf8_lossy(&last[..end]).into_owned())
}

/// Specialization constants in the order of their ids; those of this project are words, numbered from 0.
///
/// # Safety
/// The stage's structures must be live.
unsafe fn constants(stage: &vk::PipelineShaderStageCreateInfo<'_>) -> Vec<u32> {
    // SAFETY: as the caller promises.
    let Some(info) = (unsafe { stage.p_specialization_info.as_ref() }) else { return Vec::new() };
    // SAFETY: as the caller promises.
    let entries = unsafe { link::slice(info.p_map_entries, info.map_entry_count) };
    // SAFETY: as the caller promises.
    let data = unsafe { std::slice::from_raw_parts(info.p_data.cast::<u8>(), info.data_size) };
    let mut by_id = HashMap::new();
    for entry in entries {
        let at = entry.offset as usize;
        if let Some(&[a, b, c, d]) = data.get(at..at + entry.size) {
            by_id.insert(entry.constant_id, u32::from_le_bytes([a, b, c, d]));
        }
    }
    let n = by_id.keys().max().map_or(0, |id| id + 1);
    (0..n).map(|id| by_id.get(&id).copied().unwrap_or(0)).collect()
}

/// The subgroup width that was asked for; 0 without one.
///
/// # Safety
/// The stage's structures must be live.
unsafe fn width_asked(stage: &vk::PipelineShaderStageCreateInfo<'_>) -> u32 {
    let mut at = stage.p_next.cast::<vk::BaseInStructure<'_>>();
    while !at.is_null() {
        // SAFETY: every structure of a chain begins with its type and the next one's address.
        unsafe {
            if (*at).s_type == vk::StructureType::PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO {
                type Asked<'a> = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'a>;
                return (*at.cast::<Asked<'_>>()).required_subgroup_size;
            }
            at = (*at).p_next.cast();
        }
    }
    0
}

/// FNV-1a of the code's bytes.
fn fnv1a(code: &[u32]) -> u64 {
    let bytes = code.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
