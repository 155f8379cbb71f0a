//! The memory of running sequences: pages for keys and values, and slots for recurrent state.
//!
//! Only numbers live here; the tensors they name are the backend's. Both are handed out together,
//! as an [`Allocation`], because a sequence can run only with both. Nothing here knows a graph, a
//! model or a token, so a simulation drives it alone. Prefixes are not shared yet: pages carry
//! reference counts, and every count is one.

mod pool;
mod table;

pub use pool::{OutOfPages, PageId, Pool};
pub use table::BlockTable;

/// Tokens in a page.
pub const PAGE_TOKENS: u32 = 16;

/// Pages that `n_tokens` tokens fill.
#[must_use]
pub const fn pages_for(n_tokens: u32) -> u32 {
    n_tokens.div_ceil(PAGE_TOKENS)
}

/// What one sequence holds while it runs.
#[derive(Debug)]
pub struct Allocation {
    /// Where its keys and values lie.
    pub table: BlockTable,
    /// Its slot of recurrent state.
    pub slot: u32,
}

/// All pages and slots, fixed at start.
#[derive(Debug)]
pub struct Kv {
    pool: Pool,
    n_slots: u32,
    free_slots: Vec<u32>,
}

impl Kv {
    /// Everything free.
    #[must_use]
    pub fn new(n_pages: u32, n_slots: u32) -> Kv {
        Kv { pool: Pool::new(n_pages), n_slots, free_slots: (0..n_slots).rev().collect() }
    }

    /// The pages.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Slots that nobody holds.
    #[must_use]
    pub fn n_free_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// Pages for `n_tokens` tokens and a slot: both or neither.
    ///
    /// # Errors
    /// Too few free pages, or no free slot.
    pub fn claim(&mut self, n_tokens: u32) -> Result<Allocation, KvError> {
        let slot = *self.free_slots.last().ok_or(KvError::Slots { n_slots: self.n_slots })?;
        let mut table = BlockTable::new();
        table.grow(&mut self.pool, n_tokens)?;
        self.free_slots.pop();
        Ok(Allocation { table, slot })
    }

    /// Takes an allocation back.
    pub fn release(&mut self, allocation: Allocation) {
        let Allocation { table, slot } = allocation;
        table.release(&mut self.pool);
        self.free_slots.push(slot);
    }
}

/// Why a sequence cannot run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// Too few free pages.
    #[error(transparent)]
    Pages(#[from] OutOfPages),
    /// Every slot is held.
    #[error("all {n_slots} sequences that may run at once are running")]
    Slots {
        /// How many there are.
        n_slots: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_all_or_nothing() {
        let mut kv = Kv::new(4, 2);
        let first = kv.claim(33).unwrap();
        assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1));
        assert_eq!(kv.claim(17).unwrap_err(), KvError::Pages(OutOfPages { needed: 2, free: 1, n_pages: 4 }));
        assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1), "a refused claim takes nothing");
        let second = kv.claim(16).unwrap();
        assert_ne!(first.slot, second.slot);
        assert_eq!(kv.claim(0).unwrap_err(), KvError::Slots { n_slots: 2 });
        kv.release(first);
        kv.release(second);
        assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (4, 2));
    }
}
