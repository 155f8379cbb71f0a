//! What holds for every text and every row of ids, tried on random ones. A failure prints its seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{ALL, PLAIN, PROMPT, Random, TEXT, TINY};
use zinc_tokenizer::{DecodeOptions, PreTokenizer};

const N_TEXTS: u64 = 400;

#[test]
fn decoding_gives_the_text_back() {
    for (name, tokenizer) in fixture::all() {
        // This one was trained without tokens for some control characters.
        if name.starts_with("SmolLM2") {
            continue;
        }
        let bytes = tokenizer.token_to_id("<0x00>").is_some();
        for seed in 0..N_TEXTS {
            let mut text = Random(seed).text();
            if bytes {
                // Where spaces are written so, the character itself comes back as a space.
                text = text.replace('▁', "_");
            }
            assert_eq!(tokenizer.decode(&tokenizer.encode(&text, PLAIN), ALL), text, "{name}, seed {seed}");
            assert_eq!(
                tokenizer.decode(&tokenizer.encode(&text, PROMPT), TEXT),
                without_control(&text),
                "{name}, seed {seed}"
            );
        }
    }
}

/// Random text spells no control token.
fn without_control(text: &str) -> &str {
    assert!(!text.contains("<|im") && !text.contains("<bos>"));
    text
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let Some(tokenizer) = fixture::real("SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    assert_eq!(tokenizer.decode(&tokenizer.encode("a\u{4}b\u{13}c", PLAIN), ALL), "abc");
}

#[test]
fn the_pieces_of_a_pre_tokenizer_are_the_text() {
    for name in PreTokenizer::names() {
        let pre_tokenizer = PreTokenizer::new(name).unwrap();
        for seed in 0..N_TEXTS {
            let text = Random(seed).text();
            let mut joined = String::new();
            pre_tokenizer.split(&text, &mut |piece| {
                assert!(!piece.is_empty(), "{name}, seed {seed}");
                joined.push_str(piece);
            });
            assert_eq!(joined, text, "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_stream_gives_what_decoding_at_once_gives() {
    for (name, tokenizer) in fixture::all() {
        for seed in 0..N_TEXTS {
            let mut random = Random(seed);
            let options = DecodeOptions { render_special: random.below(2) == 0, continues: random.below(2) == 0 };
            let beyond = u64::from(tokenizer.n_vocab()) + 3;
            let mut ids: Vec<u32> =
                (0..random.below(30)).map(|_| u32::try_from(random.below(beyond)).unwrap()).collect();
            ids.extend(tokenizer.encode(&random.text(), PLAIN));
            let mut stream = tokenizer.decode_stream(options);
            let mut text = String::new();
            for &id in &ids {
                text.extend(stream.push(id));
            }
            text.extend(stream.finish());
            assert_eq!(text, tokenizer.decode(&ids, options), "{name}, seed {seed}");
        }
    }
}

#[test]
fn broken_text_has_ids_too() {
    for (name, tokenizer) in fixture::all() {
        for seed in 0..N_TEXTS {
            let mut random = Random(seed);
            let bytes: Vec<u8> = (0..random.below(30)).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
            let ids = tokenizer.encode_bytes(&bytes, PLAIN);
            assert!(ids.iter().all(|&id| id < tokenizer.n_vocab()), "{name}, seed {seed}");
            if TINY.contains(&name) && !bytes.windows(3).any(|window| window == "▁".as_bytes()) {
                assert_eq!(tokenizer.decode(&ids, TEXT), String::from_utf8_lossy(&bytes), "{name}, seed {seed}");
            }
        }
    }
}

/// A hundred thousand equal characters are one word. A quadratic algorithm would take minutes for each.
#[test]
fn long_words_take_no_longer_than_many_short_ones() {
    for name in ["gemma3-a", "gemma4-a", "qwen35-a"] {
        let tokenizer = fixture::tiny(name);
        for character in ["a", " ", "\n", "é"] {
            let text = character.repeat(1 << 17);
            let ids = tokenizer.encode(&text, PLAIN);
            assert_eq!(tokenizer.decode(&ids, ALL).len(), text.len(), "{name}, {character:?}");
        }
    }
}
