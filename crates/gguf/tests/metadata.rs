//! Typed look-ups, and what the writer refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

use zinc_gguf::{Array, DType, Error, Gguf, Metadata, Strings, Value, Writer};

#[test]
fn integers_of_any_width_convert_when_they_fit() {
    let values: [(Value, [Option<i64>; 3]); 11] = [
        // as u32, u64, i32
        (Value::U8(255), [Some(255); 3]),
        (Value::I8(-1), [None, None, Some(-1)]),
        (Value::U16(65_535), [Some(65_535); 3]),
        (Value::I16(7), [Some(7); 3]),
        (Value::U32(1 << 31), [Some(1 << 31), Some(1 << 31), None]),
        (Value::I32(i32::MIN), [None, None, Some(i32::MIN as i64)]),
        (Value::U64(1 << 32), [None, Some(1 << 32), None]),
        (Value::U64(1 << 31), [Some(1 << 31), Some(1 << 31), None]),
        (Value::I64(-5), [None, None, Some(-5)]),
        (Value::I64(1 << 40), [None, Some(1 << 40), None]),
        (Value::I64(3), [Some(3); 3]),
    ];
    for (value, expected) in values {
        let metadata = metadata([("k", value.clone())]);
        let got = [
            metadata.u32("k").map(|n| i64::from(n.unwrap())),
            metadata.u64("k").map(|n| n.unwrap().try_into().unwrap()),
            metadata.i32("k").map(|n| i64::from(n.unwrap())),
        ];
        for (got, expected) in got.into_iter().zip(expected) {
            match (got, expected) {
                (Ok(got), Some(expected)) => assert_eq!(got, expected, "{value:?}"),
                (Err(Error::OutOfRange { key, .. }), None) => assert_eq!(key, "k"),
                (got, expected) => panic!("{value:?}: got {got:?}, expected {expected:?}"),
            }
        }
    }
}

