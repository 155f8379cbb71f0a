//! Faults that are planted in a running simulation. Each must be found, whatever the seed.

use super::{Simulation, simulate};
use crate::sequence::Sequence;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A page is taken and never given back.
    Leak,
    /// A page that a sequence holds is given back.
    DoubleFree,
    /// A page for windows is taken and never given back.
    WindowLeak,
    /// A window is moved on before its tokens are computed.
    WindowTooEarly,
    /// The first of the queue is passed over.
    Starve,
    /// A copy of recurrent state is not carried out.
    LostCopy,
    /// Whose turn it is is forgotten.
    LostTurn,
}

impl Simulation {
    /// Breaks what is broken once.
    pub(super) fn plant(&mut self, fault: Fault) {
        match fault {
            Fault::Leak => {
                let _ = self.scheduler.kv.pool_mut().alloc(1, |_| ());
            }
            Fault::DoubleFree => {
                let page = self.scheduler.running.first().map(|r| r.kv.table.pages()[0]);
                page.into_iter().for_each(|page| self.scheduler.kv.pool_mut().release(page));
            }
            Fault::WindowLeak => {
                let pool = self.scheduler.kv.window_pool_mut();
                let _ = pool.map(|pool| pool.alloc(1, |_| ()));
            }
            Fault::WindowTooEarly => {
                if let Some(running) = self.scheduler.running.first_mut() {
                    let position = running.sequence.n_computed + crate::kv::PAGE_TOKENS;
                    self.scheduler.kv.advance(&mut running.kv, position);
                }
            }
            Fault::LostTurn => {
                for running in &mut self.scheduler.running {
                    running.turn = running.sequence.id.request.0;
                    running.is_left_out = false;
                }
            }
            Fault::Starve | Fault::LostCopy => {}
        }
    }

    /// Takes the first of the queue away while others are chosen.
    pub(super) fn starved(&mut self) -> Option<Sequence> {
        let is_starving = self.fault == Some(Fault::Starve) && self.step > 50;
        if is_starving { self.scheduler.waiting.pop_front() } else { None }
    }

    /// Copies that are not carried out.
    pub(super) fn lost_copies(&mut self, n_copies: usize) -> usize {
        if self.fault == Some(Fault::LostCopy) && self.step > 50 { n_copies } else { 0 }
    }
}

/// The seeds in which a fault shows in `n_steps` steps, of `n_seeds`.
fn n_found(fault: Fault, n_seeds: u64, n_steps: u64) -> u64 {
    let is_found = |&seed: &u64| std::panic::catch_unwind(|| simulate(seed, n_steps, Some(fault))).is_err();
    (0..n_seeds).filter(is_found).count() as u64
}

#[test]
fn a_leaked_page_is_found() {
    assert_eq!(n_found(Fault::Leak, 50, 2000), 50);
}

#[test]
fn a_double_free_is_found() {
    assert_eq!(n_found(Fault::DoubleFree, 50, 2000), 50);
}

#[test]
fn a_starved_request_is_found() {
    assert_eq!(n_found(Fault::Starve, 50, 2000), 50);
}

/// Half of the seeds have recurrent state, and most of those have snapshots.
#[test]
fn a_lost_copy_of_state_is_found() {
    let n_found = n_found(Fault::LostCopy, 50, 4000);
    assert!(n_found >= 15, "{n_found}");
}

/// Those of the seeds that have windows.
fn n_windowed(n_seeds: u64) -> u64 {
    (0..n_seeds).filter(|&seed| Simulation::new(seed, None).limits.kv.window.is_some()).count() as u64
}

#[test]
fn a_leaked_page_of_a_window_is_found() {
    let n_windowed = n_windowed(50);
    assert!(n_windowed > 15, "{n_windowed}");
    assert_eq!(n_found(Fault::WindowLeak, 50, 2000), n_windowed);
}

#[test]
fn a_window_that_moves_too_early_is_found() {
    assert_eq!(n_found(Fault::WindowTooEarly, 50, 2000), n_windowed(50));
}

/// Those of the seeds where sequences take turns.
fn n_rotating(n_seeds: u64, n_steps: u64) -> u64 {
    let is_rotating = |&seed: &u64| simulate(seed, n_steps, None).scheduler.counters().n_rotated_steps > 100;
    (0..n_seeds).filter(is_rotating).count() as u64
}

#[test]
fn a_lost_turn_is_found() {
    let n_rotating = n_rotating(50, 2000);
    assert!(n_rotating > 10, "{n_rotating}");
    let n_found = n_found(Fault::LostTurn, 50, 2000);
    assert!(n_found >= n_rotating, "{n_found} of {n_rotating}");
}
