//! Tensor tables that were built to break readers: each is refused with its own message, in bounded time and memory.

mod hostile;

use hostile::{F32, Q4_K, Raw, check};

#[test]
fn tensors() {
    check(&[
        (
            "no axes (CVE-2025-0312)",
            || Raw::new(1, 0).tensor("w", &[], F32, 0).data(64),
            r#"tensor "w" has 0 axes, expected 1 to 4"#,
        ),
        (
            "five axes (CVE-2024-21802)",
            || Raw::new(1, 0).tensor("w", &[1; 5], F32, 0).data(64),
            r#"tensor "w" has 5 axes, expected 1 to 4"#,
        ),
        (
            "four billion axes",
            || Raw::new(1, 0).string("w").u32(u32::MAX).data(64),
            r#"tensor "w" has 4294967295 axes, expected 1 to 4"#,
        ),
        (
            "an axis of length 0 (CVE-2025-0317)",
            || Raw::new(1, 0).tensor("w", &[256, 0], Q4_K, 0).data(64),
            r#"tensor "w" has shape [256, 0], expected no axis of length 0"#,
        ),
        (
            "axes whose product wraps to a small number (CVE-2024-21802)",
            || Raw::new(1, 0).tensor("w", &[1 << 32, 1 << 32, 4], F32, 0).data(64),
            r#"tensor "w" with shape [4294967296, 4294967296, 4] is too large to have a size"#,
        ),
        (
            "bytes that wrap although the elements fit (CVE-2026-33298)",
            || Raw::new(1, 0).tensor("w", &[1 << 62], F32, 0).data(64),
            r#"tensor "w" with shape [4611686018427387904] is too large to have a size"#,
        ),
        (
            "an exabyte in a small file (CVE-2026-33298)",
            || Raw::new(1, 0).tensor("w", &[1 << 58], F32, 0).data(4 << 20),
            "the file is cut short: it has 4194368 bytes, expected at least 1152921504606847040 (tensor \"w\" is incomplete)",
        ),
        (
            "a negative type (llama.cpp PR 19856)",
            || Raw::new(1, 0).tensor("w", &[32], u32::MAX, 0).data(64),
            r#"tensor "w" has type id 4294967295 (unknown), which is not supported"#,
        ),
        (
            "a type that others know",
            || Raw::new(1, 0).tensor("w", &[256], 16, 0).data(64),
            r#"tensor "w" has type id 16 (IQ2_XXS), which is not supported"#,
        ),
        (
            "a type that was withdrawn and has no size",
            || Raw::new(1, 0).tensor("w", &[32], 4, 0).data(64),
            r#"tensor "w" has type id 4 (Q4_2, withdrawn), which is not supported"#,
        ),
        (
            "a row that is not whole blocks",
            || Raw::new(1, 0).tensor("w", &[128, 2], Q4_K, 0).data(144),
            r#"tensor "w" has rows of 128, expected a multiple of 256 for Q4_K"#,
        ),
        (
            "a tensor twice",
            || Raw::new(2, 0).tensor("w", &[8], F32, 0).tensor("w", &[8], F32, 32).data(64),
            r#"tensor "w" occurs twice"#,
        ),
        (
            "a table longer than the file",
            || Raw::new(1, 0).string("a tensor that ends early").u32(4).u64(1),
            "the table entry of tensor \"a tensor that ends early\" needs 8 bytes at offset 68, but 0 are left in the file",
        ),
    ]);
}

#[test]
fn offsets() {
    check(&[
        (
            "an offset off the alignment",
            || Raw::new(1, 0).tensor("w", &[8], F32, 4).data(64),
            r#"tensor "w" is at data offset 4, expected a multiple of 32"#,
        ),
        (
            "an offset beyond the file (CVE-2026-7482)",
            || Raw::new(1, 0).tensor("w", &[8], F32, 1 << 20).data(64),
            "the file is cut short: it has 128 bytes, expected at least 1048672 (tensor \"w\" is incomplete)",
        ),
        (
            "an offset inside and an end outside the file (CVE-2026-7482)",
            || Raw::new(1, 0).tensor("w", &[24], F32, 32).data(64),
            "the file is cut short: it has 128 bytes, expected at least 192 (tensor \"w\" is incomplete)",
        ),
        (
            "an offset that wraps when the data's start is added",
            || Raw::new(1, 0).tensor("w", &[8], F32, u64::MAX - 31).data(64),
            r#"tensor "w" ends beyond any possible file: the tensors add up to too many bytes"#,
        ),
        (
            "sizes that fit alone and overflow together (CVE-2025-53630)",
            || {
                let half = [1 << 60];
                Raw::new(2, 0).tensor("a", &half, F32, 0).tensor("b", &half, F32, 1 << 62).data(64)
            },
            r#"tensor "b" ends beyond any possible file: the tensors add up to too many bytes"#,
        ),
        (
            "a size whose padding overflows (CVE-2026-27940)",
            || Raw::new(1, 0).tensor("w", &[(1 << 61) - 1], F32, 0).data(64),
            r#"tensor "w" ends beyond any possible file: the tensors add up to too many bytes"#,
        ),
        (
            "two tensors in one place",
            || Raw::new(2, 0).tensor("a", &[8], F32, 0).tensor("b", &[8], F32, 0).data(64),
            r#"tensors "a" and "b" overlap: the second begins at byte 96, expected 128 or later"#,
        ),
        (
            "a tensor that begins inside a later one of the table",
            || Raw::new(2, 0).tensor("b", &[8], F32, 32).tensor("a", &[16], F32, 0).data(96),
            r#"tensors "a" and "b" overlap: the second begins at byte 128, expected 160 or later"#,
        ),
    ]);
}
