//! The list of merges of a byte-pair vocabulary, as a map from pairs of ids.

use crate::Error;
use crate::merge::{Merge, Symbol};
use crate::vocab::Vocab;
use hashbrown::HashMap;
use zinc_gguf::Metadata;

const MERGES_KEY: &str = "tokenizer.ggml.merges";

/// What each pair of tokens merges to.
#[derive(Debug)]
pub(crate) struct Merges(HashMap<(u32, u32), Merge>);

impl Merges {
    /// Reads the list, best merge first. Of a pair that is listed twice the first counts.
    pub(crate) fn read(metadata: &Metadata, vocab: &Vocab) -> Result<Self, Error> {
        let list = metadata.require_strings(MERGES_KEY)?;
        if list.len() > u32::MAX as usize {
            return Err(Error::Limit { what: "the number of merges", got: list.len(), limit: u32::MAX as usize });
        }
        let mut merges = HashMap::with_capacity(list.len());
        let mut joined = String::new();
        for (index, (rank, &merge)) in (0u32..).zip(&list).enumerate() {
            let (left, right) = halves(merge).ok_or_else(|| Error::MergeForm { index, merge: merge.to_owned() })?;
            joined.clear();
            joined.extend([left, right]);
            let id = |text: &str| {
                let missing = || Error::MergeToken { index, merge: merge.to_owned(), missing: text.to_owned() };
                vocab.id(text).ok_or_else(missing)
            };
            let (left, right, token) = (id(left)?, id(right)?, id(&joined)?);
            // A merge of or into a control token does not count, so that no text can be made to spell one.
            if [left, right, token].iter().all(|&id| vocab.is_text(id)) {
                merges.entry((left, right)).or_insert(Merge { rank, token });
            }
        }
        Ok(Self(merges))
    }

    /// What two neighbours merge to.
    pub(crate) fn find(&self, left: Symbol, right: Symbol) -> Option<Merge> {
        self.0.get(&(left.token, right.token)).copied()
    }
}

/// The two sides of the space between them. A space at the very front belongs to the left side.
fn halves(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let middle = first + merge[first..].find(' ')?;
    let right = &merge[middle + 1..];
    (!right.is_empty()).then_some((&merge[..middle], right))
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn merges_are_cut_at_their_space() {
        assert_eq!(halves("a b"), Some(("a", "b")));
        assert_eq!(halves("Ġ t"), Some(("Ġ", "t")));
        assert_eq!(halves("  b"), Some((" ", "b")));
        for bad in ["", "a", "ab", "a ", " ", " b"] {
            assert_eq!(halves(bad), None, "{bad:?}");
        }
    }
}
