//! `cargo xtask load`: many streams at once from readers that come, go and dawdle; afterwards the server must be as it was.
//!
//! Asserted: no failure but a stated refusal (429 with `Retry-After`), memory flat, all pages of the cache free again,
//! the next request answered. Printed: the time to the first token.

#![allow(clippy::print_stdout, reason = "figures are what this command is for")]

mod report;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::client::{Answer, Client, Event};
use super::server::{Profile, Program, Server, small_model};
use report::{Memory, Report};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    streams: usize,
    seconds: u64,
    seed: u64,
    program: Program,
    size: Size,
}

/// How much a request asks for, at most.
#[derive(Clone, Copy, Debug)]
struct Size {
    words: usize,
    tokens: usize,
    /// Of the page pool: so small that it is in use as a whole early on, since pages that are touched for the first time
    /// would look like a leak.
    kv_memory: &'static str,
}

const USUAL: Size = Size { words: 120, tokens: 90, kv_memory: "192MiB" };
const SMALL: Size = Size { words: 12, tokens: 20, kv_memory: "32MiB" };
/// Time that a short run may take beyond its seconds on a machine that is busy, until somebody has read an answer whole.
const OVERTIME: Duration = Duration::from_secs(120);

/// Streams and seconds at most: a slip must not keep a machine busy for a day.
const STREAMS_MAX: usize = 512;
const SECONDS_MAX: u64 = 3600;
const WORDS: [&str; 16] = [
    "zinc", "river", "a", "the", "green", "of", "seven", "bridges", "slowly", "and", "why", "music", "paper", "cold",
    "morning", "explain",
];
const SYSTEMS: [&str; 3] =
    ["You are brief.", "You are a patient teacher of physics who answers in whole sentences.", ""];

impl Request {
    /// The run of every test: the same in short and small, with what the tests have compiled.
    pub(crate) fn short() -> Request {
        Request { streams: 64, seconds: 10, seed: 1, program: Program::Built(Profile::Dev), size: SMALL }
    }

    /// From the words after `load`.
    ///
    /// # Errors
    /// A word that is not known, or a number out of range.
    pub(crate) fn parse(words: &[String]) -> Result<Request, String> {
        let mut request =
            Request { streams: 64, seconds: 300, seed: 1, program: Program::Built(Profile::Release), size: USUAL };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|text| text.parse::<u64>().ok());
                value.ok_or_else(|| format!("{word} needs a number"))
            };
            match word.as_str() {
                "--seconds" => request.seconds = number()?,
                "--streams" => request.streams = usize::try_from(number()?).unwrap_or(usize::MAX),
                "--seed" => request.seed = number()?,
                "--short" => request = Request::short(),
                "--program" => request.program = Program::given(words.next())?,
                _ => {
                    let known = "--short, --seconds, --streams, --seed, --program";
                    return Err(format!("`cargo xtask load` takes {known}, not `{word}`"));
                }
            }
        }
        match request {
            Request { streams: 1..=STREAMS_MAX, seconds: 1..=SECONDS_MAX, .. } => Ok(request),
            _ => Err(format!("--streams must be 1 to {STREAMS_MAX}, --seconds 1 to {SECONDS_MAX}")),
        }
    }
}

