//! Which pages hold which tokens: the prefix cache.
//!
//! A full page is known by its 16 token ids and by the page before it, and so by everything before
//! it. The key holds the ids themselves, so a hash decides only where to look and a collision finds
//! nothing. A page that is forgotten takes its number with it; what followed it can then not be
//! found any more and leaves the pool in its turn.

use std::collections::HashMap;

use super::{PAGE_TOKENS, PageId};

/// Whose pages a sequence may find, and who may find its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// Everyone with the same salt; 0 is the common one.
    Salted(u64),
    /// The choices of one request.
    Request(u64),
}

/// What is before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Parent {
    /// Nothing.
    Root(Root),
    /// A known page, by a number that is never given twice.
    Page(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    parent: Parent,
    tokens: [u32; PAGE_TOKENS as usize],
}

/// A page that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) page: PageId,
    /// What a page after it has as its parent.
    pub(super) as_parent: Parent,
}

/// Known pages.
#[derive(Debug)]
pub(super) struct Prefixes {
    known: HashMap<Key, Known>,
    key_of: Vec<Option<Key>>,
    n_numbers: u64,
}

impl Prefixes {
    pub(super) fn new(n_pages: u32) -> Prefixes {
        Prefixes { known: HashMap::new(), key_of: vec![None; n_pages as usize], n_numbers: 0 }
    }

    /// The page with these 16 tokens after `parent`.
    pub(super) fn find(&self, parent: Parent, tokens: &[u32]) -> Option<Known> {
        self.known.get(&Key { parent, tokens: tokens.try_into().ok()? }).copied()
    }

    /// Makes a page known, unless another one is already: that one is returned.
    pub(super) fn add(&mut self, parent: Parent, tokens: &[u32], page: PageId) -> Known {
        let tokens = tokens.try_into().expect("only full pages become known");
        let key = Key { parent, tokens };
        assert!(self.key_of[page.0 as usize].is_none(), "{page:?} is known already");
        let key_of = &mut self.key_of[page.0 as usize];
        *self.known.entry(key).or_insert_with(|| {
            self.n_numbers += 1;
            *key_of = Some(key);
            Known { page, as_parent: Parent::Page(self.n_numbers) }
        })
    }

    /// The page will hold something else.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(key) = self.key_of[page.0 as usize].take() {
            self.known.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn n_known(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Parent = Parent::Root(Root::Salted(0));

    #[test]
    fn a_page_is_found_by_its_tokens_and_all_before_it() {
        let mut prefixes = Prefixes::new(4);
        let first = prefixes.add(ROOT, &[1; 16], PageId(0));
        let second = prefixes.add(first.as_parent, &[2; 16], PageId(1));
        assert_eq!(prefixes.find(ROOT, &[1; 16]), Some(first));
        assert_eq!(prefixes.find(first.as_parent, &[2; 16]), Some(second));
        assert_eq!(prefixes.find(ROOT, &[2; 16]), None, "the same tokens after something else are not the same");
        assert_eq!(prefixes.find(Parent::Root(Root::Salted(1)), &[1; 16]), None);
        assert_eq!(prefixes.find(Parent::Root(Root::Request(0)), &[1; 16]), None);
        assert_eq!(prefixes.find(ROOT, &[1; 15]), None);
        assert_eq!(prefixes.add(ROOT, &[1; 16], PageId(2)), first, "the first of two equal pages stays");
    }

    #[test]
    fn what_followed_a_forgotten_page_is_not_found_after_its_successor() {
        let mut prefixes = Prefixes::new(4);
        let first = prefixes.add(ROOT, &[1; 16], PageId(0));
        prefixes.add(first.as_parent, &[2; 16], PageId(1));
        prefixes.forget(PageId(0));
        assert_eq!(prefixes.find(ROOT, &[1; 16]), None);
        let again = prefixes.add(ROOT, &[1; 16], PageId(3));
        assert_eq!(prefixes.find(again.as_parent, &[2; 16]), None);
        prefixes.forget(PageId(1));
        prefixes.forget(PageId(1));
        assert_eq!(prefixes.n_known(), 1);
    }
}
