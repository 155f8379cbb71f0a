//! Headers that were built to break readers: each is refused with its own message, in bounded time and memory.
//!
//! The rows cover the published weaknesses of other GGUF readers, named where there is a name, and each rule of this
//! one. A message is compared whole, so that it keeps naming the field and the numbers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers included")]

mod hostile;

use hostile::{F32, Q4_K, Raw, check, kind, peak_bytes, refuse};
use zinc_gguf::Gguf;

#[test]
fn start_of_file() {
    check(&[
        ("an empty file", || Raw(vec![]), "the file is empty, expected a GGUF file"),
        (
            "three bytes (CVE-2024-39720)",
            || Raw(b"GGU".to_vec()),
            r#"not a GGUF file: it begins with "GGU", expected "GGUF""#,
        ),
        (
            "another format",
            || Raw(b"PK\x03\x04 and so on, for longer than a header".to_vec()),
            r#"not a GGUF file: it begins with "PK\x03\x04", expected "GGUF""#,
        ),
        (
            "the magic alone (CVE-2024-39720)",
            || Raw(b"GGUF".to_vec()),
            "the version needs 4 bytes at offset 4, but 0 are left in the file",
        ),
        (
            "version 1",
            || Raw(b"GGUF".to_vec()).u32(1).u64(0).u64(0),
            "GGUF version 1 is not supported, expected 2 or 3",
        ),
        (
            "version 4",
            || Raw(b"GGUF".to_vec()).u32(4).u64(0).u64(0),
            "GGUF version 4 is not supported, expected 2 or 3",
        ),
        (
            "big-endian",
            || Raw(b"GGUF\0\0\0\x03".to_vec()).u64(0).u64(0),
            "the file is big-endian (version 3), expected little-endian",
        ),
        (
            "no counts (CVE-2024-32878, CVE-2024-41130)",
            || Raw(b"GGUF".to_vec()).u32(3).u32(0),
            "the number of tensors needs 8 bytes at offset 8, but 4 are left in the file",
        ),
    ]);
}

#[test]
fn counts() {
    check(&[
        (
            "tensor count times record size wraps (CVE-2024-21836)",
            || Raw::new(u64::MAX / 32, 0),
            "the number of tensors is 576460752303423487, the limit is 262144",
        ),
        (
            "a tensor count that an int takes for negative",
            || Raw::new(u64::MAX, 0),
            "the number of tensors is 18446744073709551615, the limit is 262144",
        ),
        (
            "more tensors than bytes (CVE-2025-0315)",
            || Raw::new(200_000, 0).data(1000),
            "the number of tensors needs 6600000 bytes at offset 24, but 1008 are left in the file",
        ),
        (
            "key count times record size wraps (CVE-2024-23605)",
            || Raw::new(0, u64::MAX / 16),
            "the number of metadata keys is 1152921504606846975, the limit is 65536",
        ),
        (
            "more keys than bytes",
            || Raw::new(0, 60_000).data(1000),
            "the number of metadata keys needs 840000 bytes at offset 24, but 1008 are left in the file",
        ),
    ]);
}

