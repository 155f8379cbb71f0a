//! Which tokens steer instead of speak: those that begin and end text, and those that end a turn.
//!
//! Files name some by key and leave others to be known by their text, and some mark a turn's end as ordinary text. A token
//! with a well-known name is treated as control whatever the file says, so that text which a user typed never becomes one.
//! The names are the conventions of the families; a name that nobody has seen must come with its key.

use crate::Error;
use crate::vocab::{TokenKind, Vocab};
use zinc_gguf::Metadata;

/// Ends the model's turn, or what it was asked to write.
const TURN_ENDS: [&str; 15] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|EOT|>",
];

/// Ends a file that the model completes: what follows would be another file.
const FILE_ENDS: [&str; 5] = ["<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<reponame>", "<|file_sep|>"];

/// The gaps of code completion: control, but no ends.
const GAPS: [&str; 9] = [
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<fim_prefix>",
    "<fim_middle>",
    "<fim_suffix>",
    "<｜fim▁begin｜>",
    "<｜fim▁end｜>",
    "<｜fim▁hole｜>",
];

/// The end in SentencePiece vocabularies, which say so by key. In others it is a tag for struck-out text: there it ends
/// nothing, but like a control token it is found as a whole only in trusted text, as llama.cpp has it.
const SENTENCEPIECE_END: &str = "</s>";

const BOS_KEY: &str = "tokenizer.ggml.bos_token_id";
const EOS_KEY: &str = "tokenizer.ggml.eos_token_id";
const UNKNOWN_KEY: &str = "tokenizer.ggml.unknown_token_id";
/// Ends, by key.
const END_KEYS: [&str; 6] = [
    EOS_KEY,
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// The tokens around text.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    /// The beginning token, if encoding adds it.
    pub(crate) added_bos: Option<u32>,
    /// The end token, if encoding adds it.
    pub(crate) added_eos: Option<u32>,
    /// Tokens after which nothing is generated, sorted.
    pub(crate) ends: Vec<u32>,
}

impl Control {
    /// Reads the keys; `adds_bos` is the family's rule, which the file may override.
    pub(crate) fn read(metadata: &Metadata, vocab: &Vocab, adds_bos: bool) -> Result<Self, Error> {
        let bos = token_id(metadata, vocab, BOS_KEY)?;
        let eos = token_id(metadata, vocab, EOS_KEY)?;
        let adds_bos = metadata.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos);
        let adds_eos = metadata.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        let missing = |key: &str| Error::Gguf(zinc_gguf::Error::MissingKey { key: key.to_owned() });
        Ok(Self {
            bos,
            eos,
            added_bos: if adds_bos { Some(bos.ok_or_else(|| missing(BOS_KEY))?) } else { None },
            added_eos: if adds_eos { Some(eos.ok_or_else(|| missing(EOS_KEY))?) } else { None },
            ends: ends(metadata, vocab)?,
        })
    }
}

/// Marks well-known control tokens as such.
pub(crate) fn mark_well_known(vocab: &mut Vocab) {
    for name in TURN_ENDS.iter().chain(&FILE_ENDS).chain(&GAPS) {
        if let Some(id) = vocab.id(name) {
            vocab.set_kind(id, TokenKind::Control);
        }
    }
    // A vocabulary that learned it as ordinary text keeps it so: its merges arrive there.
    if let Some(id) = vocab.id(SENTENCEPIECE_END).filter(|&id| vocab.kind(id) == TokenKind::UserDefined) {
        vocab.set_kind(id, TokenKind::Control);
    }
}

/// Whether a token is found in trusted text only.
pub(crate) fn needs_trust(vocab: &Vocab, id: u32) -> bool {
    matches!(vocab.kind(id), TokenKind::Control | TokenKind::Unknown) || vocab.text(id) == SENTENCEPIECE_END
}

/// The token for text that has none.
pub(crate) fn unknown(metadata: &Metadata, vocab: &Vocab) -> Result<Option<u32>, Error> {
    token_id(metadata, vocab, UNKNOWN_KEY)
}

fn ends(metadata: &Metadata, vocab: &Vocab) -> Result<Vec<u32>, Error> {
    let mut ends: Vec<u32> = TURN_ENDS.iter().chain(&FILE_ENDS).filter_map(|name| vocab.id(name)).collect();
    // In the harmony format a message ends with `<|end|>` and the turn goes on with the next message.
    let harmony = ["<|return|>", "<|call|>", "<|end|>"].map(|name| vocab.id(name));
    if let [Some(_), Some(_), Some(message_end)] = harmony {
        ends.retain(|&id| id != message_end);
    }
    for key in END_KEYS {
        ends.extend(token_id(metadata, vocab, key)?);
    }
    ends.sort_unstable();
    ends.dedup();
    Ok(ends)
}

fn token_id(metadata: &Metadata, vocab: &Vocab, key: &'static str) -> Result<Option<u32>, Error> {
    match metadata.u32(key)? {
        Some(id) if id >= vocab.len() => Err(Error::TokenId { key, id, n_vocab: vocab.len() }),
        id => Ok(id),
    }
}
