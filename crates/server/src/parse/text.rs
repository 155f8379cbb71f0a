//! Small pieces of the parsers: text that waits for what follows it, and marks that may be cut.

/// Text whose white space at the ends is given out only if more text follows, or before.
#[derive(Debug, Default)]
pub(super) struct Trimmed {
    held: String,
    /// Drop white space at the beginning.
    trims_start: bool,
}

impl Trimmed {
    /// White space at the beginning is dropped.
    pub(super) fn from_start() -> Trimmed {
        Trimmed { held: String::new(), trims_start: true }
    }

    /// Takes text and gives out what is certain.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        if self.trims_start {
            let n_blank = self.held.len() - self.held.trim_start().len();
            self.held.drain(..n_blank);
        }
        if self.held.is_empty() {
            return String::new();
        }
        self.trims_start = false;
        let rest = self.held.split_off(self.held.trim_end().len());
        std::mem::replace(&mut self.held, rest)
    }

    /// The white space at the end.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The first of `marks` in `text`: where, and which.
pub(super) fn first_mark<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    marks.iter().filter_map(|mark| text.find(mark).map(|at| (at, *mark))).min_by_key(|(at, _)| *at)
}

/// Bytes at the end of `text` that may be the beginning of one of `marks`.
pub(super) fn undecided(text: &str, marks: &[&str]) -> usize {
    let overlap = |mark: &&str| {
        let cuts = mark.char_indices().map(|(at, _)| at).filter(|&at| at > 0 && at <= text.len());
        cuts.filter(|&at| text.as_bytes().ends_with(&mark.as_bytes()[..at])).max().unwrap_or(0)
    };
    marks.iter().map(overlap).max().unwrap_or(0)
}

/// Follows JSON text to the end of an object or array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Takes the next character; true if it closes what was opened first.
    pub(super) fn closes(&mut self, c: char) -> bool {
        if self.in_string {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                '"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
