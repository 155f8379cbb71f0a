//! Measures a tokenizer: `encode_speed MODEL.gguf TEXT_FILE`. Prints load time, MB/s of encoding and decoding, and the time
//! for one million equal characters, which a quadratic algorithm would take hours for.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use zinc_gguf::Gguf;
use zinc_tokenizer::{DecodeOptions, Encode, Tokenizer};

const PLAIN: Encode = Encode { add_special: false, parse_special: false };
const TEXT: DecodeOptions = DecodeOptions { render_special: true, continues: true };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, text] = &arguments[..] else { return Err("usage: encode_speed MODEL.gguf TEXT_FILE".into()) };
    let gguf = Gguf::open_header(Path::new(model))?;
    let start = Instant::now();
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    eprintln!("load    {:8.1} ms, {} tokens", milliseconds(start.elapsed()), tokenizer.n_vocab());

    let text = std::fs::read_to_string(text)?;
    let megabytes = text.len() as f64 / 1e6;
    let ids = tokenizer.encode(&text, PLAIN);
    let seconds = best_of(5, || drop(black_box(tokenizer.encode(&text, PLAIN))));
    eprintln!("encode  {:8.2} MB/s ({megabytes:.2} MB, {} ids)", megabytes / seconds, ids.len());
    let seconds = best_of(5, || drop(black_box(tokenizer.decode(&ids, TEXT))));
    eprintln!("decode  {:8.2} MB/s", megabytes / seconds);
    for character in ["a", " ", "\n", "=", "é", "日", "\u{301}"] {
        let text = character.repeat(1 << 20);
        let start = Instant::now();
        let ids = tokenizer.encode(&text, PLAIN);
        eprintln!("2^20 x {character:?}: {:8.1} ms, {} ids", milliseconds(start.elapsed()), ids.len());
    }
    Ok(())
}

fn best_of(n: u32, mut run: impl FnMut()) -> f64 {
    let seconds = (0..n).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
