//! Snapshots of recurrent state: which slot holds the state after which known page.
//!
//! A model with recurrent layers can go on only from a position whose state was kept. Each snapshot
//! belongs to the known page that ends at its position and goes with it; when all slots are taken,
//! the snapshot that was not used for longest makes room.

use super::PageId;
use super::lru::Lru;

/// The slots that hold snapshots.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Number of the first slot; those before it belong to running sequences.
    first_slot: u32,
    free: Vec<u32>,
    page_of: Vec<Option<PageId>>,
    index_of: Vec<Option<u32>>,
    used: Lru,
}

impl Snapshots {
    pub(super) fn new(first_slot: u32, n_snapshots: u32, n_pages: u32) -> Snapshots {
        Snapshots {
            first_slot,
            free: (0..n_snapshots).rev().collect(),
            page_of: vec![None; n_snapshots as usize],
            index_of: vec![None; n_pages as usize],
            used: Lru::new(n_snapshots),
        }
    }

    pub(super) fn n_used(&self) -> usize {
        self.used.len()
    }

    pub(super) fn n_snapshots(&self) -> usize {
        self.page_of.len()
    }

    /// The slot with the state after `page`.
    pub(super) fn of(&self, page: PageId) -> Option<u32> {
        self.index_of[page.0 as usize].map(|index| self.first_slot + index)
    }

    /// The snapshot after `page` is used now.
    pub(super) fn touch(&mut self, page: PageId) {
        if let Some(index) = self.index_of[page.0 as usize] {
            self.used.touch(index);
        }
    }

    /// A slot for the state after `page`; none if it has one, or if there are no slots at all.
    pub(super) fn add(&mut self, page: PageId) -> Option<u32> {
        if self.index_of[page.0 as usize].is_some() {
            self.touch(page);
            return None;
        }
        if self.free.is_empty() {
            let oldest = self.page_of[self.used.oldest()? as usize];
            self.forget(oldest.expect("a used snapshot has a page"));
        }
        let index = self.free.pop()?;
        self.page_of[index as usize] = Some(page);
        self.index_of[page.0 as usize] = Some(index);
        self.used.push(index);
        Some(self.first_slot + index)
    }

    /// The page will hold something else.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(index) = self.index_of[page.0 as usize].take() {
            self.page_of[index as usize] = None;
            self.used.remove(index);
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_that_was_not_used_for_longest_makes_room() {
        let mut snapshots = Snapshots::new(10, 2, 5);
        assert_eq!(snapshots.add(PageId(0)), Some(10));
        assert_eq!(snapshots.add(PageId(1)), Some(11));
        assert_eq!(snapshots.add(PageId(0)), None, "it has one, which is used now");
        assert_eq!(snapshots.add(PageId(2)), Some(11));
        assert_eq!([0, 1, 2].map(|page| snapshots.of(PageId(page))), [Some(10), None, Some(11)]);
        snapshots.forget(PageId(0));
        snapshots.forget(PageId(0));
        assert_eq!(snapshots.n_used(), 1);
        assert_eq!(snapshots.add(PageId(3)), Some(10));
    }

    #[test]
    fn without_slots_there_are_no_snapshots() {
        assert_eq!(Snapshots::new(3, 0, 5).add(PageId(0)), None);
    }
}
