//! Encodes and decodes arbitrary text and ids with small vocabularies, and makes tokenizers from arbitrary vocabularies.
//! What is checked: nothing panics, ids lie in the vocabulary, text comes back, users' text spells no control token.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use zinc_gguf::{Gguf, Value, Writer};
use zinc_tokenizer::{DecodeOptions, Encode, Part, TokenKind, Tokenizer};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    vocabulary: Vocabulary<'a>,
    parts: Vec<(&'a str, bool)>,
    bytes: &'a [u8],
    ids: Vec<u16>,
    options: [bool; 4],
}

#[derive(Arbitrary, Debug)]
enum Vocabulary<'a> {
    Known(u8),
    Made(Made<'a>),
}

#[derive(Arbitrary, Debug)]
struct Made<'a> {
    model: u8,
    pre: u8,
    all_bytes: bool,
    adds_bos: bool,
    tokens: Vec<(&'a str, i8, f32)>,
    merges: Vec<(u8, u8)>,
    more_merges: Vec<&'a str>,
    keys: Vec<(u8, u16)>,
}

static KNOWN: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let files: [&[u8]; 5] = [
        include_bytes!("../../fixtures/tokenizer/vocab/gemma3-a.gguf"),
        include_bytes!("../../fixtures/tokenizer/vocab/gemma3-a-prefix.gguf"),
        include_bytes!("../../fixtures/tokenizer/vocab/gemma4-a.gguf"),
        include_bytes!("../../fixtures/tokenizer/vocab/llama3-a.gguf"),
        include_bytes!("../../fixtures/tokenizer/vocab/qwen35-a.gguf"),
    ];
    let tokenizer = |file: &&[u8]| {
        let gguf = Gguf::from_bytes(file.to_vec()).expect("a fixture is a GGUF file");
        Tokenizer::from_gguf(&gguf).expect("a fixture has a vocabulary")
    };
    files.iter().map(tokenizer).collect()
});

fuzz_target!(|input: Input<'_>| {
    match &input.vocabulary {
        Vocabulary::Known(index) => {
            let tokenizer = &KNOWN[usize::from(*index) % KNOWN.len()];
            use_it(tokenizer, &input);
            comes_back(tokenizer, &input);
        }
        Vocabulary::Made(made) => {
            if let Some(tokenizer) = make(made) {
                use_it(&tokenizer, &input);
            }
        }
    }
});

/// What holds for every tokenizer.
fn use_it(tokenizer: &Tokenizer, input: &Input<'_>) {
    let [add_special, parse_special, render_special, continues] = input.options;
    let options = DecodeOptions { render_special, continues };
    let mut ids: Vec<u32> = input.ids.iter().map(|&id| id.into()).collect();
    ids.extend(tokenizer.encode_bytes(input.bytes, Encode { add_special, parse_special }));
    let mut stream = tokenizer.decode_stream(options);
    let mut text = String::new();
    for &id in &ids {
        text.extend(stream.push(id));
    }
    text.extend(stream.finish());
    assert_eq!(text, tokenizer.decode(&ids, options));

    let parts: Vec<Part<'_>> = input.parts.iter().map(|&(text, trusted)| Part { text, trusted }).collect();
    let whole: String = input.parts.iter().map(|(text, _)| *text).collect();
    let in_vocabulary = |ids: &[u32]| ids.iter().all(|&id| id < tokenizer.n_vocab());
    assert!(in_vocabulary(&tokenizer.encode_parts(&parts)));
    let plain = tokenizer.encode(&whole, Encode { add_special: false, parse_special: false });
    assert!(in_vocabulary(&plain));
    assert!(plain.iter().all(|&id| tokenizer.kind(id) != Some(TokenKind::Control)));
    let untrusted: Vec<Part<'_>> = input.parts.iter().map(|&(text, _)| Part { text, trusted: false }).collect();
    assert_eq!(tokenizer.encode_parts(&untrusted), plain);
    let trusted: Vec<Part<'_>> = input.parts.iter().map(|&(text, _)| Part { text, trusted: true }).collect();
    let special = tokenizer.encode(&whole, Encode { add_special: false, parse_special: true });
    assert_eq!(tokenizer.encode_parts(&trusted), special);
}

/// The known vocabularies lose nothing.
fn comes_back(tokenizer: &Tokenizer, input: &Input<'_>) {
    let bytes_are_spelled = tokenizer.token_to_id("<0x00>").is_none();
    for (text, _) in &input.parts {
        if bytes_are_spelled || !text.contains('▁') {
            let ids = tokenizer.encode(text, Encode { add_special: false, parse_special: false });
            let all = DecodeOptions { render_special: true, continues: false };
            assert_eq!(tokenizer.decode(&ids, all), *text);
        }
    }
}

fn make(made: &Made<'_>) -> Option<Tokenizer> {
    const MODELS: [&str; 4] = ["gpt2", "llama", "gemma4", "bert"];
    const PRES: [&str; 6] = ["gpt-2", "default", "llama-bpe", "gpt-4o", "deepseek-v3", "none"];
    const KEYS: [&str; 6] = ["bos", "eos", "eot", "eom", "unknown", "fim_pad"];
    let mut tokens: Vec<String> = made.tokens.iter().map(|(text, _, _)| (*text).to_owned()).collect();
    let mut types: Vec<i32> = made.tokens.iter().map(|&(_, kind, _)| i32::from(kind).rem_euclid(8)).collect();
    let mut scores: Vec<f32> = made.tokens.iter().map(|&(_, _, score)| score).collect();
    if made.all_bytes {
        tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
        types.resize(tokens.len(), 6);
        scores.resize(tokens.len(), 0.0);
    }
    let token = |index: u8| tokens.get(usize::from(index)).map_or("", String::as_str);
    let mut merges: Vec<String> =
        made.merges.iter().map(|&(left, right)| format!("{} {}", token(left), token(right))).collect();
    merges.extend(made.more_merges.iter().map(|merge| (*merge).to_owned()));
    let mut writer = Writer::new();
    let mut key = |key: &str, value: Value| {
        writer.metadata(format!("tokenizer.ggml.{key}"), value);
    };
    key("model", MODELS[usize::from(made.model) % MODELS.len()].into());
    key("pre", PRES[usize::from(made.pre) % PRES.len()].into());
    key("tokens", tokens.into());
    key("token_type", types.into());
    key("scores", scores.into());
    key("merges", merges.into());
    key("add_bos_token", made.adds_bos.into());
    for &(name, id) in &made.keys {
        key(&format!("{}_token_id", KEYS[usize::from(name) % KEYS.len()]), u32::from(id).into());
    }
    // The same key twice is no file.
    let bytes = writer.to_bytes().ok()?;
    let gguf = Gguf::from_bytes(bytes).expect("what was written can be read");
    Tokenizer::from_gguf(&gguf).ok()
}
