//! One driver for every op on every backend.
//!
//! A case is a one-section graph, a seed, a storage type and a few steps of one or several
//! sequences. The driver makes the weights and inputs from the seed, runs the steps on a backend
//! and on the scalar reference, and compares every output of every step. State carries over from
//! step to step on both sides.

#![allow(
    clippy::cast_possible_truncation,
    reason = "the sizes of a case are a few hundred; random bits are cut on purpose"
)]

use zinc_gguf::{Bytes, DType};

use crate::backend::{Backend, BackendError, Bucket, KvFormat, PlanOptions, StateSizes, WeightData};
use crate::batch::{Batch, PAGE_TOKENS, PageGroup};
use crate::graph::Graph;
use crate::ops;
use crate::reference::Reference;
use crate::section::{Builder, ResourceKind, ValueId, WeightClass};
use crate::shape::Elem;

/// One test of one op.
#[derive(Clone, Debug)]
pub struct Case {
    /// `op/what`.
    pub name: String,
    /// The graph under test.
    pub graph: Graph,
    dtype: DType,
    seed: u64,
    tolerance: f32,
    spread: f32,
    start: u32,
    /// Tokens of each sequence at each step.
    steps: Vec<Vec<u32>>,
    outputs: Option<Vec<u32>>,
    /// Layers with a window have pages of their own.
    own_pages: bool,
    kv_format: KvFormat,
    prepare: fn(&str, &mut [f32]),
}

/// Storage types that a `Matrix` weight may have: every type of the `gguf` crate.
#[must_use]
pub fn matrix_types() -> Vec<DType> {
    DType::ALL.to_vec()
}

/// A case that is still being described.
#[derive(Clone, Debug)]
pub struct CaseBuilder(Case);

impl Case {
    /// Outputs may differ by `tolerance` times the root mean square of the reference's output.
    #[expect(clippy::new_ret_no_self, reason = "a case exists once its graph is built")]
    #[must_use]
    pub fn new(name: String, tolerance: f32) -> CaseBuilder {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        CaseBuilder(Case {
            name,
            graph: Graph::default(),
            dtype: DType::F32,
            seed,
            tolerance,
            spread: 1.0,
            start: 0,
            steps: vec![vec![1]],
            outputs: None,
            own_pages: false,
            kv_format: KvFormat::F16,
            prepare: |_, _| (),
        })
    }

    /// Runs the case on `backend` and compares with the reference.
    ///
    /// # Errors
    /// What differs, by how much, and the seed.
    pub fn run(&self, backend: &mut dyn Backend) -> Result<(), Failure> {
        let mut reference = Reference::new();
        let expected = self.outputs_of(&mut reference).map_err(|e| self.failure(format!("reference: {e}")))?;
        let got = self.outputs_of(backend).map_err(|e| self.failure(e.to_string()))?;
        let products = self.graph.nodes.iter().any(|node| node.op.is_product());
        // Keys and values in bytes are rounded once more where operands are: four roundings instead of two.
        let roundings = if self.kv_format == KvFormat::Q8 { 1.5 } else { 1.0 };
        let of_products = if products { roundings * backend.product_tolerance() } else { 0.0 };
        let tolerance = self.tolerance.max(of_products);
        for (step, (expected, got)) in expected.iter().zip(&got).enumerate() {
            for (output, (expected, got)) in expected.iter().zip(got).enumerate() {
                let elem = self.graph.shape(self.graph.outputs[output]).elem;
                if let Some(difference) = differs(expected, got, elem, tolerance) {
                    return Err(self.failure(format!("step {step}, output {output}: {difference}")));
                }
            }
        }
        Ok(())
    }

    fn failure(&self, what: String) -> Failure {
        Failure { case: self.name.clone(), seed: self.seed, what }
    }

