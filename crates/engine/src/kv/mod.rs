//! The memory of running sequences: pages for keys and values, and slots for recurrent state.
//!
//! Only numbers live here; the tensors they name are the backend's. Pages and slot are handed out
//! together, as an [`Allocation`], because a sequence can run only with both. Full pages become
//! known to the prefix cache as they are computed, so a sequence that begins with the same tokens
//! takes them over. A page that is not full is never shared: nobody writes into a page that someone
//! else reads, and copying on write is computing the last, partial page once more.
//!
//! A model with recurrent layers needs the state at the position where it goes on, so it takes over
//! pages only up to a snapshot. Copies of state are noted in order, for the engine to carry out
//! before its next step. Layers that see a window only have pages of their own (`window.rs`), and a
//! prefix is taken over only as far as those are still there. Nothing here knows a graph or a model,
//! so a simulation drives it alone.

mod lru;
mod pool;
mod prefix;
mod snapshots;
mod table;
mod window;

pub use pool::{OutOfPages, PageId, Pool};
pub use prefix::Root;
pub use table::BlockTable;
pub use window::{WindowLimits, WindowTable, window_pages};

use prefix::{Parent, Prefixes};
use snapshots::Snapshots;
use window::Windows;

/// Tokens in a page.
pub const PAGE_TOKENS: u32 = 16;

/// Pages that `n_tokens` tokens fill.
#[must_use]
pub const fn pages_for(n_tokens: u32) -> u32 {
    n_tokens.div_ceil(PAGE_TOKENS)
}

/// Sizes of the memory, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLimits {
    /// Pages of the pool.
    pub n_pages: u32,
    /// Slots of running sequences.
    pub n_slots: u32,
    /// Slots of snapshots, numbered after those.
    pub n_snapshots: u32,
    /// The model has recurrent state.
    pub is_recurrent: bool,
    /// Layers that see a window only have pages of their own.
    pub window: Option<WindowLimits>,
}

/// Pages that are left to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Of the pool.
    pub n_pages: u32,
    /// Of that of windows.
    pub n_window_pages: u32,
}

/// What one sequence holds while it runs.
#[derive(Debug)]
pub struct Allocation {
    /// Where its keys and values lie.
    pub table: BlockTable,
    /// Where those of layers with a window lie, if they have pages of their own.
    pub window: Option<WindowTable>,
    /// Its slot of recurrent state.
    pub slot: u32,
    /// The first pages, which were found in the prefix cache or offered to it.
    n_offered: u32,
    /// What the page after those has as its parent.
    tip: Parent,
}

/// Recurrent state to be copied from slot to slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCopy {
    /// Source.
    pub from: u32,
    /// Destination.
    pub to: u32,
}

/// All pages and slots, fixed at start.
#[derive(Debug)]
pub struct Kv {
    limits: KvLimits,
    pool: Pool,
    free_slots: Vec<u32>,
    prefixes: Prefixes,
    snapshots: Snapshots,
    windows: Option<Windows>,
    copies: Vec<StateCopy>,
}

impl Kv {
    /// Everything free.
    ///
    /// # Panics
    /// If not even one sequence has room in the pool for windows.
    #[must_use]
    pub fn new(limits: KvLimits) -> Kv {
        let is_enough = |w: WindowLimits| w.n_pages >= window_pages(w.tokens, 1).min(limits.n_pages);
        assert!(limits.window.is_none_or(is_enough), "a window must fit into its pool");
        Kv {
            limits,
            pool: Pool::new(limits.n_pages),
            free_slots: (0..limits.n_slots).rev().collect(),
            prefixes: Prefixes::new(limits.n_pages),
            snapshots: Snapshots::new(limits.n_slots, limits.n_snapshots, limits.n_pages),
            windows: limits.window.map(|window| Windows::new(window, limits.n_pages)),
            copies: Vec::new(),
        }
    }

    /// The pages.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The pages, for a test that breaks them.
    #[cfg(test)]
    pub(crate) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The pages of layers with a window, if they have their own.
    #[must_use]
    pub fn window_pool(&self) -> Option<&Pool> {
        self.windows.as_ref().map(Windows::pool)
    }

    /// The same, for a test that breaks them.
    #[cfg(test)]
    pub(crate) fn window_pool_mut(&mut self) -> Option<&mut Pool> {
        self.windows.as_mut().map(Windows::pool_mut)
    }

    /// What is said of pages of windows on both sides is the same.
    #[cfg(test)]
    pub(crate) fn check_windows(&self) {
        self.windows.iter().for_each(|windows| windows.check(&self.pool));
    }

