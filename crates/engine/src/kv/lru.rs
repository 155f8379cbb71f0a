//! A list of numbers in the order of their last use: constant time to add, to take out anywhere, and
//! to take the oldest.

const NONE: u32 = u32::MAX;

/// Numbers below a bound, each in the list at most once, oldest first.
#[derive(Debug)]
pub(super) struct Lru {
    /// Neighbours of each number, and of the list's ends at index `n`: (older, newer).
    links: Vec<(u32, u32)>,
    n_listed: usize,
}

impl Lru {
    /// An empty list of numbers below `n`.
    pub(super) fn new(n: u32) -> Lru {
        assert!(n < NONE, "the last number is the mark of no neighbour");
        let mut links = vec![(NONE, NONE); n as usize];
        links.push((n, n));
        Lru { links, n_listed: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.n_listed
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.links[number as usize].0 != NONE
    }

    /// Adds a number as the newest.
    pub(super) fn push(&mut self, number: u32) {
        assert!(!self.contains(number), "{number} is in the list already");
        let end = self.end();
        let newest = self.links[end as usize].0;
        self.links[number as usize] = (newest, end);
        self.links[newest as usize].1 = number;
        self.links[end as usize].0 = number;
        self.n_listed += 1;
    }

    /// Adds a number as the oldest.
    pub(super) fn push_oldest(&mut self, number: u32) {
        assert!(!self.contains(number), "{number} is in the list already");
        let end = self.end();
        let oldest = self.links[end as usize].1;
        self.links[number as usize] = (end, oldest);
        self.links[oldest as usize].0 = number;
        self.links[end as usize].1 = number;
        self.n_listed += 1;
    }

    /// Takes a number out.
    pub(super) fn remove(&mut self, number: u32) {
        let (older, newer) = self.links[number as usize];
        assert!(older != NONE, "{number} is not in the list");
        self.links[older as usize].1 = newer;
        self.links[newer as usize].0 = older;
        self.links[number as usize] = (NONE, NONE);
        self.n_listed -= 1;
    }

    /// Makes a number of the list the newest.
    pub(super) fn touch(&mut self, number: u32) {
        self.remove(number);
        self.push(number);
    }

    /// The number that was not used for longest.
    pub(super) fn oldest(&self) -> Option<u32> {
        let end = self.end();
        Some(self.links[end as usize].1).filter(|&oldest| oldest != end)
    }

    fn end(&self) -> u32 {
        u32::try_from(self.links.len() - 1).expect("checked when the list was made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_leave_in_the_order_of_their_last_use() {
        let mut lru = Lru::new(5);
        assert_eq!(lru.oldest(), None);
        for number in [3, 0, 4, 1] {
            lru.push(number);
        }
        lru.touch(3);
        lru.remove(4);
        assert!(!lru.contains(4) && lru.contains(3) && !lru.contains(2));
        lru.push_oldest(4);
        let mut order = Vec::new();
        while let Some(oldest) = lru.oldest() {
            lru.remove(oldest);
            order.push(oldest);
        }
        assert_eq!((order, lru.len()), (vec![4, 0, 1, 3], 0));
    }
}
