//! Pages of the layers that see a window only.
//!
//! They have a pool of their own, and a sequence holds there only what the next token can see and what
//! the step computes; what is before that goes back as the sequence advances. A page that the prefix
//! cache knows may have its counterpart here, which is found through it and goes with it; the
//! counterparts that nobody holds are kept until their place is needed. So a sequence can take a prefix
//! over where the whole window before its end is still there. A text that goes by leaves many pages and few
//! are worth their place: those before a point where another text may go on, which is the end of a message
//! or of a prompt, the end of a text, or where one that began alike has done so. The others go first.

use std::collections::VecDeque;

use super::{OutOfPages, PAGE_TOKENS, PageId, Pool, pages_for};

/// Sizes, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Tokens that a token sees, itself included.
    pub tokens: u32,
    /// Pages of the pool: no fewer than [`window_pages`] of one token.
    pub n_pages: u32,
}

/// Pages that `n_tokens` consecutive tokens lie in, and the window before the first of them, wherever they are.
#[must_use]
pub const fn window_pages(window: u32, n_tokens: u32) -> u32 {
    // The first may be the last of its page.
    pages_for(window.saturating_add(n_tokens).saturating_add(PAGE_TOKENS - 2))
}

/// The pages of one sequence that its next tokens see.
#[derive(Debug, Default)]
pub struct WindowTable {
    /// Place of the first page in the sequence, in pages.
    first: u32,
    pages: VecDeque<PageId>,
    /// Ends of pages, counted in pages, from where other texts may go on.
    points: Vec<u32>,
}

impl WindowTable {
    /// Place of the first page that is held, in pages from the beginning of the sequence.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The pages, in the order of the tokens.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = PageId> + '_ {
        self.pages.iter().copied()
    }

    /// Place of a position in the pool: page * 16 + place in the page.
    ///
    /// # Panics
    /// If its page is not held.
    #[must_use]
    pub fn slot_of(&self, position: u32) -> u32 {
        let page = self.pages[(position / PAGE_TOKENS - self.first) as usize];
        page.0 * PAGE_TOKENS + position % PAGE_TOKENS
    }

    /// One past the last page, in pages from the beginning of the sequence.
    fn end(&self) -> u32 {
        self.first + u32::try_from(self.pages.len()).expect("a pool has fewer than 2^32 pages")
    }
}

/// The pool, and which of its pages belong to known pages of the other one.
#[derive(Debug)]
pub(super) struct Windows {
    limits: WindowLimits,
    pool: Pool,
    /// By page of the other pool.
    of_known: Vec<Option<PageId>>,
    /// By page of this one.
    known_of: Vec<Option<PageId>>,
}

