//! `zinc bench`: tokens per second of prompt and of generation, with their spread.
//!
//! Each is run once to warm up and then `--reps` times, on varied token ids (one repeated token
//! would send every row to the same experts). The median is what to quote.

use std::time::Instant;

use serde_json::json;
use zinc_engine::Engine;
use zinc_engine::request::{Event, FinishReason, PromptCache, Request};

use crate::args::BenchArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{dim, note, print, stderr_colours};
use crate::session::{ModelFile, engine_error, loaded};

/// Tokens per second, one figure a run.
struct Rates(Vec<f64>);

pub(crate) fn run(args: &BenchArgs) -> Outcome {
    if args.reps == 0 || args.pp == 0 || args.tg < 2 {
        return Err(Failure::usage("--reps and --pp must be at least 1, --tg at least 2"));
    }
    let interrupt = Interrupt::listen()?;
    let started = Instant::now();
    let file = ModelFile::open(&args.model, &interrupt)?;
    let mut device = args.device.clone();
    device.context = Some(device.context.unwrap_or(0).max(args.pp.saturating_add(1)).max(args.tg.saturating_add(2)));
    let mut engine = file.engine(&device)?;
    note(&dim(&loaded(&file.path, &engine, started), stderr_colours()));
    let mut prefill = Rates(Vec::new());
    let mut decode = Rates(Vec::new());
    for rep in 0..=args.reps {
        if interrupt.pressed() {
            return Err(Failure::new(Kind::Interrupted, "interrupted"));
        }
        let (prompt_rate, _) = measure(&mut engine, args.pp, 1, rep)?;
        let (_, token_rate) = measure(&mut engine, 1, args.tg, rep)?;
        if rep > 0 {
            prefill.0.push(prompt_rate);
            decode.0.push(token_rate);
        }
    }
    let text = if args.json { as_json(args, &engine, &prefill, &decode) } else { as_text(args, &prefill, &decode) };
    print(&text)
}

/// Prompt and decode rates of one request of `n_prompt` ids and `n_tokens` answers.
fn measure(engine: &mut Engine, n_prompt: u32, n_tokens: u32, rep: u32) -> Result<(f64, f64), Failure> {
    let n_vocab = engine.model().n_vocab;
    let varied = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(rep.wrapping_mul(97)) >> 7) % n_vocab;
    let prompt = (0..n_prompt).map(varied).collect();
    let request = Request { cache: PromptCache::Off, ..Request::greedy(prompt, n_tokens) };
    engine.submit(request).map_err(engine_error)?;
    loop {
        for (_, event) in engine.step().map_err(engine_error)? {
            if let Event::Done(done) = event {
                if let FinishReason::Error(error) = done.reason {
                    return Err(Failure::failed(error));
                }
                let rate = |n: u32, time: std::time::Duration| f64::from(n) / time.as_secs_f64().max(1e-9);
                return Ok((rate(n_prompt, done.timings.prefill), rate(n_tokens - 1, done.timings.decode)));
            }
        }
    }
}

impl Rates {
    /// Median, least and most.
    fn spread(&self) -> (f64, f64, f64) {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        (f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]), sorted[0], sorted[n - 1])
    }
}

fn as_text(args: &BenchArgs, prefill: &Rates, decode: &Rates) -> String {
    let row = |name: String, rates: &Rates| {
        let (median, least, most) = rates.spread();
        format!("{name:<10} {median:>10.1} {least:>10.1} {most:>10.1}\n")
    };
    let head = format!("{:<10} {:>10} {:>10} {:>10}   tok/s of {} runs\n", "", "median", "min", "max", args.reps);
    head + &row(format!("pp {}", args.pp), prefill) + &row(format!("tg {}", args.tg), decode)
}

fn as_json(args: &BenchArgs, engine: &Engine, prefill: &Rates, decode: &Rates) -> String {
    let model = engine.model();
    let rates = |n: u32, rates: &Rates| {
        let (median, min, max) = rates.spread();
        json!({ "tokens": n, "median": median, "min": min, "max": max, "runs": rates.0 })
    };
    let object = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": model.name, "architecture": model.architecture, "device": engine.device().name,
        "prefill_tok_s": rates(args.pp, prefill), "decode_tok_s": rates(args.tg, decode),
    });
    format!("{object:#}\n")
}
