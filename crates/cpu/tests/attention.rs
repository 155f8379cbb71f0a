//! Attention over the paged cache: against a softmax in f64, and the same bits however the tokens
//! are batched, chunked and spread over threads, on every instruction set.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its inputs are small"
)]

mod seeded;

use seeded::{Seeded, available, bits};
use zinc_cpu::{Attention, Context, Isa, KvPages, KvPagesMut, PAGE_TOKENS, Queries, attention, kv_write};
use zinc_gguf::quants::float::{f16_to_f32, f32_to_f16};

/// Keys and values of some sequences, their pages in disorder.
struct Cache {
    k: Vec<f32>,
    v: Vec<f32>,
    block_tables: Vec<u32>,
    pages_max: usize,
}

impl Cache {
    /// Fills the pages; what no sequence has written is NaN, which a kernel must not read.
    fn new(seeded: &mut Seeded, op: &Attention, lengths: &[usize]) -> Cache {
        let pages_max = lengths.iter().max().unwrap().div_ceil(PAGE_TOKENS);
        let n_pages = pages_max * lengths.len() + 1;
        let mut free: Vec<u32> = (0..n_pages as u32).collect();
        let width = op.n_kv_heads * op.head_dim;
        let nan = vec![f32::NAN; n_pages * PAGE_TOKENS * width];
        let mut cache = Cache { k: nan.clone(), v: nan, block_tables: Vec::new(), pages_max };
        for &length in lengths {
            for page_idx in 0..pages_max {
                if page_idx * PAGE_TOKENS >= length {
                    cache.block_tables.push(u32::MAX);
                    continue;
                }
                let page = free.swap_remove(seeded.below(free.len()));
                cache.block_tables.push(page);
                let n_written = (length - page_idx * PAGE_TOKENS).min(PAGE_TOKENS) * width;
                let at = page as usize * PAGE_TOKENS * width;
                cache.k[at..at + n_written].copy_from_slice(&seeded.floats(n_written));
                cache.v[at..at + n_written].copy_from_slice(&seeded.floats(n_written));
            }
        }
        cache
    }

    fn rounded(&self) -> (Vec<u16>, Vec<u16>) {
        let round = |x: &[f32]| x.iter().map(|&x| f32_to_f16(x)).collect();
        (round(&self.k), round(&self.v))
    }

    fn row(&self, op: &Attention, seq: u32, key: usize, kv_head: usize) -> usize {
        let page = self.block_tables[seq as usize * self.pages_max + key / PAGE_TOKENS] as usize;
        ((page * PAGE_TOKENS + key % PAGE_TOKENS) * op.n_kv_heads + kv_head) * op.head_dim
    }
}

fn truth(
    op: &Attention,
    cache: &Cache,
    q: &[f32],
    seq: u32,
    position: usize,
    head: usize,
    sink: Option<f32>,
) -> Vec<f64> {
    let kv_head = head / (op.n_heads / op.n_kv_heads);
    let first = if op.window == 0 { 0 } else { (position + 1).saturating_sub(op.window) };
    let scores: Vec<f64> = (first..=position)
        .map(|key| {
            let k = &cache.k[cache.row(op, seq, key, kv_head)..];
            let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
            let score = dot * f64::from(op.scale);
            let cap = f64::from(op.softcap);
            if cap == 0.0 { score } else { cap * (score / cap).tanh() }
        })
        .collect();
    let sum: f64 = scores.iter().map(|s| s.exp()).sum::<f64>() + sink.map_or(0.0, |s| f64::from(s).exp());
    let mut y = vec![0.0; op.head_dim];
    for (key, score) in (first..=position).zip(scores) {
        let v = &cache.v[cache.row(op, seq, key, kv_head)..];
        y.iter_mut().zip(v).for_each(|(y, v)| *y += score.exp() / sum * f64::from(*v));
    }
    y
}

const PLAIN: Attention = Attention { n_heads: 4, n_kv_heads: 2, head_dim: 64, scale: 0.5, window: 0, softcap: 0.0 };

