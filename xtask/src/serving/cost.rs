//! `cargo xtask cost`: what the server costs: one stream over HTTP beside `zinc bench`, in alternation.
//!
//! A round runs the benchmark and the same work through `/v1/chat/completions`, each as a person would. The medians over
//! the rounds of the ratio of tokens per second and of the difference of times to the first token are what counts: a
//! machine that slows down slows both. Beside them stand figures that other work on the machine disturbs less: the time
//! to the first token that passes outside the engine, and the processor time of the server's own threads a token.

#![allow(clippy::print_stdout, reason = "figures are what this command is for")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Answer, Client, Event};
use super::server::{Profile, Program, Server, small_model};

/// Tokens that are generated.
const TOKENS: u32 = 256;
/// Rounds at most.
const ROUNDS_MAX: usize = 200;
/// Least share of the benchmark's tokens per second.
const SHARE_MIN: f64 = 0.97;
/// Most that the first token may be later, in milliseconds.
const LATER_MS_MAX: f64 = 5.0;
/// Names of the threads that the server has beside the engine's.
const SERVER_THREADS: [&str; 2] = ["zinc-server", "zinc-delivery"];
/// Words of the prompt; the template adds its own.
const WORDS: usize = 100;

/// Runs `rounds` rounds and prints them.
///
/// # Errors
/// What could not be run, or a cost beyond what is promised.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let (rounds, program) = parse(words)?;
    let model = small_model(root)?;
    let zinc = program.path(root)?;
    let path = model.to_string_lossy();
    let server = Server::start(&zinc, &["-c", "2048", "--device", "cpu", "--max-seqs", "1", "-m", &path], &[])?;
    let client = Client::new(&server.url);
    client.wait_until_ready()?;
    // The first request of all warms up, and tells how long the prompt is.
    let warm = Served::measure(&server, &client, 0)?;
    let (computed, cached) = (warm.computed, Served::measure(&server, &client, 1)?.cached);
    let computed = computed.saturating_sub(cached);
    println!("prompts of {computed} tokens ({cached} more from the cache), {TOKENS} tokens generated");
    println!(
        "{:>5} {:>12} {:>12} {:>7} {:>12} {:>12} {:>9} {:>10} {:>10}",
        "round",
        "bench tok/s",
        "server tok/s",
        "share",
        "bench ms",
        "server ms",
        "later ms",
        "outside ms",
        "cpu ms/tok"
    );
    let (mut shares, mut laters, mut outside, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Who comes first changes, for the machine's caches and clocks.
        let (bench, served) = if round % 2 == 0 {
            let bench = Bench::measure(&zinc, &path, computed, cached)?;
            (bench, Served::measure(&server, &client, round + 2)?)
        } else {
            let served = Served::measure(&server, &client, round + 2)?;
            (Bench::measure(&zinc, &path, computed, cached)?, served)
        };
        let share = served.rate / bench.rate;
        let later = served.first_ms - bench.first_ms;
        println!(
            "{:>5} {:>12.1} {:>12.1} {share:>7.3} {:>12.2} {:>12.2} {later:>9.2} {:>10.2} {:>10.3}",
            round + 1,
            bench.rate,
            served.rate,
            bench.first_ms,
            served.first_ms,
            served.outside_ms,
            served.cpu_ms,
        );
        shares.push(share);
        laters.push(later);
        outside.push(served.outside_ms);
        cpu.push(served.cpu_ms);
    }
    println!(
        "medians: {:.2} ms to the first token outside the engine, {:.3} ms of the server's threads a token",
        median(&mut outside),
        median(&mut cpu)
    );
    let (share, later) = (median(&mut shares), median(&mut laters));
    println!("medians: {share:.3} of the benchmark's tokens per second, first token {later:.2} ms later");
    if share < SHARE_MIN || later > LATER_MS_MAX {
        return Err(format!(
            "the server costs too much: at least {SHARE_MIN} and at most {LATER_MS_MAX} ms are promised"
        ));
    }
    Ok(())
}

