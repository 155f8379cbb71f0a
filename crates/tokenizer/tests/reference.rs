//! Ids and words against other implementations: llama.cpp, Hugging Face tokenizers, sentencepiece.
//! `fixtures/tokenizer/README.md` says how each file was made.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{ALL, PLAIN, PROMPT, REAL, SPECIAL, TINY, ids};
use serde_json::Value;
use zinc_tokenizer::{PreTokenizer, Tokenizer};

/// Counts and shows where `encode` gives other ids than expected.
fn check(name: &str, rows: &[Value], field: &str, encode: impl Fn(&str) -> Vec<u32>) {
    let mut n_wrong = 0;
    for row in rows {
        let text = row["text"].as_str().unwrap();
        let (got, expected) = (encode(text), ids(&row[field]));
        if got != expected {
            eprintln!("{name}, {field}: {text:?}\n  got      {got:?}\n  expected {expected:?}");
            n_wrong += 1;
        }
    }
    assert_eq!(n_wrong, 0, "{name}: {n_wrong} of {} texts", rows.len());
}

/// Fills the fields that the file leaves out where they equal another.
fn filled(rows: &Value) -> Vec<Value> {
    let mut rows = rows.as_array().unwrap().clone();
    for row in &mut rows {
        let plain = row["ids"].clone();
        let special = row.get("ids_special").cloned().unwrap_or(plain);
        let prompt = row.get("ids_bos_special").cloned().unwrap_or(special.clone());
        row["ids_special"] = special;
        row["ids_bos_special"] = prompt;
    }
    rows
}

#[test]
fn real_vocabularies_match_llama_cpp() {
    let golden = fixture::json("llamacpp.json");
    for (name, model) in ["smollm2", "gemma3", "qwen25", "qwen35"].into_iter().zip(REAL) {
        let Some(tokenizer) = fixture::real(model) else { continue };
        let golden = &golden["models"][name];
        assert_eq!(u64::from(tokenizer.n_vocab()), golden["n_vocab"].as_u64().unwrap());
        assert_eq!(tokenizer.eos().map(u64::from), golden["eos"].as_u64());
        let rows = filled(&golden["cases"]);
        assert_eq!(rows.len(), 81);
        check(name, &rows, "ids", |text| tokenizer.encode(text, PLAIN));
        check(name, &rows, "ids_special", |text| tokenizer.encode(text, SPECIAL));
        check(name, &rows, "ids_bos_special", |text| tokenizer.encode(text, PROMPT));
        decodes(&tokenizer, &rows);
    }
}

/// Decoding gives the text back, or what the file says it gives.
fn decodes(tokenizer: &Tokenizer, rows: &[Value]) {
    for row in rows {
        let expected = row.get("roundtrip").unwrap_or(&row["text"]).as_str().unwrap();
        assert_eq!(tokenizer.decode(&ids(&row["ids_special"]), ALL), expected);
    }
}

#[test]
fn broken_text_is_kept_in_bytes_or_replaced() {
    let golden = fixture::json("llamacpp.json");
    if let Some(gemma) = fixture::real("gemma-3-270m-q4_k_m.gguf") {
        // Byte tokens: the same as llama.cpp, except that it cuts characters by their first byte alone and so swallows a
        // following ASCII letter into the byte tokens. The merges of letters that stand by themselves are ours.
        for row in golden["models"]["gemma3"]["invalid_utf8"].as_array().unwrap() {
            let bytes = unhex(row["bytes_hex"].as_str().unwrap());
            assert_eq!(gemma.decode(&gemma.encode_bytes(&bytes, PLAIN), ALL), String::from_utf8_lossy(&bytes));
            if !bytes.iter().any(u8::is_ascii) {
                assert_eq!(gemma.encode_bytes(&bytes, PLAIN), ids(&row["ids"]));
            }
        }
    }
    for name in ["llama3-a", "qwen35-a"] {
        let tokenizer = fixture::tiny(name);
        assert_eq!(tokenizer.encode_bytes(b"a\xffb", PLAIN), tokenizer.encode("a\u{fffd}b", PLAIN));
        assert_eq!(tokenizer.encode_bytes(b"\xe2\x82", PLAIN), tokenizer.encode("\u{fffd}", PLAIN));
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn tiny_vocabularies_match_llama_cpp() {
    let golden = fixture::json("llamacpp-tiny.json");
    let files = golden["files"].as_object().unwrap();
    assert_eq!(files.len(), 7);
    for (file, rows) in files {
        let tokenizer = fixture::tiny(file.strip_suffix(".F32.gguf").unwrap());
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 20);
        check(file, rows, "ids", |text| tokenizer.encode(text, PLAIN));
        check(file, rows, "ids_special", |text| tokenizer.encode(text, PROMPT));
    }
}

#[test]
fn random_text_matches_the_families_own_tokenizers() {
    let golden = fixture::json("random.json");
    assert_eq!(golden.as_object().unwrap().len(), TINY.len() + REAL.len());
    for (name, tokenizer) in fixture::all() {
        let key = if TINY.contains(&name) { format!("vocab/{name}.gguf") } else { name.to_owned() };
        let rows = golden[key].as_array().unwrap();
        assert!(rows.len() >= 40, "{name}");
        check(name, rows, "ids", |text| tokenizer.encode(text, PLAIN));
    }
}

#[test]
fn pre_tokenizers_cut_where_their_patterns_do() {
    let golden = fixture::json("pretokenizers.json");
    let families = golden.as_object().unwrap();
    assert_eq!(families.len(), 10);
    for (name, cases) in families {
        let pre_tokenizer = PreTokenizer::new(name).unwrap();
        for case in cases.as_array().unwrap() {
            let expected: Vec<&str> = case.as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
            let text = expected.concat();
            let mut pieces = Vec::new();
            pre_tokenizer.split(&text, &mut |piece| pieces.push(piece));
            assert_eq!(pieces, expected, "{name}");
        }
    }
}
