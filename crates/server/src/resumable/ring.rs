//! The last events of a stream, numbered from 1; the oldest go when their bytes are too many.

use std::collections::VecDeque;

use axum::body::Bytes;

/// Bytes of events that are kept: thousands of tokens, of which a page that comes back lacks dozens.
const BYTES_MAX: usize = 1 << 20;
/// Bytes that a reader takes at once, if there are more events than one.
const TAKEN_MAX: usize = 64 << 10;

/// The last events of a stream.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Events that have gone.
    n_gone: u64,
    events: VecDeque<Bytes>,
    n_bytes: usize,
    is_over: bool,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Events, each with its number in its `id`, and the number of the last.
    Events { bytes: Bytes, last: u64 },
    /// Nothing yet.
    Nothing,
    /// Nothing ever again.
    Over,
    /// What it wants has gone.
    Lost,
}

impl Ring {
    /// Takes events as they were written; comments, which are signs of life for one reader, are left out.
    pub(super) fn push(&mut self, written: &[u8]) {
        let text = String::from_utf8_lossy(written);
        for event in text.split_terminator("\n\n").filter(|event| !event.starts_with(':')) {
            let event = Bytes::from(format!("id: {}\n{event}\n\n", self.last() + 1));
            self.n_bytes += event.len();
            self.events.push_back(event);
        }
        while self.n_bytes > BYTES_MAX && self.events.len() > 1 {
            self.n_bytes -= self.events.pop_front().map_or(0, |event| event.len());
            self.n_gone += 1;
        }
    }

    /// No more will come.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The number of the newest event; 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.n_gone + self.events.len() as u64
    }

    /// What comes after the event `last`.
    pub(super) fn after(&self, last: u64) -> Taken {
        if last < self.n_gone {
            return Taken::Lost;
        }
        let skipped = usize::try_from(last - self.n_gone).unwrap_or(usize::MAX);
        let (mut bytes, mut n_taken) = (Vec::new(), 0u64);
        for event in self.events.iter().skip(skipped) {
            if !bytes.is_empty() && bytes.len() + event.len() > TAKEN_MAX {
                break;
            }
            bytes.extend_from_slice(event);
            n_taken += 1;
        }
        match n_taken {
            0 if self.is_over => Taken::Over,
            0 => Taken::Nothing,
            _ => Taken::Events { bytes: bytes.into(), last: last + n_taken },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Ring, TAKEN_MAX, Taken};

    fn text(taken: Taken) -> (String, u64) {
        let Taken::Events { bytes, last } = taken else { panic!("{taken:?}") };
        (String::from_utf8(bytes.to_vec()).unwrap(), last)
    }

    #[test]
    fn every_reader_begins_where_it_was() {
        let mut ring = Ring::default();
        assert_eq!(ring.after(0), Taken::Nothing);
        ring.push(b"data: a\n\ndata: b\n\n");
        ring.push(b": still here\n\n");
        ring.push(b"event: x\ndata: c\n\n");
        assert_eq!(
            text(ring.after(0)),
            ("id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\nevent: x\ndata: c\n\n".to_owned(), 3)
        );
        assert_eq!(text(ring.after(2)), ("id: 3\nevent: x\ndata: c\n\n".to_owned(), 3));
        assert_eq!(ring.after(3), Taken::Nothing);
        ring.end();
        assert_eq!((ring.after(3), ring.after(9)), (Taken::Over, Taken::Over));
        assert_eq!(text(ring.after(2)).1, 3, "what a reader lacks is there after the end too");
    }

    #[test]
    fn the_oldest_go_and_a_reader_is_told() {
        let mut ring = Ring::default();
        let event = format!("data: {}\n\n", "x".repeat(10_000));
        for _ in 0..300 {
            ring.push(event.as_bytes());
        }
        assert!(ring.n_bytes <= BYTES_MAX && ring.last() == 300);
        assert_eq!(ring.after(0), Taken::Lost);
        let (mut last, mut n_reads) = (ring.n_gone, 0);
        while let Taken::Events { bytes, last: next } = ring.after(last) {
            assert!(bytes.len() <= TAKEN_MAX);
            (last, n_reads) = (next, n_reads + 1);
        }
        assert!(last == 300 && n_reads > 10);
    }
}