/// Runs the load and prints what came of it.
///
/// # Errors
/// Whatever did not hold.
pub(crate) fn run(root: &Path, request: &Request) -> Result<(), String> {
    let model = small_model(root)?;
    let zinc = request.program.path(root)?;
    let sequences = request.streams.to_string();
    let kv = request.size.kv_memory;
    let arguments = ["-c", "512", "--device", "cpu", "--max-seqs", &sequences, "--kv-memory", kv, "-m"];
    let model = model.to_string_lossy();
    let server = Server::start(&zinc, &[&arguments[..], &[&model]].concat(), &[])?;
    let client = Client::new(&server.url);
    client.wait_until_ready()?;
    let held_before = client.metric("zinc_kv_pages_held")?;
    let tokens_before = client.metric("zinc_generation_tokens_total")?;

    let tally = Mutex::new(Report::default());
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    let mut seeds = Rng::with_seed(request.seed);
    std::thread::scope(|scope| {
        for _ in 0..request.streams {
            // A client of its own, as different users have.
            let (tally, is_over, client) = (&tally, &is_over, Client::new(&server.url));
            let mut random = seeds.fork();
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let outcome = one(&client, &mut random, request.size, is_over);
                    if let Ok(mut tally) = tally.lock() {
                        tally.add(outcome);
                    }
                }
            });
        }
        watch(&server, &tally, begun, Duration::from_secs(request.seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut report = tally.into_inner().map_err(|_| "a reader panicked")?;
    report.tokens_per_second = (client.metric("zinc_generation_tokens_total")? - tokens_before) / seconds;
    report.print(request.streams, seconds);
    settled(&client, held_before)?;
    let last = one(&client, &mut seeds, SMALL, &AtomicBool::new(false));
    match last.failure {
        None => report.verdict(seconds),
        Some(failure) => Err(format!("after the load a request failed: {failure}")),
    }
}

/// Looks at the server's memory until the time is over.
fn watch(server: &Server, tally: &Mutex<Report>, begun: Instant, time: Duration) {
    loop {
        let memory = Memory::of(server.pid());
        if let Ok(mut tally) = tally.lock() {
            tally.memory.extend(memory);
            let passed = begun.elapsed();
            if passed > time && (tally.has_whole() || passed > time + OVERTIME) {
                return;
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Waits until the engine holds nothing any more.
fn settled(client: &Client, held_before: f64) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let held = client.metric("zinc_kv_pages_held")?;
        let busy = client.metric("zinc_requests_running")? + client.metric("zinc_requests_waiting")?;
        if held <= held_before && busy < 1.0 {
            println!("pages held: {held_before} before, {held} after; nothing runs or waits");
            break;
        }
        if Instant::now() > end {
            return Err(format!("10 s after the last reader {held} pages are held and {busy} requests run or wait"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let failed = client.metric("zinc_requests_failed_total")?;
    if failed > 0.0 { Err(format!("the engine counts {failed} failed requests")) } else { Ok(()) }
}

/// How a reader behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Stays,
    Dawdles,
    LeavesAtOnce,
    LeavesAfter(usize),
}

/// What came of one request.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    first_token: Option<Duration>,
    is_whole: bool,
    is_refused: bool,
    failure: Option<String>,
}

/// One request of a reader, who leaves when the load is over.
fn one(client: &Client, random: &mut Rng, size: Size, is_over: &AtomicBool) -> Outcome {
    let reader = match random.usize(..20) {
        0..=9 => Reader::Stays,
        10..=11 => Reader::Dawdles,
        12..=13 => Reader::LeavesAtOnce,
        _ => Reader::LeavesAfter(1 + random.usize(..40)),
    };
    let body = body(random, size);
    let begun = Instant::now();
    let events = match client.chat(&body) {
        Ok(Answer::Stream(events)) => events,
        Ok(Answer::Refused { status: 429, says_when: true, .. }) => {
            return Outcome { is_refused: true, ..Outcome::default() };
        }
        Ok(Answer::Refused { status, body, .. }) => return failed(format!("status {status}: {body}")),
        Err(error) => return failed(error),
    };
    let mut outcome = Outcome::default();
    if reader == Reader::LeavesAtOnce {
        return outcome;
    }
    let mut is_finished = false;
    for (index, event) in events.enumerate() {
        let event = match event {
            Ok(event) => event,
            Err(error) => return failed(error),
        };
        if outcome.first_token.is_none() && event.has_text() {
            outcome.first_token = Some(begun.elapsed());
        }
        match &event {
            Event::Chunk(chunk) if !chunk["error"].is_null() => return failed(chunk["error"].to_string()),
            Event::Chunk(chunk) => is_finished |= chunk["choices"][0]["finish_reason"].is_string(),
            Event::Done => outcome.is_whole = is_finished,
        }
        match reader {
            Reader::LeavesAfter(n) if index >= n => return outcome,
            _ if is_over.load(Ordering::Relaxed) && !outcome.is_whole => return outcome,
            Reader::Dawdles => std::thread::sleep(Duration::from_millis(20)),
            _ => {}
        }
    }
    if outcome.is_whole { outcome } else { failed("the stream ended without [DONE]".to_owned()) }
}

fn failed(failure: String) -> Outcome {
    Outcome { failure: Some(failure), ..Outcome::default() }
}

/// A chat of random words; some share their beginning with others.
fn body(random: &mut Rng, size: Size) -> Value {
    let n_words = 1 + random.usize(..size.words);
    let words: Vec<&str> = (0..n_words).map(|_| WORDS[random.usize(..WORDS.len())]).collect();
    json!({
        "messages": [
            {"role": "system", "content": SYSTEMS[random.usize(..SYSTEMS.len())]},
            {"role": "user", "content": words.join(" ")},
        ],
        "max_tokens": 8 + random.usize(..size.tokens), "temperature": 0.8, "seed": random.u64(..) >> 1, "stream": true,
    })
}
