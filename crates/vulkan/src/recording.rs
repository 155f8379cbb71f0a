//! A plan: memory for its values, its step buffer, and the commands of a step, recorded once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use zinc_graph::backend::{BackendError, PhaseTime, PlanOptions, StateSizes};
use zinc_graph::batch::{PAGE_TOKENS, PageGroup};
use zinc_graph::ops::{NormRope, Op, RopeAttention, RopeKvWrite};
use zinc_graph::report::ReportFor;
use zinc_graph::section::ValueId;
use zinc_graph::shape::Elem;
use zinc_graph::{Batch, Graph, Plan};

use crate::chain::Chain;
use crate::commands::{Commands, Dispatch};
use crate::device::Gpu;
use crate::error::Error;
use crate::kernels::{Addresses, Launch, Recorder, Sizes, has_experts};
use crate::markers::Marks;
use crate::memory::{Buffer, Place, TENSOR_ALIGN};
use crate::pipeline::Pipelines;
use crate::profile::Profile;
use crate::scratch::Scratch;
use crate::split::{self, Pace};
use crate::step;
use crate::tuning::Tuning;
use crate::weights::{Resource, Weights};

/// A plan that can be submitted.
pub struct Recording {
    /// The graph, fused.
    pub graph: Graph,
    /// How it was compiled.
    pub options: PlanOptions,
    /// The commands of a step, part by part.
    pub commands: Vec<vk::CommandBuffer>,
    /// What each part does, for people.
    pub labels: Vec<String>,
    /// Every value.
    pub values: Buffer,
    plan: Plan,
    step: Buffer,
    /// Bytes of a view of the batch.
    view_bytes: u64,
    readback: Buffer,
    /// Offset in `readback` of each integer output.
    integers: Vec<(ValueId, u64)>,
    /// Tokens and outputs of the last step.
    last: (usize, usize),
    profile: Option<Profile>,
    marks: Option<Marks>,
    chain: Chain,
    /// The nodes that have a launch in each phase.
    nodes: Vec<Vec<usize>>,
    // What the recorded commands name: frequency tables, memory between launches.
    _tables: Vec<Buffer>,
    _scratch: Scratch,
}

/// What a plan is recorded from.
pub struct Parts<'a> {
    /// The device.
    pub gpu: &'a Arc<Gpu>,
    /// Its pipelines.
    pub pipelines: &'a mut Pipelines,
    /// Where commands come from.
    pub commands: &'a mut Commands,
    /// The weights.
    pub weights: &'a Weights,
    /// The persistent state.
    pub resources: &'a [Resource],
    /// Its sizes.
    pub state: StateSizes,
    /// The device's entry of the tuning table.
    pub tuning: &'a Tuning,
    /// Longest part of a step.
    pub limit: Duration,
    /// Whether each phase is timed.
    pub is_profiled: bool,
    /// Whether a step notes how far it has come.
    pub is_marked: bool,
}

impl Recording {
    /// Records a validated graph.
    ///
    /// # Errors
    /// Out of memory, or an op that is larger than its kernel takes.
    pub fn new(parts: Parts<'_>, graph: Graph, options: &PlanOptions) -> Result<Recording, Error> {
        let gpu = parts.gpu;
        let plan = Plan::new(&graph, options);
        let values = Buffer::new(gpu, plan.arena_bytes as u64, Place::Device)?;
        let bucket = options.bucket;
        let seqs = bucket.tokens.min(parts.state.n_slots).max(1);
        let (step, view_bytes) = step_buffer(gpu, &parts.state, bucket.tokens, seqs)?;
        let tables = Tables::new(gpu, &graph, parts.weights)?;
        let addresses: Vec<Option<u64>> = plan.offsets.iter().map(|o| o.map(|o| values.address + o as u64)).collect();
        let at = Addresses {
            graph: &graph,
            values: &addresses,
            weights: &parts.weights.placed,
            resources: parts.resources,
            rope_tables: &tables.of_node,
            step: step.address,
            window_step: step.address + if parts.state.n_window_pages > 0 { view_bytes } else { 0 },
            keep_values: options.keep_values,
            kv_format: parts.state.kv_format,
            bucket: Sizes { tokens: bucket.tokens, outputs: bucket.outputs, seqs },
        };
        let layout = parts.pipelines.layout;
        let mut scratch = Scratch::new(gpu);
        let mut recorder = Recorder::new(at, (&gpu.traits, parts.tuning), &mut scratch);
        let Phases { mut launches, nodes, ended } = phases(&mut recorder, &plan)?;
        let chain = chain(&parts, &graph, bucket.tokens, &mut launches)?;
        let phases = with_pipelines(parts.pipelines, launches)?;
        scratch.clear(parts.commands)?;
        let profile = |()| Profile::new(gpu, &graph, parts.weights, &ended, bucket.tokens, parts.state.kv_format);
        let profile = parts.is_profiled.then_some(()).map(profile).transpose()?;
        let marks = if parts.is_marked { Marks::new(gpu, phases.len())? } else { None };
        let (integers, readback_bytes) = integer_outputs(&graph, options);
        let readback = Buffer::new(gpu, readback_bytes, Place::Readback)?;
        let (ranges, labels) = cut(&parts, &graph, &ended, bucket.tokens);
        let copies = integers.iter().map(|&(id, to)| {
            let from = plan.offsets[usize::from(id.0)].expect("outputs are placed") as u64;
            (from, to, rows_bytes(&graph, options, id))
        });
        let script = Script {
            phases: &phases,
            chain: &chain,
            layout,
            profile: profile.as_ref(),
            marks: marks.as_ref(),
            copies: copies.collect(),
            from: values.handle,
            to: readback.handle,
        };
        let commands = ranges.iter().map(|range| script.record(parts.commands, range)).collect::<Result<_, _>>()?;
        let options = options.clone();
        let last = (0, 0);
        Ok(Recording {
            graph,
            options,
            commands,
            labels,
            values,
            plan,
            step,
            view_bytes,
            readback,
            integers,
            last,
            profile,
            marks,
            chain,
            nodes,
            _tables: tables.buffers,
            _scratch: scratch,
        })
    }

