//! The block table of one sequence: its pages, in the order of its tokens.

use super::{OutOfPages, PAGE_TOKENS, PageId, Pool, pages_for};

/// Maps positions of one sequence to places in the pool.
///
/// A table is given back with [`BlockTable::release`]; dropping it would leak its pages.
#[derive(Debug, Default)]
pub struct BlockTable {
    pages: Vec<PageId>,
}

impl BlockTable {
    /// A table without pages.
    #[must_use]
    pub fn new() -> BlockTable {
        BlockTable::default()
    }

    /// The pages, in the order of the tokens.
    #[must_use]
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Makes room for `n_tokens` tokens in all. A refusal changes nothing.
    ///
    /// # Errors
    /// Too few pages are free.
    pub fn grow(&mut self, pool: &mut Pool, n_tokens: u32) -> Result<(), OutOfPages> {
        let n_held = u32::try_from(self.pages.len()).expect("a pool has fewer than 2^32 pages");
        self.pages.extend(pool.alloc(pages_for(n_tokens).saturating_sub(n_held))?);
        Ok(())
    }

    /// Place of a position in the pool: page * 16 + place in the page.
    ///
    /// # Panics
    /// If the table has not grown that far.
    #[must_use]
    pub fn slot_of(&self, position: u32) -> u32 {
        let page = self.pages[(position / PAGE_TOKENS) as usize];
        page.0 * PAGE_TOKENS + position % PAGE_TOKENS
    }

    /// Gives every page back.
    pub fn release(self, pool: &mut Pool) {
        for page in self.pages {
            pool.release(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_map_to_slots_across_pages() {
        let mut pool = Pool::new(4);
        let mut first = BlockTable::new();
        first.grow(&mut pool, 16).unwrap();
        let mut second = BlockTable::new();
        second.grow(&mut pool, 1).unwrap();
        first.grow(&mut pool, 17).unwrap();
        let pages: Vec<u32> = first.pages().iter().map(|p| p.0).collect();
        assert_eq!(pages.len(), 2);
        assert_eq!(first.slot_of(15), pages[0] * 16 + 15);
        assert_eq!(first.slot_of(16), pages[1] * 16);
        assert!(!first.pages().contains(&second.pages()[0]), "no page has two owners");
    }

    #[test]
    fn growing_takes_only_what_is_missing() {
        let mut pool = Pool::new(2);
        let mut table = BlockTable::new();
        for n_tokens in [1, 16, 5] {
            table.grow(&mut pool, n_tokens).unwrap();
            assert_eq!(pool.n_free(), 1);
        }
        assert_eq!(table.grow(&mut pool, 33), Err(OutOfPages { needed: 2, free: 1, n_pages: 2 }));
        assert_eq!(table.pages().len(), 1);
        table.release(&mut pool);
        assert_eq!(pool.n_free(), 2);
    }
}
