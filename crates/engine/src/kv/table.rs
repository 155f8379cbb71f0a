//! The block table of one sequence: its pages, in the order of its tokens.

use super::{PAGE_TOKENS, PageId, Pool, pages_for};

/// Maps positions of one sequence to places in the pool.
///
/// A table is given back with [`BlockTable::release`]; dropping it would leak its pages.
#[derive(Debug, Default)]
pub struct BlockTable {
    pages: Vec<PageId>,
}

impl BlockTable {
    /// A table of pages that the caller holds.
    pub(super) fn of(pages: Vec<PageId>) -> BlockTable {
        BlockTable { pages }
    }

    /// The pages, in the order of the tokens.
    #[must_use]
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Pages.
    #[must_use]
    pub fn n_pages(&self) -> u32 {
        u32::try_from(self.pages.len()).expect("a pool has fewer than 2^32 pages")
    }

    /// Pages that are missing for `n_tokens` tokens in all.
    #[must_use]
    pub fn n_missing(&self, n_tokens: u32) -> u32 {
        pages_for(n_tokens).saturating_sub(self.n_pages())
    }

    /// Appends pages that the caller holds.
    pub(super) fn append(&mut self, pages: Vec<PageId>) {
        self.pages.extend(pages);
    }

    /// Puts a page in the place of another and returns that.
    pub(super) fn replace(&mut self, index: usize, page: PageId) -> PageId {
        std::mem::replace(&mut self.pages[index], page)
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

    /// Gives every page back, the last first: of pages that are kept, those at the end of a
    /// sequence are given away before those that they need.
    pub(super) fn release(self, pool: &mut Pool) {
        for page in self.pages.into_iter().rev() {
            pool.release(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_map_to_slots_across_pages() {
        let mut table = BlockTable::of(vec![PageId(3), PageId(1)]);
        assert_eq!([0, 15, 16, 31].map(|position| table.slot_of(position)), [48, 63, 16, 31]);
        assert_eq!([0, 32, 33, 64].map(|n| table.n_missing(n)), [0, 0, 1, 2]);
        table.append(vec![PageId(7)]);
        assert_eq!(table.slot_of(47), 127);
        assert_eq!(table.replace(0, PageId(9)), PageId(3));
        assert_eq!(table.slot_of(0), 144);
    }
}
