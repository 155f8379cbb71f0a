//! The pool of pages: reference counts, free pages, and pages that nobody holds but that are kept.
//!
//! A page is held exactly while its count is above zero. One that is let go is free, or, if it is
//! known to the prefix cache, kept until its place is needed: the one that was not used for longest
//! goes first. Handing a page back that nobody holds would give one page to two sequences later, so
//! that is an assertion and not an error.

use super::lru::Lru;

/// A page of the cache of keys and values, in every layer of its pool at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// All pages, fixed at start.
#[derive(Debug)]
pub struct Pool {
    free: Vec<PageId>,
    n_refs: Vec<u32>,
    /// Worth keeping when nobody holds them.
    is_known: Vec<bool>,
    kept: Lru,
}

impl Pool {
    /// `n_pages` free pages.
    #[must_use]
    pub fn new(n_pages: u32) -> Pool {
        Pool {
            free: (0..n_pages).rev().map(PageId).collect(),
            n_refs: vec![0; n_pages as usize],
            is_known: vec![false; n_pages as usize],
            kept: Lru::new(n_pages),
        }
    }

    /// Pages in all.
    #[must_use]
    pub fn n_pages(&self) -> usize {
        self.n_refs.len()
    }

    /// Pages that nobody holds; those kept for reuse are among them.
    #[must_use]
    pub fn n_free(&self) -> usize {
        self.free.len() + self.kept.len()
    }

    /// Pages that nobody holds and that are kept.
    #[must_use]
    pub fn n_kept(&self) -> usize {
        self.kept.len()
    }

    /// Holders of a page.
    ///
    /// # Panics
    /// If the page is not of this pool.
    #[must_use]
    pub fn n_refs(&self, page: PageId) -> u32 {
        self.n_refs[page.0 as usize]
    }

    /// `n` pages with one holder each: all of them or none. `forget` is told of each kept page that
    /// is given away.
    ///
    /// # Errors
    /// Fewer than `n` pages are free.
    pub fn alloc(&mut self, n: u32, mut forget: impl FnMut(PageId)) -> Result<Vec<PageId>, OutOfPages> {
        let n = n as usize;
        if n > self.n_free() {
            return Err(OutOfPages { needed: n, free: self.n_free(), n_pages: self.n_pages() });
        }
        let mut pages = Vec::with_capacity(n);
        for _ in 0..n {
            let page = self.free.pop().unwrap_or_else(|| {
                let page = PageId(self.kept.oldest().expect("there are as many free pages as were counted"));
                self.kept.remove(page.0);
                self.is_known[page.0 as usize] = false;
                forget(page);
                page
            });
            self.n_refs[page.0 as usize] = 1;
            pages.push(page);
        }
        Ok(pages)
    }

    /// Keep this page when its last holder leaves.
    ///
    /// # Panics
    /// If nobody holds the page.
    pub fn keep(&mut self, page: PageId) {
        assert!(self.n_refs(page) > 0, "{page:?} is held by nobody, so nothing is known of it");
        self.is_known[page.0 as usize] = true;
    }

    /// Nobody will look for this page any more: it is free once nobody holds it.
    pub fn forget(&mut self, page: PageId) {
        if self.kept.contains(page.0) {
            self.kept.remove(page.0);
            self.free.push(page);
        }
        self.is_known[page.0 as usize] = false;
    }

    /// One more holder of a page that is held or kept.
    ///
    /// # Panics
    /// If the page is free.
    pub fn share(&mut self, page: PageId) {
        let n_refs = &mut self.n_refs[page.0 as usize];
        if *n_refs == 0 {
            assert!(self.kept.contains(page.0), "{page:?} is free and cannot be shared");
            self.kept.remove(page.0);
        }
        *n_refs += 1;
    }

    /// One holder fewer; after the last one the page is kept or free.
    ///
    /// # Panics
    /// If nobody holds the page.
    pub fn release(&mut self, page: PageId) {
        self.release_to(page, Lru::push);
    }

