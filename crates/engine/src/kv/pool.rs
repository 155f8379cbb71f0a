//! The pool of pages: a free list and a reference count for each page.
//!
//! A page is free exactly when its count is zero. Handing a page back that nobody holds would give
//! one page to two sequences later, so that is an assertion and not an error.

/// A page of the cache of keys and values, in every layer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// All pages, fixed at start.
#[derive(Debug)]
pub struct Pool {
    free: Vec<PageId>,
    n_refs: Vec<u32>,
}

impl Pool {
    /// `n_pages` free pages.
    #[must_use]
    pub fn new(n_pages: u32) -> Pool {
        Pool { free: (0..n_pages).rev().map(PageId).collect(), n_refs: vec![0; n_pages as usize] }
    }

    /// Pages in all.
    #[must_use]
    pub fn n_pages(&self) -> usize {
        self.n_refs.len()
    }

    /// Pages that nobody holds.
    #[must_use]
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Holders of a page.
    ///
    /// # Panics
    /// If the page is not of this pool.
    #[must_use]
    pub fn n_refs(&self, page: PageId) -> u32 {
        self.n_refs[page.0 as usize]
    }

    /// `n` pages with one holder each: all of them or none.
    ///
    /// # Errors
    /// Fewer than `n` pages are free.
    pub fn alloc(&mut self, n: u32) -> Result<Vec<PageId>, OutOfPages> {
        let n = n as usize;
        if n > self.free.len() {
            return Err(OutOfPages { needed: n, free: self.free.len(), n_pages: self.n_pages() });
        }
        let mut pages = self.free.split_off(self.free.len() - n);
        pages.reverse();
        for page in &pages {
            self.n_refs[page.0 as usize] = 1;
        }
        Ok(pages)
    }

    /// One more holder of a page that is held.
    ///
    /// # Panics
    /// If nobody holds the page.
    pub fn share(&mut self, page: PageId) {
        let n_refs = &mut self.n_refs[page.0 as usize];
        assert!(*n_refs > 0, "{page:?} is free and cannot be shared");
        *n_refs += 1;
    }

    /// One holder fewer; the last one frees the page.
    ///
    /// # Panics
    /// If nobody holds the page.
    pub fn release(&mut self, page: PageId) {
        let n_refs = &mut self.n_refs[page.0 as usize];
        assert!(*n_refs > 0, "{page:?} is released more often than it was taken");
        *n_refs -= 1;
        if *n_refs == 0 {
            self.free.push(page);
        }
    }
}

/// Fewer pages are free than are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} pages of the KV cache are needed, {free} of {n_pages} are free")]
pub struct OutOfPages {
    /// Pages asked for.
    pub needed: usize,
    /// Pages free.
    pub free: usize,
    /// Pages in all.
    pub n_pages: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alloc_gives_all_or_none() {
        let mut pool = Pool::new(3);
        assert_eq!(pool.alloc(2), Ok(vec![PageId(1), PageId(0)].into_iter().rev().collect()));
        assert_eq!(pool.alloc(2), Err(OutOfPages { needed: 2, free: 1, n_pages: 3 }));
        assert_eq!(pool.n_free(), 1);
        assert_eq!(pool.alloc(0), Ok(vec![]));
    }

    #[test]
    fn a_shared_page_is_free_when_the_last_holder_leaves() {
        let mut pool = Pool::new(1);
        let page = pool.alloc(1).unwrap()[0];
        pool.share(page);
        pool.release(page);
        assert_eq!((pool.n_refs(page), pool.n_free()), (1, 0));
        pool.release(page);
        assert_eq!((pool.n_refs(page), pool.n_free()), (0, 1));
    }

    #[test]
    #[should_panic(expected = "released more often")]
    fn a_double_free_is_caught() {
        let mut pool = Pool::new(1);
        let page = pool.alloc(1).unwrap()[0];
        pool.release(page);
        pool.release(page);
    }
}