#[test]
fn strings() {
    check(&[
        (
            "key length plus one wraps (CVE-2024-23496)",
            || Raw::new(0, 1).u64(u64::MAX).data(64),
            "the name of metadata key 0 needs 18446744073709551615 bytes at offset 32, but 64 are left in the file",
        ),
        (
            "string value longer than the file (llama.cpp PR 19856)",
            || Raw::new(0, 1).key("a.b", kind::STRING).u64(1 << 40).data(64),
            r#"the value of metadata key "a.b" needs 1099511627776 bytes at offset 47, but 81 are left in the file"#,
        ),
        (
            "string value with a negative length (CVE-2025-66960)",
            || Raw::new(0, 1).key("a.b", kind::STRING).u64(i64::MIN.cast_unsigned()).data(64),
            r#"the value of metadata key "a.b" needs 9223372036854775808 bytes at offset 47, but 81 are left in the file"#,
        ),
        (
            "a token longer than the file, in 32 bits negative (CVE-2025-49847)",
            || Raw::new(0, 1).key("tokens", kind::ARRAY).array(kind::STRING, 2).string("x").u64(0xffff_fff0).data(64),
            r#"the value of metadata key "tokens" needs 4294967280 bytes at offset 71, but 89 are left in the file"#,
        ),
        (
            "tensor name length wraps",
            || Raw::new(1, 0).u64(u64::MAX - 7).data(64),
            "the name of tensor 0 needs 18446744073709551608 bytes at offset 32, but 64 are left in the file",
        ),
        (
            "a key of 64 KiB",
            || Raw::new(0, 1).key(vec![b'k'; 1 << 16], kind::U8).bytes(&[1]),
            "the length of the name of metadata key 0 is 65536, the limit is 65535",
        ),
        (
            "a tensor name of 300 bytes",
            || Raw::new(1, 0).tensor(vec![b't'; 300], &[1], F32, 0).data(4),
            "the length of the name of tensor 0 is 300, the limit is 256",
        ),
        (
            "an empty key",
            || Raw::new(0, 1).key("", kind::U32).u32(1),
            "the name of metadata key 0 is empty, expected a name",
        ),
        (
            "an empty tensor name",
            || Raw::new(1, 0).tensor("", &[1], F32, 0).data(4),
            "the name of tensor 0 is empty, expected a name",
        ),
        (
            "a key that is not text",
            || Raw::new(0, 1).key(b"a\xff", kind::U8).bytes(&[1]),
            "the name of metadata key 0 is not valid UTF-8",
        ),
        (
            "a tensor name that is not text",
            || Raw::new(1, 0).tensor(b"\xc3\x28", &[1], F32, 0).data(4),
            "the name of tensor 0 is not valid UTF-8",
        ),
    ]);
}

#[test]
fn values() {
    check(&[
        (
            "array count times element size wraps",
            || Raw::new(0, 1).key("a", kind::ARRAY).array(kind::F64, 1 << 61).data(64),
            r#"the value of metadata key "a" needs 18446744073709551615 bytes at offset 49, but 79 are left in the file"#,
        ),
        (
            "string array count times string size wraps (CVE-2024-21825)",
            || Raw::new(0, 1).key("tokenizer.ggml.tokens", kind::ARRAY).array(kind::STRING, u64::MAX / 8 + 2).data(64),
            "the value of metadata key \"tokenizer.ggml.tokens\" needs 18446744073709551615 bytes at offset 69, \
             but 91 are left in the file",
        ),
        (
            "a token count over 31 bits (CVE-2025-52566)",
            || Raw::new(0, 1).key("tokenizer.ggml.tokens", kind::ARRAY).array(kind::STRING, 1 << 31).data(64),
            "the value of metadata key \"tokenizer.ggml.tokens\" needs 17179869184 bytes at offset 69, \
             but 91 are left in the file",
        ),
        (
            "array longer than the file (llama.cpp PR 19856)",
            || Raw::new(0, 1).key("a", kind::ARRAY).array(kind::U8, 1 << 33).data(64),
            r#"the value of metadata key "a" needs 8589934592 bytes at offset 49, but 79 are left in the file"#,
        ),
        (
            "an unknown value type",
            || Raw::new(0, 1).key("a", 13).u64(0),
            r#"metadata key "a" has value type 13, expected 0 to 12"#,
        ),
        (
            "an unknown element type",
            || Raw::new(0, 1).key("a", kind::ARRAY).array(u32::MAX, 1).u64(0),
            r#"metadata key "a" has value type 4294967295, expected 0 to 12"#,
        ),
        (
            "a boolean of 2",
            || Raw::new(0, 1).key("a", kind::BOOL).bytes(&[2]),
            r#"metadata key "a" holds a boolean 2, expected 0 or 1"#,
        ),
        (
            "a boolean of 255 in an array",
            || Raw::new(0, 1).key("a", kind::ARRAY).array(kind::BOOL, 3).bytes(&[0, 1, 255]),
            r#"metadata key "a" holds a boolean 255, expected 0 or 1"#,
        ),
        (
            "arrays nested without end",
            || (0..10_000).fold(Raw::new(0, 1).key("a", kind::ARRAY), |raw, _| raw.array(kind::ARRAY, 1)),
            r#"metadata key "a" nests arrays deeper than 4"#,
        ),
        (
            "a million arrays in an array",
            || {
                (0..1 << 20).fold(Raw::new(0, 1).key("a", kind::ARRAY).array(kind::ARRAY, 1 << 20), |raw, _| {
                    raw.array(kind::U8, 0)
                })
            },
            r#"the number of arrays inside arrays up to metadata key "a" is 1048576, the limit is 65536"#,
        ),
        (
            "a key twice (llama.cpp PR 19856)",
            || Raw::new(0, 3).key("a", kind::U32).u32(1).key("b", kind::U32).u32(2).key("a", kind::U32).u32(3),
            r#"metadata key "a" occurs twice"#,
        ),
        (
            "a name with terminal control sequences",
            || Raw::new(0, 2).key("\x1b[2J", kind::U32).u32(1).key("\x1b[2J", kind::U32).u32(2),
            r#"metadata key "\u{1b}[2J" occurs twice"#,
        ),
    ]);
}