    fn outputs_of(&self, backend: &mut dyn Backend) -> Result<Vec<Vec<Vec<f32>>>, BackendError> {
        let mut random = Seeded(self.seed);
        let weights = self.graph.weights.iter().map(|w| {
            let n = w.shape.iter().map(|&n| n as usize).product();
            let dtype = if w.class == WeightClass::Matrix { self.dtype } else { DType::F32 };
            let mut bytes = random_weight(&mut random, dtype, n);
            if w.class == WeightClass::Plain {
                let mut values: Vec<f32> =
                    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
                (self.prepare)(&w.name, &mut values);
                bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            }
            WeightData { dtype, bytes: Bytes::from(bytes) }
        });
        let crowd = Crowd::new(self);
        let sizes = StateSizes {
            n_pages: crowd.n_pages(),
            n_window_pages: crowd.n_window_pages(),
            kv_format: self.kv_format,
            n_slots: crowd.n_seqs + 1,
        };
        backend.load(&self.graph, weights.collect(), sizes)?;
        let tokens = self.steps.iter().map(|step| step.iter().sum()).max().unwrap_or(1);
        let plan = backend
            .compile(&self.graph, &PlanOptions { bucket: Bucket { tokens, outputs: tokens }, keep_values: false })?;
        let mut results = Vec::new();
        for _ in 0..self.rounds() {
            let mut positions = vec![self.start; crowd.n_seqs as usize];
            for (step, tokens) in self.steps.iter().enumerate() {
                let batch = self.batch(&mut random, &crowd, step, &mut positions);
                for &input in &self.graph.inputs {
                    let count = tokens.iter().sum::<u32>() as usize * self.graph.shape(input).cols as usize;
                    let mut data: Vec<f32> = (0..count).map(|_| random.normal() * self.spread).collect();
                    (self.prepare)(&self.graph.values[usize::from(input.0)].name, &mut data);
                    backend.write(plan, input, &data)?;
                }
                let ticket = backend.submit(plan, &batch)?;
                backend.wait(ticket)?;
                results.push(
                    self.graph
                        .outputs
                        .iter()
                        .map(|&id| read_all(backend, plan, &self.graph, id, &batch))
                        .collect::<Result<_, _>>()?,
                );
            }
        }
        Ok(results)
    }

    /// Graphs with recurrent state run their steps twice: the second time the slots are dirty and
    /// every sequence starts at position 0 again.
    fn rounds(&self) -> usize {
        let recurrent = self.graph.resources.iter().any(|r| matches!(r.kind, ResourceKind::State { .. }));
        if recurrent && self.start == 0 { 2 } else { 1 }
    }

    /// The batch of one step; advances the positions. Its first sequence is another one at every
    /// step, so that no kernel gets away with taking a place in the batch for a state slot.
    fn batch(&self, random: &mut Seeded, crowd: &Crowd, step: usize, positions: &mut [u32]) -> Batch {
        let n_vocab = u32::try_from(crate::reference::n_vocab(&self.graph)).unwrap_or(512);
        let mut batch = Batch { pages_max: crowd.pages_max, query_start: vec![0], ..Batch::default() };
        for i in 0..crowd.n_seqs {
            let seq = (i + step as u32) % crowd.n_seqs;
            let n = self.steps[step].get(seq as usize).copied().unwrap_or(0);
            if n == 0 {
                continue;
            }
            let row = batch.state_slots.len() as u32;
            let first = positions[seq as usize];
            positions[seq as usize] += n;
            batch.state_slots.push(crowd.state_slot(seq));
            batch.full.block_tables.extend((0..crowd.pages_max).map(|page| crowd.page(seq, page)));
            if crowd.ring > 0 {
                let seen = crowd.first_page(first)..=(first + n - 1) / PAGE_TOKENS;
                let page = |page| if seen.contains(&page) { crowd.window_page(seq, page) } else { 0 };
                batch.window.block_tables.extend((0..crowd.pages_max).map(page));
            }
            for position in first..first + n {
                batch.ids.push(random.below(n_vocab));
                batch.positions.push(position);
                batch.seq_idx.push(row);
                batch.full.kv_slots.push(batch.slot_of(PageGroup::Full, row, position));
                if crowd.ring > 0 {
                    batch.window.kv_slots.push(batch.slot_of(PageGroup::Window, row, position));
                }
            }
            batch.query_start.push(batch.ids.len() as u32);
        }
        batch.output_rows = self.outputs.clone().unwrap_or_else(|| (0..batch.ids.len() as u32).collect());
        batch
    }
}

/// Which pages and slots the sequences of a case have: handed out backwards and in turn, so that
/// no kernel gets away with taking position for place.
struct Crowd {
    n_seqs: u32,
    pages_max: u32,
    /// Tokens that layers with a window see, and the pages that each sequence has for them, over and over; no pages
    /// if they have none of their own.
    window: u32,
    ring: u32,
}

