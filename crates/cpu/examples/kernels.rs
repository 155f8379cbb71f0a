//! Times the matrix kernels on the shapes of real models, beside what the memory gives.
//!
//! `cargo run --release -p zinc-cpu --example kernels -- [threads] [filter] [scalar|avx2|avx512]`.
//! Each shape is timed on enough copies that the weights come from memory, not from a cache.
//! `GB/s` counts the weights' bytes once per call; the share is of reading the same amount. Rates
//! are of the median call; `best` is the fastest of a hundred, which a busy machine disturbs less.

#![allow(clippy::print_stdout, reason = "an example prints its table")]
#![allow(clippy::cast_possible_truncation, reason = "bytes of a pattern")]

use std::hint::black_box;
use std::time::Instant;

use zinc_cpu::{Context, Isa, Matrix, matmul};
use zinc_gguf::DType;

/// Bytes that the copies of a shape have together.
const WORKING_SET: usize = 400 << 20;

/// Type, row length, rows: SmolLM2 135M, Gemma 3 270M, Qwen2.5 0.5B, then one shape for the rest.
const SHAPES: [(DType, usize, usize); 20] = [
    (DType::Q4_1, 576, 1536),
    (DType::Q4_1, 1536, 576),
    (DType::Q8_0, 576, 49_152),
    (DType::Q5_0, 640, 2048),
    (DType::Q4_K, 2048, 640),
    (DType::Q6_K, 2048, 640),
    (DType::Q5_0, 896, 4864),
    (DType::Q4_K, 4864, 896),
    (DType::Q6_K, 4864, 896),
    (DType::Q8_0, 896, 151_936),
    (DType::Q5_K, 2048, 2048),
    (DType::Q4_0, 2048, 2048),
    (DType::Q5_1, 2048, 2048),
    (DType::Q2_K, 2048, 2048),
    (DType::Q3_K, 2048, 2048),
    (DType::IQ4_NL, 2048, 2048),
    (DType::IQ4_XS, 2048, 2048),
    (DType::MXFP4, 2048, 2048),
    (DType::F16, 2048, 2048),
    (DType::F32, 2048, 2048),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let n_threads = args.first().map_or(2, |a| a.parse().expect("a number of threads"));
    let filter = args.get(1).map_or("", String::as_str);
    let isa = match args.get(2).map(String::as_str) {
        Some("scalar") => Isa::Scalar,
        Some("avx2") => Isa::Avx2,
        Some("avx512") => Isa::Avx512,
        _ => Isa::best(),
    };
    let mut ctx = Context::with_isa(n_threads, isa).expect("a context");
    let read = read_bandwidth(&mut ctx);
    println!("{} threads, {}, read bandwidth {read:.1} GB/s", ctx.n_threads(), ctx.isa());
    println!(
        "{:8} {:>6} {:>7} {:>6} {:>9} {:>9} {:>8} {:>6} {:>9}",
        "type", "n_in", "n_out", "tokens", "us", "best us", "GB/s", "share", "GFLOP/s"
    );
    for (dtype, n_in, n_out) in SHAPES {
        if !dtype.name().contains(filter) {
            continue;
        }
        for n_tokens in [1, 2, 4, 8, 64, 512] {
            let flops = 2.0 * (n_in * n_out * n_tokens) as f64;
            let ([seconds, best], bytes) = time(&mut ctx, dtype, n_in, n_out, n_tokens);
            let rate = bytes / seconds / 1e9;
            println!(
                "{:8} {n_in:>6} {n_out:>7} {n_tokens:>6} {:>9.1} {:>9.1} {rate:>8.2} {:>5.0}% {:>9.1}",
                dtype.name(),
                seconds * 1e6,
                best * 1e6,
                100.0 * rate / read,
                flops / seconds / 1e9,
            );
        }
    }
}

/// Seconds of the median call and of the best in a hundred, and the weights' bytes.
fn time(ctx: &mut Context, dtype: DType, n_in: usize, n_out: usize, n_tokens: usize) -> ([f64; 2], f64) {
    let n_bytes = dtype.row_bytes(n_in).expect("whole blocks") * n_out;
    let n_copies = if n_tokens <= 8 { WORKING_SET.div_ceil(n_bytes) } else { 2 };
    // Bytes whose bits make neither NaN nor subnormal numbers in any type: those are slow to multiply.
    let copies: Vec<Vec<u8>> =
        (0..n_copies).map(|copy| (0..n_bytes).map(|i| 0x28 + ((i * 7 + copy) % 19) as u8).collect()).collect();
    let x: Vec<f32> = (0..n_in * n_tokens).map(|i| (i % 17) as f32 - 8.0).collect();
    let mut y = vec![0.0; n_out * n_tokens];
    let mut times: Vec<f64> = Vec::new();
    for round in 0..3 {
        for bytes in &copies {
            let weights = Matrix::new(dtype, bytes, n_in, n_out).expect("a shape that fits");
            let start = Instant::now();
            matmul(ctx, &weights, &x, None, &mut y);
            if round > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
            black_box(&y);
        }
    }
    times.sort_by(f64::total_cmp);
    ([times[times.len() / 2], times[times.len() / 100]], n_bytes as f64)
}

/// GB/s of reading memory with all threads: the median of several passes.
fn read_bandwidth(ctx: &mut Context) -> f64 {
    let words = vec![1u64; WORKING_SET / 8];
    let n_items = 64 * ctx.n_threads();
    let mut rates: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            ctx.run(n_items, |_, item| {
                let part = &words[item * words.len() / n_items..(item + 1) * words.len() / n_items];
                let mut sums = [0u64; 64];
                for chunk in part.chunks_exact(64) {
                    for (sum, word) in sums.iter_mut().zip(chunk) {
                        *sum ^= word;
                    }
                }
                black_box(sums);
            });
            WORKING_SET as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
