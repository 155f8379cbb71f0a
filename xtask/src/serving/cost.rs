//! `cargo xtask cost`: what the server costs: one stream over HTTP beside `zinc bench`, in alternation.
//!
//! A round runs the benchmark and the same work through `/v1/chat/completions`, each as a person would, each warmed up
//! by a run that does not count: the system takes memory and caches from a process that waits for its turn. Rounds are
//! short and many: a shared machine changes its speed by a third within seconds, and what two neighbours of a second each
//! have in common is the machine. What counts are the medians over the rounds of the ratio of tokens per second and of the
//! difference of times to the first token, each with the interval that holds the true one in 95 of 100 cases (order
//! statistics, which ask nothing of the noise but that rounds are alike). A promise that lies inside its interval is
//! neither kept nor broken, and more rounds are asked for. Beside them stand figures that other work on the machine
//! disturbs less: the time to the first token that passes outside the engine, and the processor time and the wake-ups of
//! the server's own threads a token. The reader keeps what it is sent and understands it afterwards: it shares the machine
//! with the engine.

#![allow(clippy::print_stdout, reason = "figures are what this command is for")]

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Answer, Client, Event};
use super::server::{Profile, Program, Server, small_model};

/// Tokens that are generated.
const TOKENS: u32 = 32;
/// Rounds, unless others are asked for.
const ROUNDS: usize = 90;
/// Rounds at most.
const ROUNDS_MAX: usize = 2000;
/// Least share of the benchmark's tokens per second.
const SHARE_MIN: f64 = 0.97;
/// Most that the first token may be later, in milliseconds.
const LATER_MS_MAX: f64 = 5.0;
/// How the names of the threads begin that compute; the server's own are all others.
const ENGINE_THREADS: [&str; 2] = ["zinc-engine", "zinc-cpu"];
/// Words of the prompt; the template adds its own.
const WORDS: usize = 12;

/// Runs `rounds` rounds and prints them.
///
/// # Errors
/// What could not be run, or a cost beyond what is promised.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let Asked { rounds, program, model } = Asked::parse(words)?;
    let model = model.map_or_else(|| small_model(root), Ok)?;
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
        "{:>5} {:>12} {:>12} {:>7} {:>12} {:>12} {:>9} {:>10} {:>10} {:>10}",
        "round",
        "bench tok/s",
        "server tok/s",
        "share",
        "bench ms",
        "server ms",
        "later ms",
        "outside ms",
        "cpu ms/tok",
        "wakes/tok"
    );
    let [mut shares, mut laters, mut outside, mut cpu, mut wakes] = [const { Vec::new() }; 5];
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
            "{:>5} {:>12.1} {:>12.1} {share:>7.3} {:>12.2} {:>12.2} {later:>9.2} {:>10.2} {:>10.3} {:>10.2}",
            round + 1,
            bench.rate,
            served.rate,
            bench.first_ms,
            served.first_ms,
            served.outside_ms,
            served.own.cpu_ms,
            served.own.n_wakes,
        );
        shares.push(share);
        laters.push(later);
        outside.push(served.outside_ms);
        cpu.push(served.own.cpu_ms);
        wakes.push(served.own.n_wakes);
    }
    println!(
        "medians: {:.2} ms to the first token outside the engine; a token {:.3} ms and {:.2} wake-ups of the server's threads",
        Estimate::of(outside).median,
        Estimate::of(cpu).median,
        Estimate::of(wakes).median,
    );
    let (share, later) = (Estimate::of(shares), Estimate::of(laters));
    println!("median share of the benchmark's tokens per second: {share:.3}");
    println!("median of what the first token is later, ms: {later:.2}");
    verdict(&share, &later)
}

/// A median, and the interval that holds the true one in 95 of 100 cases.
struct Estimate {
    low: f64,
    median: f64,
    high: f64,
}

impl Estimate {
    /// Of at least one value.
    fn of(mut values: Vec<f64>) -> Estimate {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        // As many of n values are below the true median as n throws of a coin show heads: 1.96 standard deviations are
        // 0.98 roots of n.
        let below = (n as f64 + 1.0) / 2.0 - 0.98 * (n as f64).sqrt();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and n")]
        let rank = (below.max(1.0) as usize).min(n.div_ceil(2));
        Estimate {
            low: values[rank - 1],
            median: f64::midpoint(values[(n - 1) / 2], values[n / 2]),
            high: values[n - rank],
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.low, self.high)
    }
}

