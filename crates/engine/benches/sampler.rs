//! Time to choose one token from a vocabulary of 250,000: `cargo bench -p zinc-engine`.
//!
//! Rows are random: `broad` has more likely tokens than a language model's rows, `flat` is nearly
//! uniform, the worst that top-p can meet. Best and median of many rows are printed: on a busy machine the
//! best is the better figure.

use std::time::{Duration, Instant};

use zinc_engine::sampler::{Distribution, Random, Sampler, Sampling, Scratch};

const N_VOCAB: u32 = 250_000;
const N_ROWS: u32 = 8;
const N_ROUNDS: u32 = 25;

/// Roughly normal logits: the sum of four uniforms.
fn rows(spread: f64) -> Vec<Vec<f32>> {
    let row = |seed: u64| -> Vec<f32> {
        let random = Random::new(seed);
        let logit = |id: u64| (0..4).map(|i| random.uniform(4 * id + i) - 0.5).sum::<f64>() * spread;
        #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest f32")]
        let row = (0..u64::from(N_VOCAB)).map(|id| logit(id) as f32).collect();
        row
    };
    (0..u64::from(N_ROWS)).map(row).collect()
}

fn report(shape: &str, name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let [best, median] = [0, times.len() / 2].map(|i| times[i].as_secs_f64() * 1e6);
    eprintln!("{shape:6} {name:38} best {best:7.1} us, median {median:7.1} us");
}

fn time(rows: &mut [Vec<f32>], mut work: impl FnMut(&mut [f32], u32)) -> Vec<Duration> {
    let mut times = Vec::new();
    for round in 0..N_ROUNDS {
        for row in rows.iter_mut() {
            let start = Instant::now();
            work(row, round);
            times.push(start.elapsed());
        }
    }
    times
}

fn main() {
    let base = Sampling { temperature: 0.8, ..Sampling::greedy() };
    let settings = [
        ("greedy", Sampling::greedy()),
        ("temperature", base.clone()),
        ("top-k 40, top-p 0.95, min-p 0.05", Sampling { top_k: 40, top_p: 0.95, min_p: 0.05, ..base.clone() }),
        ("top-k 1000", Sampling { top_k: 1000, ..base.clone() }),
        ("top-p 0.95", Sampling { top_p: 0.95, ..base.clone() }),
        ("min-p 0.05", Sampling { min_p: 0.05, ..base.clone() }),
        (
            "penalties over 2000 tokens, top-k 40",
            Sampling { repetition_penalty: 1.1, penalty_window: u32::MAX, top_k: 40, ..base },
        ),
    ];
    let prompt: Vec<u32> = (0..2000).map(|i| i * 97 % N_VOCAB).collect();
    for (shape, spread) in [("broad", 6.0), ("flat", 0.5)] {
        let mut rows = rows(spread);
        for (name, sampling) in &settings {
            let sampler = Sampler::new(sampling.clone(), 1, &prompt, N_VOCAB).expect("the settings make sense");
            let mut scratch = Scratch::default();
            let times = time(&mut rows, |row, index| {
                std::hint::black_box(sampler.choose(row, index, &mut scratch).expect("the rows are finite"));
            });
            report(shape, name, times);
        }
        let times = time(&mut rows, |row, _| {
            let distribution = Distribution::new(row).expect("the rows are finite");
            std::hint::black_box((distribution.logprob(5), distribution.top(20)));
        });
        report(shape, "log probabilities, top 20", times);
    }
}