    /// Slots of running sequences that nobody holds.
    #[must_use]
    pub fn n_free_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// Slots of snapshots: taken, and in all.
    #[must_use]
    pub fn n_snapshots(&self) -> (usize, usize) {
        (self.snapshots.n_used(), self.snapshots.n_snapshots())
    }

    /// Pages for `tokens` and one more token, and a slot: all or nothing. The first tokens are taken
    /// over from the prefix cache where it has them; at least one is left to compute. Returns how
    /// many. As many pages as are `spare` stay free. Of pages for windows there is room, but they are taken as
    /// the tokens are computed.
    ///
    /// # Errors
    /// Too few free pages, or no free slot.
    pub fn admit(&mut self, tokens: &[u32], root: Root, spare: Spare) -> Result<(Allocation, u32), KvError> {
        let &slot = self.free_slots.last().ok_or(KvError::Slots { n_slots: self.limits.n_slots })?;
        let (found, tip, n_known) = self.find(tokens, Parent::Root(root));
        for &page in &found {
            self.pool.share(page);
        }
        let last = found.last().copied();
        let n_offered = u32::try_from(found.len()).expect("a pool has fewer than 2^32 pages");
        let n_tokens = u32::try_from(tokens.len()).expect("a sequence is no longer than the context");
        let window = self.windows.as_mut().map(|windows| windows.take_over(&found, n_known));
        let room = match (&self.windows, &window) {
            (Some(windows), Some(table)) => windows.check_room(table, n_tokens + 1, spare.n_window_pages),
            _ => Ok(()),
        };
        let mut table = BlockTable::of(found);
        if let Err(error) = room.and_then(|()| self.extend(&mut table, n_tokens + 1, spare.n_pages)) {
            table.release(&mut self.pool);
            self.release_window(window);
            return Err(error.into());
        }
        self.free_slots.pop();
        if let Some(page) = last
            && let Some(from) = self.snapshots.of(page)
        {
            self.snapshots.touch(page);
            self.copies.push(StateCopy { from, to: slot });
        }
        Ok((Allocation { table, window, slot, n_offered, tip }, n_offered * PAGE_TOKENS))
    }

    /// Pages for `n_tokens` tokens, of which at most `step_tokens` are computed in a step, and a slot: both or neither.
    /// They share nothing. Until it is released, [`Kv::grow`] before each step and [`Kv::advance`] after it find
    /// what they need if nobody else takes pages.
    ///
    /// # Errors
    /// Too few free pages, or no free slot.
    pub fn claim(&mut self, n_tokens: u32, step_tokens: u32) -> Result<Allocation, KvError> {
        let &slot = self.free_slots.last().ok_or(KvError::Slots { n_slots: self.limits.n_slots })?;
        let mut window = None;
        if let (Some(windows), Some(limits)) = (&mut self.windows, self.limits.window) {
            let n_seen = window_pages(limits.tokens, step_tokens).saturating_mul(PAGE_TOKENS);
            windows.grow(window.insert(WindowTable::default()), n_tokens.min(n_seen))?;
        }
        let mut table = BlockTable::default();
        if let Err(error) = self.extend(&mut table, n_tokens, 0) {
            self.release_window(window);
            return Err(error.into());
        }
        self.free_slots.pop();
        Ok(Allocation { table, window, slot, n_offered: 0, tip: Parent::Root(Root::Salted(0)) })
    }

    /// Room for `n_tokens` tokens in all. What could be taken before a refusal stays with the sequence.
    ///
    /// # Errors
    /// Too few pages are free.
    pub fn grow(&mut self, allocation: &mut Allocation, n_tokens: u32) -> Result<(), OutOfPages> {
        self.extend(&mut allocation.table, n_tokens, 0)?;
        match (&mut self.windows, &mut allocation.window) {
            (Some(windows), Some(table)) => windows.grow(table, n_tokens),
            _ => Ok(()),
        }
    }

    /// Room in the windows for as many of `n_tokens` tokens in all as leave `n_spare` pages free there, or for as many
    /// as there was room for before. Returns how many.
    pub fn reach(&mut self, allocation: &mut Allocation, n_tokens: u32, n_spare: u32) -> u32 {
        let (Some(windows), Some(table)) = (&mut self.windows, &mut allocation.window) else { return n_tokens };
        let n_tokens = windows.reachable(table, n_tokens, n_spare);
        windows.grow(table, n_tokens).expect("as many pages are free as were counted");
        n_tokens
    }

    /// From these positions of a sequence, the ends of pages, other texts may go on.
    pub fn add_points(allocation: &mut Allocation, positions: impl Iterator<Item = u32>) {
        if let Some(table) = &mut allocation.window {
            Windows::add_points(table, positions);
        }
    }