impl Crowd {
    fn new(case: &Case) -> Crowd {
        let n_seqs = case.steps.iter().map(Vec::len).max().unwrap_or(1);
        let total = |seq: usize| case.steps.iter().map(|step| step.get(seq).copied().unwrap_or(0)).sum::<u32>();
        let tokens = case.start + (0..n_seqs).map(total).max().unwrap_or(1);
        let window = case.graph.window().filter(|_| case.own_pages).unwrap_or(0);
        let step_most = case.steps.iter().flatten().copied().max().unwrap_or(1);
        // Whatever place in a page the first of them has.
        let ring = if window > 0 { (window + step_most - 1 + PAGE_TOKENS - 2) / PAGE_TOKENS + 1 } else { 0 };
        Crowd { n_seqs: n_seqs as u32, pages_max: tokens.div_ceil(PAGE_TOKENS) + 1, window, ring }
    }

    /// Page 0 is nobody's: what is not seen any more is said to be there.
    fn n_window_pages(&self) -> u32 {
        if self.ring > 0 { self.n_seqs * self.ring + 1 } else { 0 }
    }

    /// The first page that the token at `position` sees.
    fn first_page(&self, position: u32) -> u32 {
        (position + 1).saturating_sub(self.window) / PAGE_TOKENS
    }

    fn window_page(&self, seq: u32, index: u32) -> u32 {
        1 + (index % self.ring) * self.n_seqs + seq
    }

    fn n_pages(&self) -> u32 {
        self.n_seqs * self.pages_max
    }

    fn page(&self, seq: u32, index: u32) -> u32 {
        self.n_pages() - 1 - (index * self.n_seqs + seq)
    }

    fn state_slot(&self, seq: u32) -> u32 {
        self.n_seqs - seq
    }
}

fn read_all(
    backend: &mut dyn Backend,
    plan: crate::backend::PlanId,
    graph: &Graph,
    id: ValueId,
    batch: &Batch,
) -> Result<Vec<f32>, BackendError> {
    let rows = graph.rows(id, batch.n_tokens(), batch.n_outputs());
    let mut data = vec![0.0; rows * graph.shape(id).cols as usize];
    if rows > 0 {
        backend.read(plan, id, 0, &mut data)?;
    }
    Ok(data)
}

fn differs(expected: &[f32], got: &[f32], elem: Elem, tolerance: f32) -> Option<String> {
    if elem == Elem::U32 {
        let at = expected.iter().zip(got).position(|(a, b)| a.to_bits() != b.to_bits())?;
        return Some(format!("element {at} is {}, expected {}", got[at].to_bits(), expected[at].to_bits()));
    }
    let sum: f64 = expected.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let rms = (sum / expected.len().max(1) as f64).sqrt() as f32;
    let bound = tolerance * rms;
    let worst = expected
        .iter()
        .zip(got)
        .map(|(a, b)| (a - b).abs())
        .enumerate()
        .fold((0, 0.0f32), |w, (i, d)| if d > w.1 || d.is_nan() { (i, d) } else { w });
    let broken = worst.1 > bound || got.iter().any(|x| !x.is_finite()) || expected.len() != got.len();
    broken.then(|| {
        format!(
            "element {} is {}, expected {} (difference {:e}, allowed {bound:e})",
            worst.0, got[worst.0], expected[worst.0], worst.1
        )
    })
}