/// Whether the promises are kept.
fn verdict(share: &Estimate, later: &Estimate) -> Result<(), String> {
    let promise = format!("at least {SHARE_MIN} and at most {LATER_MS_MAX} ms are promised");
    if share.high < SHARE_MIN || later.low > LATER_MS_MAX {
        return Err(format!("the server costs too much: {promise}"));
    }
    if share.low < SHARE_MIN || later.high > LATER_MS_MAX {
        return Err(format!("so few rounds do not decide it: {promise}; more --rounds, or a quieter machine"));
    }
    println!("kept: {promise}");
    Ok(())
}

/// What the words after `cost` ask for.
struct Asked {
    rounds: usize,
    program: Program,
    /// The small model, unless it is another.
    model: Option<PathBuf>,
}

impl Asked {
    fn parse(words: &[String]) -> Result<Asked, String> {
        let mut asked = Asked { rounds: ROUNDS, program: Program::Built(Profile::Release), model: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rounds" => {
                    asked.rounds = words.next().and_then(|n| n.parse().ok()).ok_or("--rounds needs a number")?;
                }
                "--program" => asked.program = Program::given(words.next())?,
                "--model" => asked.model = Some(words.next().ok_or("--model needs a file")?.into()),
                _ => return Err(format!("`cargo xtask cost` takes --rounds, --program and --model, not `{word}`")),
            }
        }
        if !(1..=ROUNDS_MAX).contains(&asked.rounds) {
            return Err(format!("--rounds is {}; it must be 1 to {ROUNDS_MAX}", asked.rounds));
        }
        Ok(asked)
    }
}

/// What a round took, seen by the reader.
struct Served {
    rate: f64,
    first_ms: f64,
    computed: u32,
    cached: u32,
    /// Time to the first token, less what the engine counts of it.
    outside_ms: f64,
    /// Of the threads that are not the engine's, a token.
    own: Own,
}

impl Served {
    fn measure(server: &Server, client: &Client, round: usize) -> Result<Served, String> {
        Stream::read(client, 2 * round, 2)?;
        let before = Own::of(server.pid());
        let answer = Stream::read(client, 2 * round + 1, TOKENS)?;
        let after = Own::of(server.pid());
        let usage = &answer.end["usage"];
        Ok(Served {
            rate: f64::from(TOKENS - 1) / (answer.last - answer.first).as_secs_f64(),
            first_ms: answer.first_ms(),
            computed: count(&usage["prompt_tokens"]),
            cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
            outside_ms: answer.outside_ms(),
            own: Own {
                cpu_ms: (after.cpu_ms - before.cpu_ms) / f64::from(TOKENS),
                n_wakes: (after.n_wakes - before.n_wakes) / f64::from(TOKENS),
            },
        })
    }
}

/// One answer.
struct Stream {
    first: Duration,
    last: Duration,
    /// The chunk with the usage.
    end: Value,
}

impl Stream {
    fn read(client: &Client, number: usize, tokens: u32) -> Result<Stream, String> {
        // Its first word makes each prompt new; digits are single tokens, so that all are of one length.
        let content = format!("{:04}{}", number, " and".repeat(WORDS));
        let body = json!({
            "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": tokens,
            "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true},
        });
        let begun = Instant::now();
        let mut events = match client.chat(&body)? {
            Answer::Stream(events) => events,
            Answer::Refused { status, body, .. } => return Err(format!("status {status}: {body}")),
        };
        let mut sent = Vec::with_capacity(tokens as usize + 8);
        while let Some(text) = events.next_text() {
            sent.push((begun.elapsed(), text?));
        }
        let (mut texts, mut end) = (Vec::with_capacity(sent.len()), Value::Null);
        for (at, text) in sent {
            let event = Event::read(&text)?;
            if event.has_text() {
                texts.push(at);
            }
            match event {
                Event::Chunk(chunk) if !chunk["usage"].is_null() => end = chunk,
                _ => {}
            }
        }
        if count(&end["usage"]["completion_tokens"]) != tokens {
            return Err(format!("{tokens} tokens were asked for: {}", end["usage"]));
        }
        match (texts.first(), texts.last()) {
            (Some(&first), Some(&last)) => Ok(Stream { first, last, end }),
            _ => Err("the stream held no text".to_owned()),
        }
    }

