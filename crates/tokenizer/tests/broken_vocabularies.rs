//! Vocabularies that contradict themselves: each is refused with an error that says what is wrong and where.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{ALL, Keys, PLAIN};
use zinc_gguf::Value;
use zinc_tokenizer::Error;

/// A small SentencePiece vocabulary: unknown, beginning, end, `▁`, `a`, `b`, `ab`, then all bytes.
fn sentencepiece() -> Keys {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab"].map(str::to_owned).into();
    let mut types = vec![2i32, 3, 3, 1, 1, 1, 1];
    for byte in 0..=255u8 {
        tokens.push(format!("<0x{byte:02X}>"));
        types.push(6);
    }
    let mut scores = vec![0.0f32; tokens.len()];
    scores[3..7].copy_from_slice(&[-4.0, -2.0, -3.0, -1.0]);
    Keys::default()
        .with("model", "llama")
        .with("tokens", tokens)
        .with("token_type", types)
        .with("scores", scores)
        .with("bos_token_id", 1u32)
        .with("eos_token_id", 2u32)
        .with("unknown_token_id", 0u32)
        .with("add_space_prefix", false)
}

/// A byte-pair vocabulary too small for most text.
fn byte_pair() -> Keys {
    Keys::default()
        .with("model", "gpt2")
        .with("pre", "gpt-2")
        .with("tokens", vec!["a", "b", "ab", "<|x|>"])
        .with("token_type", vec![1i32, 1, 1, 3])
        .with("merges", vec!["a b"])
}

#[test]
fn the_sound_ones_work() {
    let tokenizer = sentencepiece().tokenizer().unwrap();
    assert_eq!(tokenizer.encode("ab b\u{7}", PLAIN), [6, 3, 5, 7 + 7]);
    assert_eq!(byte_pair().tokenizer().unwrap().encode("abba?", PLAIN), [2, 1, 0]);
}

#[test]
fn missing_keys_are_named() {
    for key in ["model", "tokens", "scores", "bos_token_id"] {
        let error = sentencepiece().without(key).tokenizer().unwrap_err().to_string();
        assert!(error.contains(&format!("tokenizer.ggml.{key}")), "{error}");
    }
    for key in ["pre", "merges"] {
        let error = byte_pair().without(key).tokenizer().unwrap_err().to_string();
        assert!(error.contains(&format!("tokenizer.ggml.{key}")), "{error}");
    }
}

#[test]
fn keys_of_another_type_are_named() {
    for (key, value) in [
        ("model", Value::from(1u32)),
        ("tokens", Value::from("a b c")),
        ("tokens", Value::from(vec![1u32, 2])),
        ("token_type", Value::from(vec!["normal"])),
        ("scores", Value::from(vec!["0.5"])),
        ("bos_token_id", Value::from("1")),
        ("eot_token_id", Value::from(-1i32)),
        ("add_bos_token", Value::from(1u32)),
        ("add_space_prefix", Value::from("no")),
    ] {
        let error = sentencepiece().with(key, value).tokenizer().unwrap_err();
        assert!(matches!(error, Error::Gguf(_)), "{error}");
        assert!(error.to_string().contains(&format!("tokenizer.ggml.{key}")), "{error}");
    }
}