impl CaseBuilder {
    /// Storage type of `Matrix` weights (F32 otherwise).
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.0.dtype = dtype;
        self.0.seed ^= u64::from(dtype.id()) << 32;
        self
    }

    /// One step of `n` tokens.
    #[must_use]
    pub fn tokens(self, n: u32) -> Self {
        self.steps(&[n])
    }

    /// Several steps of one sequence.
    #[must_use]
    pub fn steps(mut self, tokens: &[u32]) -> Self {
        self.0.steps = tokens.iter().map(|&n| vec![n]).collect();
        self
    }

    /// Several steps of several sequences: `tokens[step][sequence]`. A sequence with 0 tokens is
    /// absent from that step's batch.
    #[must_use]
    pub fn crowd(mut self, tokens: &[&[u32]]) -> Self {
        self.0.steps = tokens.iter().map(|step| step.to_vec()).collect();
        self
    }

    /// Changes inputs (`input.0`, ...) and plain weights, by name, after they are drawn.
    #[must_use]
    pub fn prepare(mut self, prepare: fn(&str, &mut [f32])) -> Self {
        self.0.prepare = prepare;
        self
    }

    /// Position of the first token.
    #[must_use]
    pub fn start(mut self, position: u32) -> Self {
        self.0.start = position;
        self
    }

    /// Standard deviation of the inputs (1 otherwise).
    #[must_use]
    pub fn spread(mut self, spread: f32) -> Self {
        self.0.spread = spread;
        self
    }

    /// Layers with a window have as many pages of their own as they need, and overwrite what they do not see any more.
    #[must_use]
    pub fn own_pages(mut self) -> Self {
        self.0.own_pages = true;
        self
    }

    /// Format of keys and values (f16 otherwise).
    #[must_use]
    pub fn kv_format(mut self, kv_format: KvFormat) -> Self {
        self.0.kv_format = kv_format;
        self
    }

    /// Rows whose logits are wanted (all otherwise).
    #[must_use]
    pub fn outputs(mut self, rows: &[u32]) -> Self {
        self.0.outputs = Some(rows.to_vec());
        self
    }

    /// Builds the graph.
    ///
    /// # Panics
    /// If the case breaks a shape rule: a mistake in the table.
    #[must_use]
    pub fn build(mut self, f: impl FnOnce(&mut Builder)) -> Case {
        let mut builder = Builder::new("case");
        f(&mut builder);
        let section = builder.finish().expect("a case of the table keeps the shape rules");
        self.0.graph = Graph::from_section(&section).expect("a case of the table is one section");
        self.0
    }
}

/// A case that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{case} (seed {seed:#x}): {what}")]
pub struct Failure {
    /// The case.
    pub case: String,
    /// Its seed.
    pub seed: u64,
    /// What differs.
    pub what: String,
}

/// Runs every case whose name contains `filter` and returns how many ran and which failed.
pub fn run_all(make_backend: &mut dyn FnMut() -> Box<dyn Backend>, filter: &str) -> (usize, Vec<Failure>) {
    let mut ran = 0;
    let mut failures = Vec::new();
    for case in ops::cases().iter().filter(|c| c.name.contains(filter)) {
        ran += 1;
        if let Err(failure) = case.run(make_backend().as_mut()) {
            failures.push(failure);
        }
    }
    (ran, failures)
}

/// A small seeded generator (splitmix64), the same on every machine.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Roughly normal: the sum of twelve uniforms, less six.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

/// Random storage of `n` elements. Blocks are random bits with scales near `1 / sqrt(256)` of the
/// type's range, so that products stay of order one.
#[must_use]
pub fn random_weight(random: &mut Seeded, dtype: DType, n: usize) -> Vec<u8> {
    match dtype {
        DType::F32 => (0..n).flat_map(|_| (random.normal() * 0.0625).to_le_bytes()).collect(),
        DType::F16 => (0..n).flat_map(|_| half::f16::from_f32(random.normal() * 0.0625).to_le_bytes()).collect(),
        DType::BF16 => (0..n).flat_map(|_| half::bf16::from_f32(random.normal() * 0.0625).to_le_bytes()).collect(),
        _ => {
            let block_bytes = dtype.block_bytes();
            let mut bytes: Vec<u8> = (0..n / dtype.block_len() * block_bytes).map(|_| random.bits() as u8).collect();
            for block in bytes.chunks_exact_mut(block_bytes) {
                set_scales(random, dtype, block);
            }
            bytes
        }
    }
}

/// Overwrites the half-precision scales of a block of random bits with sane ones.
fn set_scales(random: &mut Seeded, dtype: DType, block: &mut [u8]) {
    let (places, size): (&[usize], f32) = match dtype {
        DType::Q4_0 | DType::IQ4_NL => (&[0], 0.01),
        DType::Q5_0 => (&[0], 0.005),
        DType::Q4_1 | DType::Q5_1 => (&[0, 2], 0.005),
        DType::Q8_0 => (&[0], 0.0008),
        DType::Q2_K => (&[80, 82], 0.003),
        DType::Q3_K => (&[108], 0.001),
        DType::Q4_K | DType::Q5_K => (&[0, 2], 0.0002),
        DType::Q6_K => (&[208], 0.000_05),
        DType::IQ4_XS => (&[0], 0.000_05),
        DType::MXFP4 => {
            block[0] = 118 + (random.bits() % 5) as u8;
            return;
        }
        DType::F32 | DType::F16 | DType::BF16 => return,
    };
    for &at in places {
        let scale = half::f16::from_f32(size * (0.5 + random.uniform()));
        block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
    }
}