impl Windows {
    /// `n_pages` are those of the other pool.
    pub(super) fn new(limits: WindowLimits, n_pages: u32) -> Windows {
        Windows {
            limits,
            pool: Pool::new(limits.n_pages),
            of_known: vec![None; n_pages as usize],
            known_of: vec![None; limits.n_pages as usize],
        }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    #[cfg(test)]
    pub(super) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The counterpart of a page of the other pool.
    pub(super) fn of(&self, known: PageId) -> Option<PageId> {
        self.of_known[known.0 as usize]
    }

    /// The first page that a token at `position` sees, in pages from the beginning of its sequence.
    pub(super) fn first_page(&self, position: u32) -> u32 {
        (position + 1).saturating_sub(self.limits.tokens) / PAGE_TOKENS
    }

    /// A table of the pages before token `16 * known.len()`, which these known pages end with, as far as that token sees
    /// them: all of those have counterparts. Of the sequence's pages
    /// `n_known_in_all` are known: where it leaves them others may too.
    pub(super) fn take_over(&mut self, known: &[PageId], n_known_in_all: u32) -> WindowTable {
        let n_known = u32::try_from(known.len()).expect("a pool has fewer than 2^32 pages");
        let first = self.first_page(n_known * PAGE_TOKENS).min(n_known);
        let pages: VecDeque<PageId> = known[first as usize..]
            .iter()
            .map(|&known| self.of(known).expect("a prefix is usable only with its window"))
            .collect();
        pages.iter().for_each(|&page| self.pool.share(page));
        WindowTable { first, pages, points: vec![n_known, n_known_in_all] }
    }

    /// Whether a sequence with that table has room to come to `n_tokens` tokens a token at a time, leaving `n_spare`
    /// pages free.
    pub(super) fn check_room(&self, table: &WindowTable, n_tokens: u32, n_spare: u32) -> Result<(), OutOfPages> {
        let most = window_pages(self.limits.tokens, 1).min(pages_for(n_tokens) - table.first);
        let n_missing = most.saturating_sub(table.end() - table.first);
        let (needed, free) = (n_missing as usize + n_spare as usize, self.pool.n_free());
        match n_missing > 0 && needed > free {
            true => Err(OutOfPages { needed, free, n_pages: self.pool.n_pages() }),
            false => Ok(()),
        }
    }

    /// From these positions, the ends of pages, other texts may go on.
    pub(super) fn add_points(table: &mut WindowTable, positions: impl Iterator<Item = u32>) {
        table.points.extend(positions.map(|position| position / PAGE_TOKENS));
    }

    /// A sequence with that table does not hold a whole window yet.
    pub(super) fn is_growing(&self, table: &WindowTable) -> bool {
        table.end() - table.first < window_pages(self.limits.tokens, 1)
    }

    /// Room for `n_tokens` tokens in all.
    pub(super) fn grow(&mut self, table: &mut WindowTable, n_tokens: u32) -> Result<(), OutOfPages> {
        let n_missing = pages_for(n_tokens).saturating_sub(table.end());
        let Windows { pool, of_known, known_of, .. } = self;
        table.pages.extend(pool.alloc(n_missing, |page| {
            if let Some(known) = known_of[page.0 as usize].take() {
                of_known[known.0 as usize] = None;
            }
        })?);
        Ok(())
    }

    /// As many of `n_tokens` tokens as there is room for with `n_spare` pages left free: never less than there are
    /// pages for already.
    pub(super) fn reachable(&self, table: &WindowTable, n_tokens: u32, n_spare: u32) -> u32 {
        let n_free = u32::try_from(self.pool.n_free()).unwrap_or(u32::MAX);
        let end = table.end().saturating_add(n_free.saturating_sub(n_spare));
        n_tokens.min(end.saturating_mul(PAGE_TOKENS))
    }

    /// Page `index` of a sequence is known, as `known`: its counterpart is shared or becomes known too.
    pub(super) fn add(&mut self, table: &mut WindowTable, index: u32, known: PageId) {
        let Some(own) = table.pages.get_mut((index - table.first) as usize) else { return };
        match self.of_known[known.0 as usize] {
            Some(page) if page == *own => {}
            Some(page) => {
                self.pool.share(page);
                self.pool.release(std::mem::replace(own, page));
            }
            None => {
                self.of_known[known.0 as usize] = Some(*own);
                self.known_of[own.0 as usize] = Some(known);
                self.pool.keep(*own);
            }
        }
    }

    /// The next token is at `position`: gives back what it does not see.
    pub(super) fn slide(&mut self, table: &mut WindowTable, position: u32) {
        let first = self.first_page(position);
        while table.first < first
            && let Some(page) = table.pages.pop_front()
        {
            let is_before =
                |&point: &u32| table.first < point && table.first >= self.first_page(point.saturating_mul(PAGE_TOKENS));
            match table.points.iter().any(is_before) {
                true => self.pool.release(page),
                false => self.pool.release_first(page),
            }
            table.first += 1;
        }
    }

    /// Gives every page back, the first before the others: of pages that are kept, the end of a window is worth more.
    pub(super) fn release(&mut self, table: WindowTable) {
        table.pages.into_iter().for_each(|page| self.pool.release(page));
    }

    /// Counterparts are each other's, and whoever holds one holds the other.
    #[cfg(test)]
    pub(super) fn check(&self, known: &Pool) {
        for (page, own) in (0..).map(PageId).zip(&self.of_known) {
            let Some(own) = *own else { continue };
            assert_eq!(self.known_of[own.0 as usize], Some(page));
            assert!(self.pool.n_refs(own) <= known.n_refs(page), "{own:?} of windows is held without {page:?}");
        }
        let n_known = self.of_known.iter().flatten().count();
        assert_eq!(n_known, self.known_of.iter().flatten().count());
    }

    /// A page of the other pool will hold something else: nobody finds its counterpart any more.
    pub(super) fn forget(&mut self, known: PageId) {
        if let Some(page) = self.of_known[known.0 as usize].take() {
            self.known_of[page.0 as usize] = None;
            self.pool.forget(page);
        }
    }
}
