//! Stop strings: texts that end an answer and are not part of it.
//!
//! Text arrives in pieces that may cut a stop string anywhere. What could still be the beginning
//! of one is held back until the next piece decides; everything before is given out at once.

/// Watches a stream of text for the first of several strings.
#[derive(Clone, Debug)]
pub struct StopStrings {
    strings: Vec<String>,
    held: String,
    matched: bool,
}

impl StopStrings {
    /// Watches for `strings`; empty ones never match.
    #[must_use]
    pub fn new(strings: &[String]) -> StopStrings {
        let strings = strings.iter().filter(|s| !s.is_empty()).cloned().collect();
        StopStrings { strings, held: String::new(), matched: false }
    }

    /// Takes a piece and returns the text that is certainly part of the answer.
    /// After a match it returns nothing.
    pub fn push(&mut self, piece: &str) -> String {
        if self.matched {
            return String::new();
        }
        self.held.push_str(piece);
        let first = self.strings.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = first {
            self.matched = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let keep = self.strings.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// Whether a stop string came.
    #[must_use]
    pub fn matched(&self) -> bool {
        self.matched
    }

    /// What was held back, when nothing more comes.
    #[must_use]
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length of the longest end of `text` that is a proper beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let beginnings = stop.char_indices().map(|(at, _)| at).filter(|&at| at > 0 && at <= text.len());
    beginnings.filter(|&at| text.as_bytes().ends_with(&stop.as_bytes()[..at])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::StopStrings;

    /// Feeds `text` in pieces of `n` characters.
    fn answer(stops: &[&str], text: &str, n: usize) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|&s| s.to_owned()).collect();
        let mut watch = StopStrings::new(&stops);
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::new();
        for piece in chars.chunks(n) {
            out.push_str(&watch.push(&piece.iter().collect::<String>()));
        }
        if !watch.matched() {
            out.push_str(&watch.finish());
        }
        (out, watch.matched())
    }

    #[test]
    fn the_answer_ends_before_the_first_stop_string_however_it_is_cut() {
        let cases: [(&[&str], &str, &str, bool); 7] = [
            (&["\n\n"], "one\ntwo\n\nthree", "one\ntwo", true),
            (&["END", "STOP"], "a STOP b END", "a ", true),
            (&["aab"], "aaaab!", "aa", true),
            (&["<|x|>"], "text <|x| more", "text <|x| more", false),
            (&["é!"], "caf\u{e9}\u{e9}! x", "caf\u{e9}", true),
            (&[""], "nothing stops", "nothing stops", false),
            (&[], "nothing stops", "nothing stops", false),
        ];
        for (stops, text, expected, matched) in cases {
            for n in 1..=text.chars().count() {
                assert_eq!(answer(stops, text, n), (expected.to_owned(), matched), "{stops:?} in pieces of {n}");
            }
        }
    }

    #[test]
    fn only_what_may_be_a_beginning_is_held_back() {
        let mut watch = StopStrings::new(&["END".to_owned()]);
        assert_eq!(watch.push("all of this"), "all of this");
        assert_eq!(watch.push(" but EN"), " but ");
        assert_eq!(watch.push("TER"), "ENTER");
    }
}