    /// Times of the phases of the last step that has ended; none if they are not taken.
    ///
    /// # Errors
    /// A lost device.
    pub fn phase_times(&self) -> Result<Vec<PhaseTime>, Error> {
        self.profile.as_ref().map_or_else(|| Ok(Vec::new()), Profile::read)
    }

    /// The op at which a step stopped, for people, if the driver tells; `is_lost` if it has given the device up.
    #[must_use]
    pub fn stopped_at(&self, is_lost: bool, of: &ReportFor<'_>) -> Option<String> {
        let reached = self.marks.as_ref()?.reached(is_lost)?;
        Some(reached.sentence(self.nodes.len(), |phase| split::phase_label(&self.graph, &self.nodes[phase], of)))
    }

    /// Puts a batch that was validated against the plan's limits where the commands read it.
    ///
    /// # Errors
    /// Longer block tables than the step buffer has room for.
    pub fn write_batch(&mut self, batch: &Batch, n_pages: u32) -> Result<(), BackendError> {
        let capacity = self.options.bucket.tokens;
        let number = self.chain.next_step();
        let view_bytes = usize::try_from(self.view_bytes).unwrap_or(usize::MAX);
        let views = self.step.bytes_mut().map(|bytes| bytes.chunks_exact_mut(view_bytes));
        let mut groups = [PageGroup::Full, PageGroup::Window].into_iter();
        let fits = views.is_some_and(|mut views| {
            views.all(|view| groups.next().is_some_and(|group| step::write(view, batch, group, capacity, number)))
        });
        if !fits {
            let what = "place in the step buffer for a block table of";
            return Err(BackendError::NoSuch { what, index: batch.full.block_tables.len(), count: n_pages as usize });
        }
        self.chain.begin_step();
        self.last = (batch.n_tokens(), batch.n_outputs());
        Ok(())
    }

    /// Byte offset of rows of an input of the largest step.
    ///
    /// # Errors
    /// A value that is no input, or more rows than the bucket has.
    pub fn place_of_input(&self, value: ValueId, n: usize) -> Result<u64, BackendError> {
        if !self.graph.inputs.contains(&value) {
            return Err(no_value(&self.graph, value));
        }
        let bucket = self.options.bucket;
        self.place(value, 0, n, (bucket.tokens as usize, bucket.outputs as usize))
    }

    /// Byte offset of rows of an output of the last step, or of any value of a plan that keeps all.
    ///
    /// # Errors
    /// A value that is not kept, or rows that the step did not have.
    pub fn place_of_output(&self, value: ValueId, row: usize, n: usize) -> Result<u64, BackendError> {
        let is_kept = self.options.keep_values || self.graph.outputs.contains(&value);
        if !is_kept || usize::from(value.0) >= self.graph.values.len() {
            return Err(no_value(&self.graph, value));
        }
        self.place(value, row, n, self.last)
    }