#[test]
fn arrays_of_integers_convert_when_all_fit() {
    let metadata = metadata([
        ("small", Value::from(vec![1u8, 2])),
        ("large", Value::from(vec![1u64, 1 << 33])),
        ("negative", Value::from(vec![-1i16])),
        ("floats", Value::from(vec![1.0f32])),
        ("empty", Value::from(Vec::<u32>::new())),
    ]);
    assert_eq!(metadata.require_u32s("small").unwrap(), [1, 2]);
    assert_eq!(metadata.require_i32s("negative").unwrap(), [-1]);
    assert_eq!(metadata.require_u64s("large").unwrap(), [1, 1 << 33]);
    assert!(metadata.require_i32s("empty").unwrap().is_empty());
    let message = |result: Result<Vec<u32>, Error>| result.unwrap_err().to_string();
    assert_eq!(
        message(metadata.require_u32s("large")),
        r#"metadata key "large" is 8589934592, which does not fit u32"#
    );
    assert_eq!(message(metadata.require_u32s("negative")), r#"metadata key "negative" is -1, which does not fit u32"#);
    let expected = r#"metadata key "floats" is of type array of f32, expected array of u32"#;
    assert_eq!(message(metadata.require_u32s("floats")), expected);
}

#[test]
fn absent_keys_and_other_types() {
    let metadata = metadata([("text", Value::from("x")), ("n", Value::from(1u32)), ("list", Value::from(vec![1u32]))]);
    assert_eq!(metadata.u32("absent").unwrap(), None);
    assert_eq!(metadata.array_len("absent").unwrap(), None);
    assert_eq!(metadata.array_len("list").unwrap(), Some(1));
    assert!(matches!(metadata.require_str("absent"), Err(Error::MissingKey { key }) if key == "absent"));
    let errors = [
        metadata.u32("text").map(drop),
        metadata.f32("n").map(drop),
        metadata.bool("n").map(drop),
        metadata.str("n").map(drop),
        metadata.array("n").map(drop),
        metadata.f32s("list").map(drop),
        metadata.bools("list").map(drop),
        metadata.strings("list").map(drop),
        metadata.strings("text").map(drop),
        metadata.u32s("n").map(drop),
        metadata.array_len("n").map(drop),
    ];
    for (i, error) in errors.into_iter().enumerate() {
        assert!(matches!(error, Err(Error::WrongType { .. })), "{i}: {error:?}");
    }
}

#[test]
fn doubles_are_rounded_but_never_to_infinity() {
    let metadata = metadata([
        ("tenth", Value::from(0.1f64)),
        ("huge", Value::from(1e39f64)),
        ("infinite", Value::from(f64::INFINITY)),
        ("list", Value::from(vec![0.5f64, 1e-50])),
    ]);
    assert_eq!(metadata.require_f32("tenth").unwrap(), 0.1);
    assert_eq!(metadata.require_f32("infinite").unwrap(), f32::INFINITY);
    assert!(matches!(metadata.f32("huge"), Err(Error::OutOfRange { .. })));
    assert_eq!(metadata.require_f32s("list").unwrap(), [0.5, 0.0]);
}

#[test]
fn strings_that_are_not_text_are_kept() {
    let tokens: Strings = [&b"ok"[..], b"\xff\xfe", b"\xe4\xb8"].into_iter().collect();
    let metadata = metadata([("tokens", Value::from(tokens)), ("name", Value::Bytes(b"caf\xe9".to_vec()))]);
    assert_eq!(metadata.require_byte_strings("tokens").unwrap(), [&b"ok"[..], b"\xff\xfe", b"\xe4\xb8"]);
    assert_eq!(metadata.require_bytes("name").unwrap(), b"caf\xe9");
    let error = metadata.strings("tokens").unwrap_err().to_string();
    assert_eq!(error, r#"element 1 of metadata key "tokens" is not valid UTF-8"#);
    let error = metadata.str("name").unwrap_err().to_string();
    assert_eq!(error, r#"metadata key "name" is not valid UTF-8"#);
}

#[test]
fn arrays_in_arrays() {
    let inner = Array::Array(vec![Array::U8(vec![1]), Array::String(["a", ""].into_iter().collect())]);
    let value = Value::Array(Array::Array(vec![inner, Array::F64(vec![0.5])]));
    assert_eq!(metadata([("k", value.clone())]).get("k"), Some(&value));
}

#[test]
fn a_quarter_million_tokens() {
    let tokens: Vec<String> = (0..250_000).map(|i| format!("token {i}")).collect();
    let metadata = metadata([("tokens", Value::from(tokens.clone())), ("after", Value::from(7u32))]);
    assert_eq!(metadata.require_strings("tokens").unwrap(), tokens);
    assert_eq!(metadata.require_u32("after").unwrap(), 7);
}

#[test]
fn what_the_writer_refuses() {
    check_refusal(|w| w.version(1), "GGUF version 1 is not supported, expected 2 or 3");
    check_refusal(|w| w.alignment(24), "general.alignment is 24, expected a power of two from 8 to 1048576");
    check_refusal(|w| w.metadata("k", 1u32).metadata("k", 2u32), r#"metadata key "k" occurs twice"#);
    check_refusal(|w| w.metadata("", 1u32), "a metadata key is empty, expected a name");
    let long = "k".repeat(1 << 16);
    check_refusal(|w| w.metadata(&long, 1u32), "the length of a metadata key is 65536, the limit is 65535");

    let rows: [(&str, &[u64], DType, usize, &str); 7] = [
        ("w", &[2], DType::F32, 8, r#"tensor "w" occurs twice"#),
        ("v", &[2], DType::F32, 7, r#"tensor "v" was given 7 bytes, expected 8"#),
        ("v", &[], DType::F32, 0, r#"tensor "v" has 0 axes, expected 1 to 4"#),
        ("v", &[1; 5], DType::F32, 4, r#"tensor "v" has 5 axes, expected 1 to 4"#),
        ("v", &[0], DType::F32, 0, r#"tensor "v" has shape [0], expected no axis of length 0"#),
        ("v", &[33], DType::Q8_0, 34, r#"tensor "v" has rows of 33, expected a multiple of 32 for Q8_0"#),
        (
            "v",
            &[1 << 40; 2],
            DType::F32,
            0,
            "tensor \"v\" with shape [1099511627776, 1099511627776] is too large to have a size",
        ),
    ];
    for (name, shape, dtype, n_bytes, expected) in rows {
        check_refusal(|w| w.tensor(name, shape, dtype, vec![0; n_bytes]), expected);
    }
}

/// Expects this message of a writer that has one good tensor and this change.
fn check_refusal(change: impl Fn(&mut Writer) -> &mut Writer, expected: &str) {
    let mut writer = Writer::new();
    writer.tensor("w", &[2], DType::F32, vec![0; 8]);
    assert_eq!(change(&mut writer).to_bytes().expect_err(expected).to_string(), expected);
}

/// A disk that fills up while the file is written.
#[test]
fn a_write_that_fails() {
    let mut writer = Writer::new();
    writer.tensor("w", &[64], DType::F32, vec![0; 256]);
    let mut small = [0; 128];
    let error = writer.write(&mut small.as_mut_slice()).unwrap_err();
    assert!(matches!(error, Error::Io { action: "write the file", .. }), "{error}");
}

/// The pairs written to a file and read back.
fn metadata<const N: usize>(pairs: [(&str, Value); N]) -> Metadata {
    let mut writer = Writer::new();
    for (key, value) in pairs {
        writer.metadata(key, value);
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap().metadata().clone()
}