/// Name, parameters, with sinks.
fn kinds() -> Vec<(&'static str, Attention, bool)> {
    vec![
        ("grouped", PLAIN, false),
        ("groups of 7", Attention { n_heads: 14, ..PLAIN }, false),
        ("more heads than a pass takes", Attention { n_heads: 70, n_kv_heads: 1, head_dim: 16, ..PLAIN }, false),
        ("narrow", Attention { n_heads: 2, n_kv_heads: 2, head_dim: 20, ..PLAIN }, false),
        ("narrowest", Attention { n_heads: 1, n_kv_heads: 1, head_dim: 4, ..PLAIN }, false),
        ("80", Attention { head_dim: 80, ..PLAIN }, false),
        ("256", Attention { n_kv_heads: 1, head_dim: 256, scale: 0.2, ..PLAIN }, false),
        ("512", Attention { n_heads: 2, n_kv_heads: 1, head_dim: 512, scale: 0.1, ..PLAIN }, false),
        ("window inside a page", Attention { window: 5, ..PLAIN }, false),
        ("window of a page and one", Attention { window: 17, ..PLAIN }, true),
        ("window over spans", Attention { window: 700, ..PLAIN }, false),
        ("window of one key", Attention { window: 1, ..PLAIN }, false),
        ("soft-cap", Attention { softcap: 3.0, ..PLAIN }, false),
        ("sinks", PLAIN, true),
    ]
}

/// Sequences as (length, first new token).
const BATCHES: [&[(usize, usize)]; 5] =
    [&[(1, 0)], &[(17, 16), (1200, 1199)], &[(70, 0)], &[(33, 5), (1, 0), (600, 594)], &[(1100, 1070)]];

struct Run {
    positions: Vec<u32>,
    seq_idx: Vec<u32>,
    q: Vec<f32>,
    sinks: Option<Vec<f32>>,
}

impl Run {
    fn new(seeded: &mut Seeded, op: &Attention, batch: &[(usize, usize)], sinks: bool) -> Run {
        let mut run = Run {
            positions: Vec::new(),
            seq_idx: Vec::new(),
            q: Vec::new(),
            sinks: sinks.then(|| seeded.floats(op.n_heads)),
        };
        for (seq, &(length, first)) in batch.iter().enumerate() {
            run.positions.extend(first as u32..length as u32);
            run.seq_idx.extend((first..length).map(|_| seq as u32));
        }
        run.q = seeded.floats(run.positions.len() * op.n_heads * op.head_dim);
        run
    }

    /// Attention of tokens `range`.
    fn part(
        &self,
        ctx: &mut Context,
        op: &Attention,
        cache: &Cache,
        pages: (KvPages<'_>, KvPages<'_>),
        range: std::ops::Range<usize>,
    ) -> Vec<f32> {
        let width = op.n_heads * op.head_dim;
        let queries = Queries {
            q: &self.q[range.start * width..range.end * width],
            positions: &self.positions[range.clone()],
            seq_idx: &self.seq_idx[range.clone()],
            block_tables: &cache.block_tables,
            pages_max: cache.pages_max,
            sinks: self.sinks.as_deref(),
        };
        let mut out = vec![f32::NAN; range.len() * width];
        attention(ctx, op, &queries, pages.0, pages.1, &mut out);
        out
    }
}

