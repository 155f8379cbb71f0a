//! `zinc bench`: tokens per second of prompt and of generation, with their spread.
//!
//! Each figure is run once to warm up and then `--reps` times, on varied token ids (one repeated
//! token would send every row to the same experts). The median is what to quote. Beside it stands
//! the share of the device's measured copy bandwidth that reading the weights takes.

mod compare;
mod measure;
mod table;

use std::time::{Duration, Instant};

use zinc_engine::Engine;
use zinc_engine::config::{DECODE_GAP_MS_MAX, EngineConfig, KvSize};

use crate::args::measure::BenchArgs;
use crate::device::Device;
use crate::failure::{Failure, Kind, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{dim, note, print, stderr_colours};
use crate::session::{ModelFile, engine_error, loaded, step_tokens};
use compare::Earlier;
use measure::{Rates, UNCOUNTED_TOKENS, decode, prefill, steps_before_all, weight_bytes};
use table::{Figure, Head, What};

/// Most sequences side by side.
const BATCH_MAX: u32 = 1024;
/// What the prompts of some sequences may add to the time between two tokens of others: all that an engine allows.
const DECODE_GAP_MAX: Duration = Duration::from_millis(DECODE_GAP_MS_MAX as u64);

pub(crate) fn run(args: &BenchArgs) -> Outcome {
    check(args)?;
    let earlier = args.compare.as_deref().map(Earlier::read).transpose()?;
    let interrupt = Interrupt::listen()?;
    let started = Instant::now();
    let file = ModelFile::open(&args.model, &interrupt)?;
    let mut device = args.device.clone();
    let depth = args.depth.iter().copied().max().unwrap_or(0);
    let sequences = args.batch.iter().copied().max().unwrap_or(1);
    (device.max_seqs, device.queue) = (Some(sequences), Some(sequences));
    let before = steps_before_all(sequences, depth, step_tokens(&device));
    let generated = args.tg.saturating_add(UNCOUNTED_TOKENS).saturating_add(before);
    let longest = args.pp.max(generated).saturating_add(depth).saturating_add(2);
    device.context = Some(device.context.unwrap_or(0).max(longest));
    let mut opened = Device::open(&device)?;
    opened.tune(&args.tuning)?;
    // Nobody reads along, and the sooner all sequences generate, the less do the first ones before.
    let config = |config| EngineConfig { kv: KvSize::Contexts, decode_gap_max: DECODE_GAP_MAX, ..config };
    let mut engine = file.engine_on(&opened, &device, config)?;
    note(&dim(&loaded(&file.path, &engine, started), stderr_colours()));
    let bandwidth = engine.copy_bandwidth().map_err(engine_error)?;
    let weights = weight_bytes(&file, &engine)?;
    let figures = figures(args, &mut engine, &interrupt)?;
    let model = engine.model();
    let stats = engine.stats();
    let head = Head {
        model: model.name.clone(),
        architecture: model.architecture,
        device: engine.device().name.clone(),
        weights,
        bandwidth,
        // The CPU backend computes a step while it is submitted: there is no gap to speak of.
        host_s: bandwidth
            .filter(|_| stats.n_host_gaps > 0)
            .map(|_| stats.host_time.as_secs_f64() / stats.n_host_gaps as f64),
    };
    print(&if args.json {
        table::as_json(&head, &figures, earlier.map(|earlier| compare::as_json(&earlier, &head, &figures)))
    } else {
        let compared = earlier.map(|earlier| compare::as_text(&earlier, &head, &figures));
        table::as_text(&head, args.reps, &figures) + &compared.unwrap_or_default()
    })?;
    if !args.profile {
        return Ok(());
    }
    engine.set_profiling(true);
    for _ in 0..2 {
        if args.pp > 0 {
            prefill(&mut engine, args.pp, depth, 0)?;
        }
        decode(&mut engine, args.tg.min(32), depth, sequences, 0)?;
    }
    match engine.profile() {
        Some(profile) => print(&table::profile(profile, bandwidth)),
        None => Ok(()),
    }
}

fn check(args: &BenchArgs) -> Outcome {
    if args.reps == 0 || args.tg < 2 {
        return Err(Failure::usage("--reps must be at least 1, --tg at least 2"));
    }
    match args.batch.iter().find(|&&n| n == 0 || n > BATCH_MAX) {
        Some(n) => Err(Failure::usage(format!("--batch is {n}; it must be 1 to {BATCH_MAX}"))),
        None => Ok(()),
    }
}

/// All that was asked for, in order.
fn figures(args: &BenchArgs, engine: &mut Engine, interrupt: &Interrupt) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for &depth in &args.depth {
        if args.pp > 0 {
            let what = What::Prefill { tokens: args.pp };
            let rates = repeat(args.reps, interrupt, |rep| prefill(engine, args.pp, depth, rep))?;
            figures.push(Figure { what, depth, rates });
        }
        for &sequences in &args.batch {
            let what = What::Decode { tokens: args.tg, sequences };
            let rates = repeat(args.reps, interrupt, |rep| decode(engine, args.tg, depth, sequences, rep))?;
            figures.push(Figure { what, depth, rates });
        }
    }
    Ok(figures)
}

/// One run that does not count, then those that do.
fn repeat(
    reps: u32,
    interrupt: &Interrupt,
    mut run: impl FnMut(u32) -> Result<f64, Failure>,
) -> Result<Rates, Failure> {
    let mut rates = Rates::default();
    for rep in 0..=reps {
        if interrupt.pressed() {
            return Err(Failure::new(Kind::Interrupted, "interrupted"));
        }
        let rate = run(rep)?;
        if rep > 0 {
            rates.push(rate);
        }
    }
    Ok(rates)
}
