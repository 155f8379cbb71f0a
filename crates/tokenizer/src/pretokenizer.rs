//! Cutting text into words before byte-level BPE, by the rule that each model family was trained with.
//!
//! `tokenizer.ggml.pre` names the rule. A rule is one or more stages; each stage is a pattern, and every match of it, and
//! every stretch between matches, becomes a piece for the next stage. The patterns are the families' published ones, with
//! one change: all end in `\s+(?!\S)|\s+` (the last white space before a word belongs to the word), and the engine here,
//! which in return takes linear time on every text, has no look-ahead. That ending is done by hand in
//! [`Stage::find`]. Character classes are Unicode's.
//!
//! Names that llama.cpp gives to rules with no model here (`falcon`, `bloom`, `deepseek-coder` …) are left out, not guessed.

use crate::Error;
use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, PatternID};

/// The rule of a family.
struct Family {
    /// The values of `tokenizer.ggml.pre` that mean it.
    names: &'static [&'static str],
    stages: &'static [Pattern],
    /// Whether a word that is a token is taken whole, whatever the merges would make of it.
    keeps_whole_words: bool,
    /// Whether a beginning token is added when the file does not say.
    adds_bos: bool,
}

/// A stage's pattern.
enum Pattern {
    /// Covers nearly all text and ends in `|\s+(?!\S)|\s+`, which is not written out.
    Words(&'static str),
    /// Picks some places out.
    Places(&'static str),
}

use self::Pattern::{Places, Words};

const GPT2: Pattern = Words(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+");
const LLAMA3: Pattern =
    Words(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+");
const QWEN2: Pattern =
    Words(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+");
const QWEN35: Pattern = Words(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+",
);
const GPT4O: Pattern = Words(concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+",
));
const TEKKEN: Pattern = Words(concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|",
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+",
));
const DEEPSEEK3: Pattern = Words(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+",
));
const SEED_CODER: Pattern =
    Words(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+");

const FAMILIES: [Family; 11] = [
    // Not a family: what llama.cpp's converter writes for a tokenizer that it does not know, in the days when it still did.
    Family {
        names: &["default"],
        stages: &[Places(r"[\p{P}$+<=>^~|]+"), GPT2, Places(r"\p{N}+"), Places("[0-9][0-9][0-9]")],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "exaone4", "a.x-4.0", "mellum", "gigachat"],
        stages: &[GPT2],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        stages: &[Places(r"\p{N}"), GPT2],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        stages: &[LLAMA3],
        keeps_whole_words: true,
        adds_bos: true,
    },
    Family {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"],
        stages: &[LLAMA3],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"],
        stages: &[QWEN2],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family { names: &["qwen35"], stages: &[QWEN35], keeps_whole_words: false, adds_bos: false },
    Family {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        stages: &[GPT4O],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family { names: &["tekken"], stages: &[TEKKEN], keeps_whole_words: true, adds_bos: true },
    Family {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        stages: &[Places(r"\p{N}{1,3}"), Places("[一-龥\u{3040}-ゟ゠-ヿ]+"), DEEPSEEK3],
        keeps_whole_words: false,
        adds_bos: false,
    },
    Family { names: &["seed-coder"], stages: &[SEED_CODER], keeps_whole_words: false, adds_bos: false },
];

/// A family's rule, ready to run.
#[derive(Debug)]
pub struct PreTokenizer {
    stages: Vec<Stage>,
    keeps_whole_words: bool,
    adds_bos: bool,
}

/// One stage: a pattern, and for the covering kind white space as a second one.
#[derive(Debug)]
struct Stage {
    regex: Regex,
    covers: bool,
}

impl PreTokenizer {
    /// The rule that `tokenizer.ggml.pre` names.
    ///
    /// # Errors
    /// [`Error::UnknownPreTokenizer`] with the names that are known.
    pub fn new(pre: &str) -> Result<Self, Error> {
        let Some(family) = FAMILIES.iter().find(|family| family.names.contains(&pre)) else {
            return Err(Error::UnknownPreTokenizer { pre: pre.to_owned(), known: Self::names().collect() });
        };
        let stages = family.stages.iter().map(Stage::new).collect();
        Ok(Self { stages, keeps_whole_words: family.keeps_whole_words, adds_bos: family.adds_bos })
    }

    /// Every name that [`PreTokenizer::new`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().flat_map(|family| family.names.iter().copied())
    }

    /// Visits the pieces of `text` in order. Together they are the text.
    pub fn split<'t>(&self, text: &'t str, visit: &mut dyn FnMut(&'t str)) {
        split(&self.stages, text, visit);
    }

    pub(crate) fn keeps_whole_words(&self) -> bool {
        self.keeps_whole_words
    }

    pub(crate) fn adds_bos(&self) -> bool {
        self.adds_bos
    }
}

fn split<'t>(stages: &[Stage], text: &'t str, visit: &mut dyn FnMut(&'t str)) {
    let Some((stage, later)) = stages.split_first() else { return visit(text) };
    let mut done = 0;
    let mut at = 0;
    while let Some((start, end)) = stage.find(text, at) {
        if done < start {
            split(later, &text[done..start], visit);
        }
        split(later, &text[start..end], visit);
        done = end;
        at = end;
    }
    if done < text.len() {
        split(later, &text[done..], visit);
    }
}

impl Stage {
    fn new(pattern: &Pattern) -> Self {
        let compile = |patterns: &[&str]| {
            // The default of 2 MiB makes the automaton of Unicode classes forget its states on mixed scripts.
            let builder =
                Regex::builder().configure(Regex::config().hybrid_cache_capacity(16 << 20)).build_many(patterns);
            builder.expect("a test compiles every pattern of the table")
        };
        match pattern {
            Words(words) => Self { regex: compile(&[words, r"\s+"]), covers: true },
            Places(places) => Self { regex: compile(&[places]), covers: false },
        }
    }

    /// The first match at or after `at`.
    fn find(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let input = Input::new(text).range(at..);
        let found = if self.covers { self.find_covering(text, input)? } else { self.regex.find(input)? };
        let (start, end) = (found.start(), found.end());
        // White space that a word follows leaves its last character to the word, unless it has no other.
        if found.pattern() == PatternID::must(1) && end < text.len() {
            let last = text[start..end].chars().next_back().map_or(0, char::len_utf8);
            if start < end - last {
                return Some((start, end - last));
            }
        }
        Some((start, end))
    }

    /// Tries each place by itself. The pattern nearly always matches at the first, and knowing where a match begins spares
    /// the engine the search backwards for it.
    fn find_covering(&self, text: &str, input: Input<'_>) -> Option<regex_automata::Match> {
        let from = input.start();
        text[from..]
            .char_indices()
            .find_map(|(offset, _)| self.regex.find(input.clone().anchored(Anchored::Yes).range(from + offset..)))
    }
}