#[test]
fn attention_is_a_softmax_over_the_visible_keys() {
    for (name, op, sinks) in kinds() {
        for batch in BATCHES {
            let mut seeded = Seeded::new(23);
            let lengths: Vec<usize> = batch.iter().map(|b| b.0).collect();
            let mut cache = Cache::new(&mut seeded, &op, &lengths);
            let (k, v) = cache.rounded();
            cache.k = k.iter().map(|&x| f16_to_f32(x)).collect();
            cache.v = v.iter().map(|&x| f16_to_f32(x)).collect();
            let run = Run::new(&mut seeded, &op, batch, sinks);
            let n_tokens = run.positions.len();
            let mut results: Vec<Vec<f32>> = Vec::new();
            for isa in available() {
                if isa == Isa::Scalar && n_tokens > 20 {
                    continue;
                }
                let mut ctx = Context::with_isa(2, isa).unwrap();
                results.push(run.part(
                    &mut ctx,
                    &op,
                    &cache,
                    (KvPages::F32(&cache.k), KvPages::F32(&cache.v)),
                    0..n_tokens,
                ));
                results.push(run.part(&mut ctx, &op, &cache, (KvPages::F16(&k), KvPages::F16(&v)), 0..n_tokens));
            }
            for result in &results[1..] {
                assert_eq!(bits(result), bits(&results[0]), "{name} {batch:?}");
            }
            // The first and the last token of each sequence, and some between.
            for t in (0..n_tokens).filter(|t| t % 7 == 0 || run.seq_idx.get(t + 1) != run.seq_idx.get(*t)) {
                for head in 0..op.n_heads {
                    let at = (t * op.n_heads + head) * op.head_dim;
                    let sink = run.sinks.as_ref().map(|s| s[head]);
                    let truth = truth(
                        &op,
                        &cache,
                        &run.q[at..at + op.head_dim],
                        run.seq_idx[t],
                        run.positions[t] as usize,
                        head,
                        sink,
                    );
                    for (y, expected) in results[0][at..].iter().zip(truth) {
                        let error = (f64::from(*y) - expected).abs();
                        assert!(error < 4e-6, "{name} {batch:?}: token {t}, head {head}: {y}, not {expected}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_token_has_the_same_bits_in_every_chunk_batch_and_number_of_threads() {
    for (name, op, sinks) in kinds() {
        for batch in BATCHES {
            let mut seeded = Seeded::new(29);
            let lengths: Vec<usize> = batch.iter().map(|b| b.0).collect();
            let cache = Cache::new(&mut seeded, &op, &lengths);
            let (k, v) = cache.rounded();
            let pages = (KvPages::F16(&k), KvPages::F16(&v));
            let run = Run::new(&mut seeded, &op, batch, sinks);
            let n_tokens = run.positions.len();
            let mut contexts: Vec<Context> = (1..=3).map(|n| Context::new(n).unwrap()).collect();
            let whole = run.part(&mut contexts[0], &op, &cache, pages, 0..n_tokens);
            assert!(whole.iter().all(|y| y.is_finite()), "{name} {batch:?}");
            for ctx in &mut contexts {
                for chunk in [1, 3 + 10 * ctx.n_threads(), n_tokens] {
                    let mut parts = Vec::new();
                    for start in (0..n_tokens).step_by(chunk) {
                        parts.extend(run.part(ctx, &op, &cache, pages, start..(start + chunk).min(n_tokens)));
                    }
                    assert_eq!(
                        bits(&parts),
                        bits(&whole),
                        "{name} {batch:?}: chunks of {chunk}, {} threads",
                        ctx.n_threads()
                    );
                }
            }
        }
    }
}

#[test]
fn keys_and_values_are_written_to_their_slots() {
    let width = 24;
    for isa in available() {
        let mut ctx = Context::with_isa(1, isa).unwrap();
        let mut seeded = Seeded::new(31);
        let x = seeded.floats(5 * width);
        let slots = [33, 0, 47, 16, 15];
        let mut halves = vec![0x7E00; 3 * PAGE_TOKENS * width];
        let mut floats = vec![f32::NAN; halves.len()];
        kv_write(&mut ctx, &x, &slots, KvPagesMut::F16(&mut halves));
        kv_write(&mut ctx, &x, &slots, KvPagesMut::F32(&mut floats));
        for slot in 0..3 * PAGE_TOKENS {
            let at = slot * width..(slot + 1) * width;
            match slots.iter().position(|&s| s as usize == slot) {
                Some(t) => {
                    let row = &x[t * width..(t + 1) * width];
                    assert_eq!(floats[at.clone()], *row);
                    let rounded: Vec<u16> = row.iter().map(|&x| f32_to_f16(x)).collect();
                    assert_eq!(halves[at], *rounded);
                }
                None => {
                    assert!(halves[at.clone()].iter().all(|&h| h == 0x7E00) && floats[at].iter().all(|f| f.is_nan()))
                }
            }
        }
    }
}

#[test]
fn halves_are_rounded_as_the_scalar_code_rounds() {
    // Every exponent, around ties, subnormals, overflow and infinity.
    let mut x: Vec<f32> = (0..=u16::MAX)
        .step_by(3)
        .map(|h| f32::from_bits(u32::from(h) << 16 | 0x1000))
        .filter(|x| !x.is_nan())
        .collect();
    x.extend((0..2000).map(|i| f32::from_bits(0x3300_0000 + i * 4099)));
    for isa in available() {
        let mut ctx = Context::with_isa(1, isa).unwrap();
        let mut halves = vec![0; x.len()];
        kv_write(&mut ctx, &x, &[0], KvPagesMut::F16(&mut halves));
        for (x, half) in x.iter().zip(halves) {
            assert_eq!(half, f32_to_f16(*x), "{isa}: {x:e}");
        }
    }
}