    /// A sequence holds less of its window than it may come to.
    #[must_use]
    pub fn is_window_growing(&self, allocation: &Allocation) -> bool {
        self.windows.as_ref().zip(allocation.window.as_ref()).is_some_and(|(windows, table)| windows.is_growing(table))
    }

    /// The next token of a sequence is at `position`: pages that only tokens before it see go back.
    pub fn advance(&mut self, allocation: &mut Allocation, position: u32) {
        if let (Some(windows), Some(table)) = (&mut self.windows, &mut allocation.window) {
            windows.slide(table, position);
        }
    }

    /// The first `n_computed` tokens of a sequence are computed: its full pages become known, and what only
    /// those tokens see goes back. With `snapshot` the recurrent state, which is that after those tokens,
    /// is kept too if they end a page.
    pub fn computed(&mut self, allocation: &mut Allocation, tokens: &[u32], n_computed: u32, snapshot: bool) {
        let n_full = n_computed / PAGE_TOKENS;
        while allocation.n_offered < n_full {
            let index = allocation.n_offered as usize;
            let tokens = &tokens[index * PAGE_TOKENS as usize..][..PAGE_TOKENS as usize];
            let page = allocation.table.pages()[index];
            let known = self.prefixes.add(allocation.tip, tokens, page);
            if known.page == page {
                self.pool.keep(page);
            } else {
                self.pool.share(known.page);
                self.pool.release(allocation.table.replace(index, known.page));
            }
            if let (Some(windows), Some(table)) = (&mut self.windows, &mut allocation.window) {
                windows.add(table, allocation.n_offered, known.page);
            }
            allocation.tip = known.as_parent;
            allocation.n_offered += 1;
        }
        self.advance(allocation, n_computed);
        if snapshot && n_computed > 0 && n_computed.is_multiple_of(PAGE_TOKENS) && self.limits.is_recurrent {
            let page = allocation.table.pages()[n_full as usize - 1];
            if let Some(to) = self.snapshots.add(page) {
                self.copies.push(StateCopy { from: allocation.slot, to });
            }
        }
    }

    /// Takes an allocation back.
    pub fn release(&mut self, allocation: Allocation) {
        let Allocation { table, window, slot, .. } = allocation;
        table.release(&mut self.pool);
        self.release_window(window);
        self.free_slots.push(slot);
    }

    fn release_window(&mut self, window: Option<WindowTable>) {
        if let (Some(windows), Some(table)) = (&mut self.windows, window) {
            windows.release(table);
        }
    }

    /// Copies of state to be carried out, in this order, before anything is computed.
    pub fn take_copies(&mut self) -> Vec<StateCopy> {
        std::mem::take(&mut self.copies)
    }

    /// The known pages with which `tokens` begin, as far as they can be used, and what a page after them has as its parent;
    /// and how many there are in all.
    fn find(&self, tokens: &[u32], root: Parent) -> (Vec<PageId>, Parent, u32) {
        let (mut pages, mut tip) = (Vec::new(), root);
        let mut usable = (0, root);
        // Pages at the end of those found that are still there for windows too.
        let mut n_windowed = 0;
        let but_one = tokens.split_last().map_or(tokens, |(_, tokens)| tokens);
        for tokens in but_one.chunks_exact(PAGE_TOKENS as usize) {
            let Some(known) = self.prefixes.find(tip, tokens) else { break };
            pages.push(known.page);
            tip = known.as_parent;
            let has_state = !self.limits.is_recurrent || self.snapshots.of(known.page).is_some();
            let has_window = self.windows.as_ref().is_none_or(|windows| {
                n_windowed = if windows.of(known.page).is_some() { n_windowed + 1 } else { 0 };
                let n_found = u32::try_from(pages.len()).expect("a pool has fewer than 2^32 pages");
                n_windowed + windows.first_page(n_found * PAGE_TOKENS) >= n_found
            });
            if has_state && has_window {
                usable = (pages.len(), tip);
            }
        }
        let n_known = u32::try_from(pages.len()).expect("a pool has fewer than 2^32 pages");
        pages.truncate(usable.0);
        (pages, usable.1, n_known)
    }

    fn extend(&mut self, table: &mut BlockTable, n_tokens: u32, n_spare: u32) -> Result<(), OutOfPages> {
        let Kv { pool, prefixes, snapshots, windows, .. } = self;
        let n_missing = table.n_missing(n_tokens);
        let needed = n_missing as usize + n_spare as usize;
        if n_missing > 0 && needed > pool.n_free() {
            return Err(OutOfPages { needed, free: pool.n_free(), n_pages: pool.n_pages() });
        }
        table.append(pool.alloc(n_missing, |page| {
            prefixes.forget(page);
            snapshots.forget(page);
            windows.iter_mut().for_each(|windows| windows.forget(page));
        })?);
        Ok(())
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
mod tests;
