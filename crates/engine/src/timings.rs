//! When things happened to a request.
//!
//! The clock is passed in, so that tests and the simulation decide what time it is.

use std::time::{Duration, Instant};

/// Tells the time; a test passes one that it moves by hand.
pub type Clock = Box<dyn Fn() -> Instant + Send>;

/// How long the parts of a request took. Parts that it did not reach are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission until the request began to run.
    pub queued: Duration,
    /// From the beginning until the first token: the prompt.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// From submission to the first token; none if there was no token.
    pub time_to_first_token: Option<Duration>,
}

/// The instants that a request has passed so far.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    submitted: Instant,
    started: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Marks {
    /// A request that has just been submitted.
    #[must_use]
    pub fn submitted(now: Instant) -> Marks {
        Marks { submitted: now, started: None, first_token: None, last_token: None }
    }

    /// The request begins to run.
    pub fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    /// The request has one token more.
    pub fn token(&mut self, now: Instant) {
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
    }

    /// How long the request waited until it began to run; none if it has not.
    #[must_use]
    pub fn queued(&self) -> Option<Duration> {
        self.started.map(|started| started.saturating_duration_since(self.submitted))
    }

    /// The marks of two choices of one request.
    #[must_use]
    pub fn joined(&self, other: &Marks) -> Marks {
        let earlier = |a: Option<Instant>, b: Option<Instant>| a.into_iter().chain(b).min();
        Marks {
            submitted: self.submitted.min(other.submitted),
            started: earlier(self.started, other.started),
            first_token: earlier(self.first_token, other.first_token),
            last_token: self.last_token.max(other.last_token),
        }
    }

    /// What the parts took until `now`.
    #[must_use]
    pub fn timings(&self, now: Instant) -> Timings {
        let started = self.started.unwrap_or(now);
        Timings {
            queued: started.saturating_duration_since(self.submitted),
            prefill: self.first_token.unwrap_or(now).saturating_duration_since(started),
            decode: match (self.first_token, self.last_token) {
                (Some(first), Some(last)) => last.saturating_duration_since(first),
                _ => Duration::ZERO,
            },
            time_to_first_token: self.first_token.map(|first| first.saturating_duration_since(self.submitted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut marks = Marks::submitted(at(0));
        assert_eq!(marks.timings(at(5)).queued, Duration::from_millis(5));
        marks.start(at(10));
        marks.token(at(110));
        marks.token(at(130));
        marks.token(at(150));
        let timings = marks.timings(at(1000));
        assert_eq!(timings.queued, Duration::from_millis(10));
        assert_eq!(timings.prefill, Duration::from_millis(100));
        assert_eq!(timings.decode, Duration::from_millis(40));
        assert_eq!(timings.time_to_first_token, Some(Duration::from_millis(110)));
    }

    #[test]
    fn a_request_runs_from_the_first_token_of_any_choice_to_the_last() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut first = Marks::submitted(at(0));
        first.start(at(10));
        let mut second = first;
        first.token(at(20));
        second.token(at(30));
        second.token(at(70));
        for joined in [first.joined(&second), second.joined(&first)] {
            let timings = joined.timings(at(100));
            assert_eq!(joined.queued(), Some(Duration::from_millis(10)));
            assert_eq!((timings.prefill, timings.decode), (Duration::from_millis(10), Duration::from_millis(50)));
        }
    }

    #[test]
    fn a_request_that_ended_early_has_no_first_token() {
        let zero = Instant::now();
        let mut marks = Marks::submitted(zero);
        marks.start(zero);
        let timings = marks.timings(zero + Duration::from_millis(7));
        assert_eq!(timings.prefill, Duration::from_millis(7));
        assert_eq!((timings.decode, timings.time_to_first_token), (Duration::ZERO, None));
    }
}