#[test]
fn alignments() {
    fn aligned(alignment: u32) -> Raw {
        Raw::new(1, 1).key("general.alignment", kind::U32).u32(alignment).tensor("w", &[8], F32, 0).data(4096)
    }
    check(&[
        (
            "alignment 0 (llama.cpp PR 19856)",
            || aligned(0),
            "general.alignment is 0, expected a power of two from 8 to 1048576",
        ),
        ("alignment 1", || aligned(1), "general.alignment is 1, expected a power of two from 8 to 1048576"),
        (
            "alignment 48 (llama.cpp PR 19856)",
            || aligned(48),
            "general.alignment is 48, expected a power of two from 8 to 1048576",
        ),
        (
            "alignment 2^31",
            || aligned(1 << 31),
            "general.alignment is 2147483648, expected a power of two from 8 to 1048576",
        ),
        (
            "an alignment that is text",
            || Raw::new(0, 1).key("general.alignment", kind::STRING).string("32"),
            r#"metadata key "general.alignment" is of type string, expected u32"#,
        ),
    ]);
}

#[test]
fn split_in_memory() {
    check(&[(
        "one part of three without its name",
        || Raw::new(0, 2).key("split.count", kind::U32).u32(3).key("split.no", kind::U32).u32(1),
        "this is part 2 of a model split in 3, expected a file name that ends in -00002-of-00003.gguf",
    )]);
}

/// A vocabulary entry that looks like a byte token (LM Studio issue 2289) is text here: what it means is the
/// tokenizer's to check.
#[test]
fn odd_tokens_are_text() {
    let raw =
        Raw::new(0, 1).key("tokenizer.ggml.tokens", kind::ARRAY).array(kind::STRING, 2).string("<0x-1>").string("");
    let file = Gguf::from_bytes(raw.0).unwrap();
    assert_eq!(file.metadata().strings("tokenizer.ggml.tokens").unwrap().unwrap(), ["<0x-1>", ""]);
}

/// Every length of a valid file but the whole is refused.
#[test]
fn every_truncation() {
    let raw = Raw::new(2, 2)
        .key("a.string", kind::STRING)
        .string("text")
        .key("an.array", kind::ARRAY)
        .array(kind::STRING, 2)
        .string("one")
        .string("two")
        .tensor("first", &[8, 2], F32, 0)
        .tensor("second", &[256], Q4_K, 64)
        .data(64 + 144);
    assert_eq!(Gguf::from_bytes(raw.0.clone()).unwrap().tensors().len(), 2);
    for len in 0..raw.0.len() {
        let cut = raw.0[..len].to_vec();
        assert!(refuse(&format!("the first {len} bytes"), cut).len() > 10);
    }
}

/// The smallest records that are valid, in number: what is kept for each is bounded too.
#[test]
fn tables_of_many_small_records() {
    const N: u32 = 60_000;
    let keys = (0..N).fold(Raw::new(0, N.into()), |raw, i| raw.key(format!("{i:x}"), kind::U8).bytes(&[1]));
    let tensors =
        (0..N).fold(Raw::new(N.into(), 0), |raw, i| raw.tensor(format!("{i:x}"), &[8], F32, u64::from(i) * 32));
    for file in [keys.0, tensors.data(32 * N as usize).0] {
        let (result, peak) = peak_bytes(|| Gguf::from_bytes(file));
        result.unwrap();
        assert!(peak < 1024 * N as usize, "{peak} bytes for {N} records");
    }
}
