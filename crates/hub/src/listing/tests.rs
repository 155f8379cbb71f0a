//! Lists as the hub writes them, and what is chosen from them.

use super::{Answer, choose, models, quantisation};
use crate::reference::HubReference;
use crate::{Error, Sha256Sum};

const SUM: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn listing(names: &[&str]) -> String {
    let file = |name: &&str| {
        format!(r#"{{"rfilename":"{name}","size":7,"blobId":"x","lfs":{{"sha256":"{SUM}","size":7,"pointerSize":1}}}}"#)
    };
    let readme = r#"{"rfilename":"README.md","size":3}"#.to_owned();
    let files: Vec<String> = std::iter::once(readme).chain(names.iter().map(file)).collect();
    let commit = "0123456789".repeat(4);
    format!(r#"{{"id":"a/b","sha":"{commit}","gated":false,"siblings":[{}]}}"#, files.join(","))
}

/// The paths that are chosen for `wanted`, or the error's text.
fn chosen(names: &[&str], wanted: &str) -> Result<Vec<String>, String> {
    let reference = HubReference::parse(&format!("a/b{wanted}")).unwrap().unwrap();
    let found = choose(&reference, listing(names).as_bytes()).map_err(|error| error.to_string())?;
    assert_eq!(found.revision, "0123456789".repeat(4), "the commit, not the branch");
    assert!(found.files.iter().all(|file| file.sha256 == Sha256Sum::parse(SUM) && file.size_bytes == 7));
    Ok(found.files.into_iter().map(|file| file.path).collect())
}

#[test]
fn a_quantisation_is_the_end_of_a_name() {
    let cases = [
        ("Qwen3-4B-Q4_K_M", Some("Q4_K_M")),
        ("Qwen3.5-35B-A3B-UD-Q4_K_XL", Some("UD-Q4_K_XL")),
        ("SmolLM2-135M-Instruct.Q4_1", Some("Q4_1")),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", Some("q4_k_m")),
        ("model-IQ2_XXS", Some("IQ2_XXS")),
        ("gpt-oss-20b-mxfp4", Some("mxfp4")),
        ("gemma-BF16", Some("BF16")),
        ("Q8_0", Some("Q8_0")),
        ("model", None),
        ("model-Q4_K_M-chat", None),
        ("model-Quiet", None),
    ];
    for (name, label) in cases {
        assert_eq!(quantisation(name), label, "{name}");
    }
}

#[test]
fn the_model_that_was_meant_is_chosen() {
    let several = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-UD-Q4_K_M.gguf", "m-UD-Q2_K_XL.gguf", "mmproj-F16.gguf"];
    let one = |name: &str| Ok(vec![name.to_owned()]);
    assert_eq!(chosen(&several, ":Q4_K_M"), one("m-Q4_K_M.gguf"));
    assert_eq!(chosen(&several, ":q8_0"), one("m-Q8_0.gguf"));
    assert_eq!(chosen(&several, ":UD-Q4_K_M"), one("m-UD-Q4_K_M.gguf"));
    assert_eq!(chosen(&several, ":Q2_K_XL"), one("m-UD-Q2_K_XL.gguf"), "the makers' own mix has only that");
    assert_eq!(chosen(&several, ":m-Q8_0.gguf"), one("m-Q8_0.gguf"));
    assert_eq!(chosen(&several, ""), one("m-Q4_K_M.gguf"), "the usual one");
    assert_eq!(chosen(&["only.gguf"], ""), one("only.gguf"));
    let refused = chosen(&several, ":Q5_K_M").unwrap_err();
    assert_eq!(refused, "a/b has no model \"Q5_K_M\"; it has Q4_K_M, Q8_0, UD-Q2_K_XL, UD-Q4_K_M");
    let refused = chosen(&["m-Q3_K_S.gguf", "m-Q8_0.gguf"], "").unwrap_err();
    assert_eq!(refused, "a/b has several models; name one, as in a/b:Q3_K_S; it has Q3_K_S, Q8_0");
    assert_eq!(chosen(&[], "").map_err(|e| e.contains("no GGUF files")), Err(true));
}

#[test]
fn the_parts_of_a_split_model_come_whole_and_in_order() {
    let at = |part: u32, n: u32| format!("BF16/m-BF16-{part:05}-of-{n:05}.gguf");
    let (first, second) = (at(1, 2), at(2, 2));
    let chosen_parts = chosen(&[&second, "m-Q4_K_M.gguf", &first], ":BF16").unwrap();
    assert_eq!(chosen_parts, [first.clone(), second.clone()]);
    for broken in [vec![&second], vec![&first], vec![&first, &first], vec![&first, &at(2, 3)]] {
        let names: Vec<&str> = broken.into_iter().map(String::as_str).collect();
        assert!(chosen(&names, ":BF16").is_err_and(|text| text.contains("parts of the model")), "{names:?}");
    }
}

#[test]
fn odd_names_and_lists_are_refused() {
    for name in [
        "../m-Q8_0.gguf",
        "a b/m-Q8_0.gguf",
        "/m-Q8_0.gguf",
        ".git/m-Q8_0.gguf",
        "m\u{202e}-Q8_0.gguf",
        "a//m-Q8_0.gguf",
    ] {
        let refused = chosen(&[name], ":Q8_0").unwrap_err();
        assert!(refused.contains("too odd"), "{name:?}: {refused}");
    }
    let reference = HubReference::parse("a/b:Q8_0").unwrap().unwrap();
    for text in ["", "[]", "{}", r#"{"siblings":7}"#, r#"{"siblings":[{"rfilename":"m-Q8_0.gguf"}]}"#] {
        assert!(matches!(choose(&reference, text.as_bytes()), Err(Error::BadListing { .. })), "{text}");
    }
    // A sum that is none is no sum; the branch stands for a commit that is none.
    let text = r#"{"sha":"main","siblings":[{"rfilename":"m-Q8_0.gguf","size":5,"lfs":{"sha256":"zz"}}]}"#;
    let found = choose(&reference, text.as_bytes()).unwrap();
    assert_eq!((found.files[0].sha256, found.revision.as_str()), (None, "main"));
}

#[test]
fn two_models_of_one_quantisation_keep_their_names() {
    let text = listing(&["base-Q8_0.gguf", "chat-Q8_0.gguf"]);
    let answer: Answer = serde_json::from_str(&text).unwrap();
    let names: Vec<String> = models(&answer.siblings).into_keys().collect();
    assert_eq!(names, ["base-Q8_0", "chat-Q8_0"]);
    assert!(chosen(&["base-Q8_0.gguf", "chat-Q8_0.gguf"], ":Q8_0").is_err_and(|text| text.contains("chat-Q8_0")));
    assert_eq!(chosen(&["base-Q8_0.gguf", "chat-Q8_0.gguf"], ":chat-Q8_0").unwrap(), ["chat-Q8_0.gguf"]);
}
