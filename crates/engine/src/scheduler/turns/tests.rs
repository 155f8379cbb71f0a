//! The choice from made-up times.

use super::*;

/// Milliseconds of a step on a device with falls after 16 and 32 sequences.
pub(in crate::scheduler) fn with_falls(n: usize) -> f64 {
    let between = |n: usize, (from, low): (usize, f64), (to, high): (usize, f64)| {
        low + (high - low) * (n - from) as f64 / (to - from) as f64
    };
    match n {
        0..=16 => between(n, (0, 5.9), (16, 6.43)),
        17..=24 => 7.86,
        25..=32 => between(n, (24, 7.86), (32, 8.38)),
        _ => between(n, (33, 11.4), (64, 13.0)),
    }
}

/// Milliseconds of a step on a device where every sequence costs the same.
fn linear(n: usize) -> f64 {
    1.0 + 4.0 * n as f64
}

/// The numbers of `n_steps` steps of `n` sequences, each of which takes what `cost` says of it.
fn steps(turns: &mut Turns, n: usize, n_steps: usize, mut cost: impl FnMut(usize) -> f64) -> Vec<usize> {
    let mut step = || {
        let n_decodes = turns.n_decodes(n);
        turns.observe(n_decodes, Duration::from_secs_f64(cost(n_decodes) * 1e-3));
        n_decodes
    };
    (0..n_steps).map(|_| step()).collect()
}

/// How many steps are of that number.
fn count(steps: &[usize], n: usize) -> usize {
    steps.iter().filter(|&&step| step == n).count()
}

/// Noise between -1 and 1.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
}

#[test]
fn all_go_until_their_times_are_known_and_then_fewer_are_tried() {
    let mut turns = Turns::new(64);
    assert_eq!(steps(&mut turns, 17, 3, with_falls), [17; 3]);
    assert_eq!(steps(&mut turns, 17, 3, with_falls), [16; 3]);
    assert_eq!(turns.n_decodes(17), 16, "they are faster");
    assert_eq!(turns.n_decodes(18), 18, "nothing is known of it");
    let mut turns = Turns::new(64);
    assert_eq!(steps(&mut turns, 24, 6, with_falls), [24, 24, 24, 16, 16, 16]);
    assert_eq!(turns.n_decodes(24), 24, "fewer are not faster");
    assert_eq!((1..=2).map(|n| Turns::new(2).n_decodes(n)).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn fewer_go_where_that_is_faster() {
    let mut turns = Turns::new(64);
    for n in 1..=64 {
        let steps = steps(&mut turns, n, 1000, with_falls);
        let expected = match n {
            17..=19 => 16,
            33..=45 => 32,
            _ => n,
        };
        let n_others = 1000 - count(&steps, expected);
        assert!(n_others <= 20, "{n} sequences: {n_others} steps are not of {expected}");
    }
}

#[test]
fn all_go_where_every_sequence_costs_the_same() {
    let mut state = 1;
    // What times differ by, in percent up and down, and how many of a thousand steps may be of fewer.
    for (spread, most) in [(0.0, 10), (3.0, 20), (10.0, 30), (30.0, 50)] {
        let mut turns = Turns::new(64);
        let mut n_fewer = 0;
        for n in 3..=64 {
            let cost = |n| linear(n) * (1.0 + spread / 100.0 * noise(&mut state));
            n_fewer += 1000 - count(&steps(&mut turns, n, 1000, cost), n);
        }
        assert!(n_fewer <= 62 * most, "spread of {spread} %: {n_fewer} of 62000 steps");
    }
}

#[test]
fn a_device_that_takes_no_time_computes_all() {
    let steps = steps(&mut Turns::new(8), 7, 1000, |_| 0.0);
    assert!(count(&steps, 7) > 980);
}

#[test]
fn trials_take_less_than_a_hundredth() {
    for n in [3, 17, 31, 33, 45, 63] {
        let mut turns = Turns::new(64);
        steps(&mut turns, n, 1000, with_falls);
        let steps = steps(&mut turns, n, 12_800, with_falls);
        let seconds: f64 = steps.iter().map(|&n| with_falls(n)).sum();
        let rate = steps.iter().sum::<usize>() as f64 / seconds;
        let fewer = n.next_power_of_two() / 2;
        let best = (n as f64 / with_falls(n)).max(fewer as f64 / with_falls(fewer));
        assert!(rate > 0.99 * best, "{n} sequences: {rate} of {best} tokens per ms");
        let n_trials = count(&steps, n).min(count(&steps, fewer));
        assert!((90..=110).contains(&n_trials), "{n} sequences: {n_trials} trials");
    }
}

/// Trials are of steps, whatever number of sequences they have.
#[test]
fn numbers_that_change_have_no_more_trials() {
    let mut turns = Turns::new(64);
    (33..64).for_each(|n| drop(steps(&mut turns, n, 500, with_falls)));
    let n_trials: usize = (0..500)
        .flat_map(|_| 33..64)
        .map(|n| usize::from((steps(&mut turns, n, 1, with_falls) == [32]) != (n <= 45)))
        .sum();
    assert!((100..=130).contains(&n_trials), "{n_trials} of 15500 steps");
}

#[test]
fn a_step_that_was_held_up_changes_nothing() {
    for n in [17, 24] {
        let mut turns = Turns::new(64);
        let mut n_step = 0;
        let held_up = |n| {
            n_step += 1;
            if n_step % 7 == 2 { 1000.0 } else { with_falls(n) }
        };
        let steps = steps(&mut turns, n, 1000, held_up);
        let expected = if n == 17 { 16 } else { 24 };
        assert!(count(&steps, expected) > 980, "{n} sequences");
    }
}

#[test]
fn what_was_measured_while_nothing_was_warm_is_soon_forgotten() {
    let mut turns = Turns::new(64);
    assert_eq!(steps(&mut turns, 31, 3, |_| 100.0), [31; 3]);
    let warming = steps(&mut turns, 31, 64, with_falls);
    assert_eq!(warming[4], 16);
    assert_eq!(turns.n_decodes(31), 31);
}

#[test]
fn times_that_change_are_noticed() {
    let mut turns = Turns::new(64);
    steps(&mut turns, 33, 2000, with_falls);
    assert_eq!(turns.n_decodes(33), 32);
    // The fall is gone, as if the texts were so long that all else is little.
    steps(&mut turns, 33, 1000, |n| 10.0 * linear(n));
    let rest = steps(&mut turns, 33, 1000, |n| 10.0 * linear(n));
    assert!(count(&rest, 33) > 980);
    steps(&mut turns, 33, 1000, with_falls);
    let rest = steps(&mut turns, 33, 1000, with_falls);
    assert!(count(&rest, 32) > 980);
}