    fn place(
        &self,
        value: ValueId,
        row: usize,
        n: usize,
        (tokens, outputs): (usize, usize),
    ) -> Result<u64, BackendError> {
        let cols = self.graph.shape(value).cols as usize;
        let count = self.graph.rows(value, tokens, outputs);
        if row.saturating_mul(cols).saturating_add(n) > count * cols {
            return Err(BackendError::NoSuch { what: "row", index: row + n.div_ceil(cols.max(1)), count });
        }
        let offset = self.plan.offsets[usize::from(value.0)].ok_or_else(|| no_value(&self.graph, value))?;
        Ok((offset + row * cols * 4) as u64)
    }

    /// Integers that the step itself has brought to the host: `dst.len()` from row `row` of an output that was
    /// checked with [`Recording::place_of_output`]; `false` for other values.
    pub fn read_integers(&self, value: ValueId, row: usize, dst: &mut [f32]) -> bool {
        let Some((_, at)) = self.integers.iter().find(|(id, _)| *id == value) else { return false };
        let start =
            usize::try_from(*at).unwrap_or(usize::MAX).saturating_add(row * self.graph.shape(value).row_bytes());
        let bytes = self.readback.bytes().and_then(|bytes| bytes.get(start..start.saturating_add(4 * dst.len())));
        bytes.map(|bytes| bytemuck::cast_slice_mut::<f32, u8>(dst).copy_from_slice(bytes)).is_some()
    }
}

fn no_value(graph: &Graph, value: ValueId) -> BackendError {
    BackendError::NoSuch { what: "value", index: usize::from(value.0), count: graph.values.len() }
}

/// Memory for a step of so many tokens of so many sequences, and the bytes of a view of it: one for each kind of pages.
fn step_buffer(gpu: &Arc<Gpu>, state: &StateSizes, tokens: u32, seqs: u32) -> Result<(Buffer, u64), Error> {
    let table_entries = u64::from(state.n_pages) * u64::from(seqs);
    let view_bytes = step::bytes(tokens, table_entries).next_multiple_of(TENSOR_ALIGN);
    let n_views = if state.n_window_pages > 0 { 2 } else { 1 };
    Ok((Buffer::new(gpu, n_views * view_bytes, Place::Upload)?, view_bytes))
}

/// The phases of each part of a step, and what it does.
fn cut(parts: &Parts<'_>, graph: &Graph, nodes: &[Vec<usize>], n_tokens: u32) -> (Vec<Range<usize>>, Vec<String>) {
    let dtypes = parts.weights.dtypes();
    let context = u64::from(parts.state.n_pages) * PAGE_TOKENS as u64;
    let kv_format = parts.state.kv_format;
    let of = ReportFor { dtypes: &dtypes, n_tokens: u64::from(n_tokens), context, kv_format };
    let pace = Pace::of(parts.gpu.candidate.kind);
    let seconds: Vec<f64> = nodes.iter().map(|nodes| pace.seconds(graph, nodes, &of)).collect();
    let ranges = split::parts(&seconds, parts.limit);
    let labels = ranges.iter().map(|range| split::label(graph, &nodes[range.clone()], &of)).collect();
    (ranges, labels)
}

/// Launches that run side by side.
type Phase = Vec<Dispatch>;

/// All that a step's commands are made of.
struct Script<'a> {
    phases: &'a [Phase],
    chain: &'a Chain,
    layout: vk::PipelineLayout,
    profile: Option<&'a Profile>,
    marks: Option<&'a Marks>,
    /// What the end of the step brings to the host: where from, where to, bytes.
    copies: Vec<(u64, u64, u64)>,
    from: vk::Buffer,
    to: vk::Buffer,
}

impl Script<'_> {
    /// Records the phases of one part.
    fn record(&self, commands: &Commands, part: &Range<usize>) -> Result<vk::CommandBuffer, Error> {
        commands.record(|commands, b| {
            if part.start == 0 {
                self.profile.inspect(|profile| profile.begin(b));
                self.marks.inspect(|marks| marks.mark(b, 0));
            }
            for index in part.clone() {
                self.phases[index].iter().for_each(|dispatch| commands.dispatch(b, self.layout, dispatch));
                self.profile.inspect(|profile| profile.mark(b, index));
                if index + 1 == part.end || !self.chain.is_linked(index + 1) {
                    commands.barrier(b);
                }
                self.marks.inspect(|marks| marks.mark(b, index + 1));
            }
            if part.end < self.phases.len() {
                return;
            }
            for &(from, to, bytes) in &self.copies {
                commands.copy(b, (self.from, from), (self.to, to), bytes);
            }
            commands.host_barrier(b);
        })
    }
}