    fn first_ms(&self) -> f64 {
        self.first.as_secs_f64() * 1e3
    }

    fn outside_ms(&self) -> f64 {
        self.first_ms() - self.end["timings"]["time_to_first_token_ms"].as_f64().unwrap_or(f64::NAN)
    }
}

fn count(value: &Value) -> u32 {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// What the threads that read requests and write answers have cost so far.
#[derive(Default)]
struct Own {
    cpu_ms: f64,
    /// Times that one of them had nothing to do and slept.
    n_wakes: f64,
}

impl Own {
    /// Nothing where the system does not tell.
    fn of(pid: u32) -> Own {
        let of_thread = |folder: &Path| {
            let name = std::fs::read_to_string(folder.join("comm")).ok()?;
            if ENGINE_THREADS.iter().any(|begin| name.starts_with(begin)) {
                return None;
            }
            let time = std::fs::read_to_string(folder.join("schedstat")).ok()?;
            let nanoseconds: f64 = time.split(' ').next()?.parse().ok()?;
            let status = std::fs::read_to_string(folder.join("status")).ok()?;
            let wakes = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            Some((nanoseconds / 1e6, wakes.trim().parse::<f64>().ok()?))
        };
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| of_thread(&thread.path())).fold(Own::default(), |sum, (cpu_ms, n_wakes)| Own {
            cpu_ms: sum.cpu_ms + cpu_ms,
            n_wakes: sum.n_wakes + n_wakes,
        })
    }
}

/// The same work without the server.
struct Bench {
    rate: f64,
    first_ms: f64,
}

impl Bench {
    fn measure(zinc: &Path, model: &str, computed: u32, cached: u32) -> Result<Bench, String> {
        let (prompt, tokens, depth) = (computed.to_string(), (TOKENS - 1).to_string(), cached.to_string());
        let all = bench(zinc, model, &["--reps", "1", "--pp", &prompt, "--tg", &tokens, "--depth", &depth])?;
        let rate = |kind: &str| {
            let figures = all["figures"].as_array();
            let found = figures.and_then(|all| all.iter().find(|figure| figure["kind"] == kind));
            found.and_then(|figure| figure["median_tok_s"].as_f64()).ok_or(format!("zinc bench gave no {kind}: {all}"))
        };
        Ok(Bench { rate: rate("decode")?, first_ms: f64::from(computed) / rate("prefill")? * 1e3 })
    }
}

fn bench(zinc: &Path, model: &str, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(zinc);
    command.args(["bench", "--json", "--device", "cpu", "-m", model]).args(arguments);
    let output = command.output().map_err(|e| format!("zinc bench: {e}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("zinc bench: {e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::{Estimate, verdict};

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        // Published: with 10 values the second and the ninth hold the median in 97.9 of 100 cases, with 100 the 40th and the
        // 61st in 96.5.
        for (n, low, high) in [(1, 1.0, 1.0), (10, 2.0, 9.0), (100, 40.0, 61.0)] {
            let estimate = Estimate::of((1..=n).map(f64::from).rev().collect());
            assert_eq!((estimate.low, estimate.high), (low, high), "{n}");
        }
    }

    #[test]
    fn a_promise_inside_its_interval_is_neither_kept_nor_broken() {
        let of = |low, median, high| Estimate { low, median, high };
        let on_time = of(0.0, 1.0, 2.0);
        assert!(verdict(&of(0.975, 0.99, 1.0), &on_time).is_ok());
        assert!(verdict(&of(0.96, 0.99, 1.0), &on_time).unwrap_err().contains("do not decide"));
        assert!(verdict(&of(0.94, 0.95, 0.96), &on_time).unwrap_err().contains("too much"));
        assert!(verdict(&of(0.98, 0.99, 1.0), &of(6.0, 7.0, 8.0)).unwrap_err().contains("too much"));
        assert!(verdict(&of(0.98, 0.99, 1.0), &of(4.0, 4.5, 5.5)).unwrap_err().contains("do not decide"));
    }
}
