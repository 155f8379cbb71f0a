//! How a wait for the device passes: asleep at first, then looking again and again.
//!
//! A thread that sleeps in the driver is woken late (H200 in a virtual machine: 116 us behind a step of 2.4 ms). Steps that follow
//! each other take about as long, so the last wait for one says when to be awake.

use std::time::Duration;

/// Time before and behind the expected end in which a thread looks: a part of the wait, within these.
const LOOKS_SHARE: u32 = 8;
const LOOKS_LEAST: Duration = Duration::from_micros(300);
const LOOKS_MOST: Duration = Duration::from_millis(1);

/// From when and until when a wait looks, counted from its begin; before and behind that it sleeps.
#[must_use]
pub(crate) fn looks(last: Duration) -> (Duration, Duration) {
    let around = (last / LOOKS_SHARE).clamp(LOOKS_LEAST, LOOKS_MOST);
    (last.saturating_sub(around), last + around)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_looks_around_the_time_that_the_last_one_took() {
        let us = Duration::from_micros;
        for (last, expected) in [
            (us(0), (us(0), us(300))),
            (us(200), (us(0), us(500))),
            (us(2400), (us(2100), us(2700))),
            (us(6400), (us(5600), us(7200))),
            (us(600_000), (us(599_000), us(601_000))),
        ] {
            assert_eq!(looks(last), expected, "{last:?}");
        }
    }
}
