//! Merging neighbours, best pair first: the one algorithm under every kind of BPE.
//!
//! A text begins as a row of symbols (bytes or characters). Again and again the pair of neighbours with the lowest rank
//! becomes one symbol, the leftmost of equals first, until no pair has a rank. What ranks a pair differs between
//! tokenizers and is a parameter. A queue of pairs keeps this at O(n log n) however long the text is.

use crate::vocab::NO_TOKEN;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a pair of neighbours becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// Lower goes first.
    pub(crate) rank: u32,
    /// The token of both together.
    pub(crate) token: u32,
}

/// A symbol: bytes `start..end` of the text, and the token that they are ([`NO_TOKEN`] for none).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Symbol {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) token: u32,
}

/// A row of symbols being merged. Kept between texts for its memory.
#[derive(Default, Debug)]
pub(crate) struct Row {
    links: Vec<Link>,
    /// Pairs by rank, then by place of their left symbol. Outdated entries are skipped when they come up.
    queue: BinaryHeap<Reverse<(u32, usize)>>,
}

/// A symbol in a doubly linked list over a vector.
#[derive(Clone, Copy, Debug)]
struct Link {
    symbol: Symbol,
    prev: usize,
    next: usize,
    /// What this symbol and the next become.
    merge: Option<Merge>,
}

/// No neighbour on that side.
const END: usize = usize::MAX;

impl Row {
    /// Empties the row.
    pub(crate) fn clear(&mut self) {
        self.links.clear();
        self.queue.clear();
    }

    /// Adds a symbol at the right.
    pub(crate) fn push(&mut self, symbol: Symbol) {
        let place = self.links.len();
        if let Some(last) = self.links.last_mut() {
            last.next = place;
        }
        self.links.push(Link { symbol, prev: place.checked_sub(1).unwrap_or(END), next: END, merge: None });
    }

    /// Merges as long as `find` has a merge for two neighbours.
    pub(crate) fn merge(&mut self, find: impl Fn(Symbol, Symbol) -> Option<Merge>) {
        for place in 0..self.links.len() {
            self.rank(place, &find);
        }
        while let Some(Reverse((rank, place))) = self.queue.pop() {
            let Link { symbol, prev, next, merge, .. } = self.links[place];
            let Some(merge) = merge.filter(|merge| merge.rank == rank) else { continue };
            let right = self.links[next];
            self.links[next].merge = None;
            self.links[place].symbol = Symbol { start: symbol.start, end: right.symbol.end, token: merge.token };
            self.links[place].next = right.next;
            if right.next != END {
                self.links[right.next].prev = place;
            }
            self.rank(place, &find);
            if prev != END {
                self.rank(prev, &find);
            }
        }
    }

    /// Finds and queues the merge of the symbol at `place` with the next one.
    fn rank(&mut self, place: usize, find: &impl Fn(Symbol, Symbol) -> Option<Merge>) {
        let link = self.links[place];
        let merge = if link.next == END { None } else { find(link.symbol, self.links[link.next].symbol) };
        self.links[place].merge = merge;
        if let Some(merge) = merge {
            self.queue.push(Reverse((merge.rank, place)));
        }
    }

    /// The symbols, from left to right.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> {
        let mut place = if self.links.is_empty() { END } else { 0 };
        std::iter::from_fn(move || {
            let link = self.links.get(place)?;
            place = link.next;
            Some(link.symbol)
        })
    }
}

impl Symbol {
    /// The token, if the symbol is one.
    pub(crate) fn token(self) -> Option<u32> {
        (self.token != NO_TOKEN).then_some(self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::{Merge, Row, Symbol};

    /// Merges the characters of `text` by a list of pairs, best first, and gives back the pieces.
    fn pieces<'a>(text: &'a str, merges: &[(&str, &str)]) -> Vec<&'a str> {
        let mut row = Row::default();
        for (start, c) in text.char_indices() {
            row.push(Symbol { start, end: start + c.len_utf8(), token: 0 });
        }
        row.merge(|left, right| {
            let pair = (&text[left.start..left.end], &text[right.start..right.end]);
            let rank = merges.iter().position(|&merge| merge == pair)?;
            Some(Merge { rank: u32::try_from(rank).unwrap(), token: 0 })
        });
        row.symbols().map(|symbol| &text[symbol.start..symbol.end]).collect()
    }

    #[test]
    fn the_best_pair_goes_first() {
        assert_eq!(pieces("abc", &[("b", "c"), ("a", "b")]), ["a", "bc"]);
        assert_eq!(pieces("abc", &[("a", "b"), ("b", "c")]), ["ab", "c"]);
        assert_eq!(pieces("abcd", &[("a", "b"), ("c", "d"), ("ab", "cd")]), ["abcd"]);
    }

    #[test]
    fn of_equals_the_leftmost_goes_first() {
        assert_eq!(pieces("aaa", &[("a", "a")]), ["aa", "a"]);
        assert_eq!(pieces("aaaaa", &[("a", "a"), ("aa", "aa")]), ["aaaa", "a"]);
    }

    #[test]
    fn a_pair_that_was_ranked_and_lost_its_part_is_forgotten() {
        // "bc" is queued first, then loses its "b" to "ab".
        assert_eq!(pieces("abc", &[("a", "b"), ("b", "c"), ("ab", "c")]), ["abc"]);
        assert_eq!(pieces("abcab", &[("a", "b"), ("b", "c"), ("c", "ab")]), ["ab", "cab"]);
    }

    #[test]
    fn nothing_to_merge() {
        assert_eq!(pieces("", &[("a", "b")]), Vec::<&str>::new());
        assert_eq!(pieces("a", &[("a", "a")]), ["a"]);
        assert_eq!(pieces("ba", &[("a", "b")]), ["b", "a"]);
    }
}