#[test]
fn unknown_kinds_are_named_with_those_that_are_known() {
    let error = sentencepiece().with("model", "bert").tokenizer().unwrap_err().to_string();
    assert_eq!(error, "tokenizer.ggml.model is \"bert\", which is not supported; known are gpt2, llama, gemma4");
    let error = byte_pair().with("pre", "gpt-9").tokenizer().unwrap_err().to_string();
    assert!(error.starts_with("tokenizer.ggml.pre is \"gpt-9\", which is not supported; known are "), "{error}");
    for name in ["gpt-2", "llama-bpe", "qwen35", "gpt-4o", "default"] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn lengths_must_agree() {
    let error = sentencepiece().with("scores", vec![0f32; 3]).tokenizer().unwrap_err();
    assert!(matches!(error, Error::ArrayLength { key: "tokenizer.ggml.scores", expected: 263, got: 3 }), "{error}");
    let error = sentencepiece().with("token_type", vec![1i32; 264]).tokenizer().unwrap_err();
    assert!(
        matches!(error, Error::ArrayLength { key: "tokenizer.ggml.token_type", expected: 263, got: 264 }),
        "{error}"
    );
    let error = byte_pair().with("tokens", Vec::<String>::new()).tokenizer().unwrap_err();
    assert!(matches!(error, Error::NoTokens), "{error}");
}

#[test]
fn ids_must_lie_in_the_vocabulary() {
    for key in ["bos", "eos", "eot", "eom", "unknown", "fim_pad", "fim_rep", "fim_sep"] {
        for id in [263, u32::MAX] {
            let error = sentencepiece().with(&format!("{key}_token_id"), id).tokenizer().unwrap_err();
            assert!(matches!(error, Error::TokenId { n_vocab: 263, .. }), "{error}");
            assert!(error.to_string().contains(&format!("tokenizer.ggml.{key}_token_id is {id}")), "{error}");
        }
    }
}

#[test]
fn a_text_occurs_once() {
    let error = byte_pair().with("tokens", vec!["a", "b", "ab", "b"]).tokenizer().unwrap_err();
    assert!(matches!(&error, Error::DuplicateToken { token, first: 1, second: 3 } if token == "b"), "{error}");
    // Places that are kept empty are no texts.
    let tokenizer =
        byte_pair().with("tokens", vec!["a", "b", "ab", "", ""]).with("token_type", vec![1i32; 5]).tokenizer();
    assert_eq!(tokenizer.unwrap().encode("ab", PLAIN), [2]);
}

#[test]
fn types_are_those_of_the_format() {
    for kind in [-1, 7, i32::MAX] {
        let error = byte_pair().with("token_type", vec![1, 1, kind, 3]).tokenizer().unwrap_err();
        assert!(matches!(&error, Error::TokenType { id: 2, token, got } if token == "ab" && *got == kind), "{error}");
    }
}

/// A number parser reads `-1` out of this, which was used as an index.
#[test]
fn byte_tokens_are_bytes() {
    for text in ["<0x-1>", "<0x100>", "<0xzz>", "<0x>", "byte"] {
        let error = byte_pair().with("tokens", vec!["a", "b", "ab", text]).with("token_type", vec![1, 1, 1, 6]);
        let error = error.tokenizer().unwrap_err();
        assert!(matches!(&error, Error::ByteToken { id: 3, token } if token == text), "{error}");
    }
    // As ordinary text it is text.
    let tokenizer =
        byte_pair().with("tokens", vec!["a", "b", "ab", "<0x-1>"]).with("token_type", vec![1, 1, 1, 4]).tokenizer();
    let tokenizer = tokenizer.unwrap();
    assert_eq!(tokenizer.decode(&tokenizer.encode("a<0x-1>", PLAIN), ALL), "a<0x-1>");
}

#[test]
fn merges_are_two_tokens_that_make_a_third() {
    for merge in ["", "a", "ab", "a ", " b"] {
        let error = byte_pair().with("merges", vec!["a b", merge]).tokenizer().unwrap_err();
        assert!(matches!(&error, Error::MergeForm { index: 1, merge: m } if m == merge), "{error}");
    }
    for (merge, token) in [("a c", "c"), ("x a", "x"), ("b a", "ba"), ("a b b", "b b")] {
        let error = byte_pair().with("merges", vec!["a b", merge]).tokenizer().unwrap_err();
        assert!(matches!(&error, Error::MergeToken { index: 1, missing, .. } if missing == token), "{error}");
    }
}

#[test]
fn scores_are_numbers() {
    let mut scores = vec![0f32; 263];
    scores[5] = f32::NAN;
    let error = sentencepiece().with("scores", scores.clone()).tokenizer().unwrap_err();
    assert!(matches!(&error, Error::Score { id: 5, token } if token == "b"), "{error}");
    scores[5] = f32::NEG_INFINITY;
    assert!(sentencepiece().with("scores", scores).tokenizer().is_ok());
}

#[test]
fn all_text_has_a_token() {
    let tokens = vec!["<unk>", "a", "<0x41>"];
    let keys =
        sentencepiece().with("tokens", tokens).with("token_type", vec![2i32, 1, 6]).with("scores", vec![0f32; 3]);
    let keys = keys.with("bos_token_id", 0u32).with("eos_token_id", 0u32);
    let tokenizer = keys.clone().tokenizer().unwrap();
    assert_eq!(tokenizer.encode("aAé", PLAIN), [1, 2, 0]);
    let error = keys.without("unknown_token_id").tokenizer().unwrap_err();
    assert!(matches!(error, Error::NoFallback { byte: 0 }), "{error}");
}

#[test]
fn added_tokens_have_a_limit() {
    let long = "x".repeat((2 << 20) + 1);
    let error = byte_pair().with("tokens", vec!["a", "b", "ab", &long]).tokenizer().unwrap_err();
    assert!(matches!(error, Error::Limit { got: 2_097_153, limit: 2_097_152, .. }), "{error}");
}