/// Rounds and program from the words after `cost`.
fn parse(words: &[String]) -> Result<(usize, Program), String> {
    let (mut rounds, mut program) = (15usize, Program::Built(Profile::Release));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = words.next().and_then(|n| n.parse().ok()).ok_or("--rounds needs a number")?,
            "--program" => program = Program::given(words.next())?,
            _ => return Err(format!("`cargo xtask cost` takes --rounds and --program, not `{word}`")),
        }
    }
    if !(1..=ROUNDS_MAX).contains(&rounds) {
        return Err(format!("--rounds is {rounds}; it must be 1 to {ROUNDS_MAX}"));
    }
    Ok((rounds, program))
}

/// What one stream took, seen by its reader.
struct Served {
    rate: f64,
    first_ms: f64,
    computed: u32,
    cached: u32,
    /// Time to the first token, less what the engine counts of it.
    outside_ms: f64,
    /// Processor time of the threads that are not the engine's, a token.
    cpu_ms: f64,
}

impl Served {
    fn measure(server: &Server, client: &Client, number: usize) -> Result<Served, String> {
        // Its first word makes each prompt new; digits are single tokens, so that all are of one length.
        let content = format!("{:04}{}", number, " and".repeat(WORDS));
        let body = json!({
            "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": TOKENS,
            "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true},
        });
        let cpu_before = cpu_ms_of_server(server.pid());
        let begun = Instant::now();
        let events = match client.chat(&body)? {
            Answer::Stream(events) => events,
            Answer::Refused { status, body, .. } => return Err(format!("status {status}: {body}")),
        };
        let (mut first, mut last, mut end) = (None, Duration::ZERO, Value::Null);
        for event in events {
            let event = event?;
            if event.has_text() {
                last = begun.elapsed();
                first.get_or_insert(last);
            }
            match event {
                Event::Chunk(chunk) if !chunk["usage"].is_null() => end = chunk,
                _ => {}
            }
        }
        let first = first.ok_or("the stream held no text")?;
        let (usage, timings) = (&end["usage"], &end["timings"]);
        let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        if count(&usage["completion_tokens"]) != TOKENS {
            return Err(format!("{TOKENS} tokens were asked for: {usage}"));
        }
        Ok(Served {
            rate: f64::from(TOKENS - 1) / (last - first).as_secs_f64(),
            first_ms: first.as_secs_f64() * 1e3,
            outside_ms: first.as_secs_f64() * 1e3 - timings["time_to_first_token_ms"].as_f64().unwrap_or(f64::NAN),
            cpu_ms: (cpu_ms_of_server(server.pid()) - cpu_before) / f64::from(TOKENS),
            computed: count(&usage["prompt_tokens"]),
            cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        })
    }
}

/// Processor time so far of the threads that read requests and write answers; NaN where the system does not tell.
fn cpu_ms_of_server(pid: u32) -> f64 {
    let of_thread = |folder: &Path| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let time = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanoseconds: f64 = time.split(' ').next()?.parse().ok()?;
        SERVER_THREADS.contains(&name.trim_end()).then_some(nanoseconds / 1e6)
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.map_or(f64::NAN, |all| all.flatten().filter_map(|thread| of_thread(&thread.path())).sum())
}

/// The same work without the server.
struct Bench {
    rate: f64,
    first_ms: f64,
}

impl Bench {
    fn measure(zinc: &Path, model: &str, computed: u32, cached: u32) -> Result<Bench, String> {
        let depth = (computed + cached).to_string();
        let (tokens, prompt) = ((TOKENS - 1).to_string(), computed.to_string());
        let decode = bench(zinc, model, &["--pp", "0", "--tg", &tokens, "--depth", &depth])?;
        let prefill = bench(zinc, model, &["--pp", &prompt, "--tg", "2"])?;
        let rate = |value: &Value, kind: &str| {
            let figures = value["figures"].as_array();
            let found = figures.and_then(|all| all.iter().find(|figure| figure["kind"] == kind));
            found
                .and_then(|figure| figure["median_tok_s"].as_f64())
                .ok_or(format!("zinc bench gave no {kind}: {value}"))
        };
        let first_ms = f64::from(computed) / rate(&prefill, "prefill")? * 1e3;
        Ok(Bench { rate: rate(&decode, "decode")?, first_ms })
    }
}

fn bench(zinc: &Path, model: &str, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(zinc);
    command.args(["bench", "--json", "--reps", "1", "--device", "cpu", "-m", model]).args(arguments);
    let output = command.output().map_err(|e| format!("zinc bench: {e}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("zinc bench: {e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    f64::midpoint(values[(n - 1) / 2], values[n / 2])
}