/// A step, phase by phase: one entry of each list for a phase.
#[derive(Default)]
struct Phases {
    launches: Vec<Vec<Launch>>,
    /// Nodes that have a stage there.
    nodes: Vec<Vec<usize>>,
    /// Nodes that have their last stage there.
    ended: Vec<Vec<usize>>,
}

/// The phases of a plan: stage `d` of all nodes of one of its own run side by side.
fn phases(recorder: &mut Recorder<'_>, plan: &Plan) -> Result<Phases, Error> {
    let mut phases = Phases::default();
    for nodes in &plan.phases {
        recorder.scratch.begin_phase();
        let stages = nodes.iter().map(|&n| recorder.stages(n)).collect::<Result<Vec<_>, _>>()?;
        let depth = stages.iter().map(Vec::len).max().unwrap_or(0);
        for d in 0..depth {
            let with = |holds: fn(usize, usize) -> bool| {
                nodes.iter().zip(&stages).filter(move |(_, s)| holds(s.len(), d + 1)).map(|(n, _)| *n).collect()
            };
            phases.launches.push(stages.iter().filter_map(|s| s.get(d)).flatten().cloned().collect());
            phases.nodes.push(with(|depth, stage| depth >= stage));
            phases.ended.push(with(|depth, stage| depth == stage));
        }
    }
    Ok(phases)
}

/// Links the phases of a step of so many tokens where that pays: with experts it gives 2 % at most, and nothing for 2 or 3 tokens. What is told of each
/// phase alone needs barriers.
fn chain(parts: &Parts<'_>, graph: &Graph, tokens: u32, phases: &mut [Vec<Launch>]) -> Result<Chain, Error> {
    let is_short = tokens <= parts.tuning.chain_most && !has_experts(graph);
    match is_short && !parts.is_profiled && !parts.is_marked {
        true => Chain::link(parts.gpu, phases),
        false => Ok(Chain::default()),
    }
}

/// Makes the pipelines, now that each launch knows its neighbours.
fn with_pipelines(pipelines: &mut Pipelines, phases: Vec<Vec<Launch>>) -> Result<Vec<Phase>, Error> {
    let mut ready = |launch: Launch| {
        Ok(Dispatch { pipeline: pipelines.get(&launch.variant)?, push: launch.push, groups: launch.groups })
    };
    phases.into_iter().map(|phase| phase.into_iter().map(&mut ready).collect()).collect()
}

/// Integer outputs and where each goes in the readback buffer; and that buffer's size.
fn integer_outputs(graph: &Graph, options: &PlanOptions) -> (Vec<(ValueId, u64)>, u64) {
    let mut at = 0;
    let mut outputs = Vec::new();
    for &id in graph.outputs.iter().filter(|id| graph.shape(**id).elem == Elem::U32) {
        outputs.push((id, at));
        at += rows_bytes(graph, options, id);
    }
    (outputs, at)
}

/// Bytes of a value's rows in the largest step.
fn rows_bytes(graph: &Graph, options: &PlanOptions, id: ValueId) -> u64 {
    let rows = graph.rows(id, options.bucket.tokens as usize, options.bucket.outputs as usize);
    (rows * graph.shape(id).row_bytes()) as u64
}

/// Frequency tables of the rotary nodes; equal ones are shared.
struct Tables {
    of_node: Vec<Option<u64>>,
    buffers: Vec<Buffer>,
}

impl Tables {
    fn new(gpu: &Arc<Gpu>, graph: &Graph, weights: &Weights) -> Result<Tables, Error> {
        let mut made: Vec<(Vec<f32>, Buffer)> = Vec::new();
        let mut of_node = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let rope = match node.op {
                Op::Rope(rope)
                | Op::NormRope(NormRope { rope, .. })
                | Op::RopeKvWrite(RopeKvWrite { rope, .. })
                | Op::RopeAttention(RopeAttention { rope, .. }) => rope,
                _ => {
                    of_node.push(None);
                    continue;
                }
            };
            let frequencies = rope.inverse_frequencies(weights.rope_factors(node));
            if let Some((_, buffer)) = made.iter().find(|(known, _)| *known == frequencies) {
                of_node.push(Some(buffer.address));
                continue;
            }
            let mut buffer = Buffer::new(gpu, frequencies.len() as u64 * 4, Place::Upload)?;
            buffer.fill(bytemuck::cast_slice(&frequencies))?;
            of_node.push(Some(buffer.address));
            made.push((frequencies, buffer));
        }
        Ok(Tables { of_node, buffers: made.into_iter().map(|(_, buffer)| buffer).collect() })
    }
}