    /// The same, and if the page is kept then its place is the first to be given away.
    ///
    /// # Panics
    /// If nobody holds the page.
    pub fn release_first(&mut self, page: PageId) {
        self.release_to(page, Lru::push_oldest);
    }

    fn release_to(&mut self, page: PageId, place: fn(&mut Lru, u32)) {
        let n_refs = &mut self.n_refs[page.0 as usize];
        assert!(*n_refs > 0, "{page:?} is released more often than it was taken");
        *n_refs -= 1;
        if *n_refs == 0 {
            if self.is_known[page.0 as usize] {
                place(&mut self.kept, page.0);
            } else {
                self.free.push(page);
            }
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

    fn alloc(pool: &mut Pool, n: u32) -> Result<Vec<PageId>, OutOfPages> {
        pool.alloc(n, |page| panic!("{page:?} was not kept"))
    }

    #[test]
    fn alloc_gives_all_or_none() {
        let mut pool = Pool::new(3);
        assert_eq!(alloc(&mut pool, 2), Ok(vec![PageId(0), PageId(1)]));
        assert_eq!(alloc(&mut pool, 2), Err(OutOfPages { needed: 2, free: 1, n_pages: 3 }));
        assert_eq!(pool.n_free(), 1);
        assert_eq!(alloc(&mut pool, 0), Ok(vec![]));
    }

    #[test]
    fn a_page_of_little_worth_and_a_forgotten_one_go_first() {
        let mut pool = Pool::new(3);
        let pages = alloc(&mut pool, 3).unwrap();
        pages.iter().for_each(|&page| pool.keep(page));
        pool.release(pages[0]);
        pool.release_first(pages[1]);
        pool.release(pages[2]);
        pool.forget(pages[2]);
        assert_eq!((pool.n_free(), pool.n_kept()), (3, 2));
        let mut forgotten = Vec::new();
        assert_eq!(pool.alloc(2, |page| forgotten.push(page)), Ok(vec![pages[2], pages[1]]));
        assert_eq!(forgotten, [pages[1]]);
        pool.forget(pages[1]);
        pool.release(pages[1]);
        assert_eq!((pool.n_free(), pool.n_kept()), (2, 1), "a held page is free when it is released");
    }

    #[test]
    fn a_shared_page_is_free_when_the_last_holder_leaves() {
        let mut pool = Pool::new(1);
        let page = alloc(&mut pool, 1).unwrap()[0];
        pool.share(page);
        pool.release(page);
        assert_eq!((pool.n_refs(page), pool.n_free()), (1, 0));
        pool.release(page);
        assert_eq!((pool.n_refs(page), pool.n_free(), pool.n_kept()), (0, 1, 0));
    }

    #[test]
    fn kept_pages_can_be_shared_again_until_the_oldest_is_given_away() {
        let mut pool = Pool::new(3);
        let pages = alloc(&mut pool, 3).unwrap();
        for &page in &pages {
            pool.keep(page);
            pool.release(page);
        }
        assert_eq!((pool.n_free(), pool.n_kept()), (3, 3));
        pool.share(pages[0]);
        let mut forgotten = Vec::new();
        assert_eq!(pool.alloc(1, |page| forgotten.push(page)), Ok(vec![pages[1]]));
        assert_eq!(forgotten, [pages[1]]);
        pool.release(pages[1]);
        assert_eq!((pool.n_free(), pool.n_kept()), (2, 1), "what was given away is not known any more");
        pool.release(pages[0]);
        assert_eq!((pool.n_free(), pool.n_kept()), (3, 2));
    }

    #[test]
    #[should_panic(expected = "released more often")]
    fn a_double_free_is_caught() {
        let mut pool = Pool::new(1);
        let page = alloc(&mut pool, 1).unwrap()[0];
        pool.release(page);
        pool.release(page);
    }
}
