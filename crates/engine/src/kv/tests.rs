//! Pages, prefixes and snapshots together.

use super::*;

const ROOT: Root = Root::Salted(0);

fn kv(n_pages: u32, n_slots: u32, n_snapshots: u32) -> Kv {
    Kv::new(KvLimits { n_pages, n_slots, n_snapshots, is_recurrent: n_snapshots > 0 })
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).collect()
}

#[test]
fn a_claim_is_all_or_nothing() {
    let mut kv = kv(4, 2, 0);
    let first = kv.claim(33).unwrap();
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1));
    assert_eq!(kv.claim(17).unwrap_err(), KvError::Pages(OutOfPages { needed: 2, free: 1, n_pages: 4 }));
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1), "a refused claim takes nothing");
    let second = kv.claim(16).unwrap();
    assert_ne!(first.slot, second.slot);
    assert_eq!(kv.claim(0).unwrap_err(), KvError::Slots { n_slots: 2 });
    kv.release(first);
    kv.release(second);
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (4, 2));
}

#[test]
fn growing_takes_only_what_is_missing() {
    let mut kv = kv(2, 1, 0);
    let mut held = kv.claim(1).unwrap();
    kv.grow(&mut held, 16).unwrap();
    assert_eq!(kv.pool().n_free(), 1);
    assert_eq!(kv.grow(&mut held, 33), Err(OutOfPages { needed: 2, free: 1, n_pages: 2 }));
    assert_eq!(held.table.n_pages(), 1);
    kv.release(held);
}

#[test]
fn a_second_sequence_takes_over_the_full_pages_that_are_computed() {
    let mut kv = kv(10, 3, 0);
    let prompt = tokens(40);
    let (mut first, n_cached) = kv.admit(&prompt, ROOT, 0).unwrap();
    assert_eq!((n_cached, first.table.n_pages()), (0, 3));
    kv.computed(&mut first, &prompt, 40, false);
    let (second, n_cached) = kv.admit(&prompt, ROOT, 0).unwrap();
    assert_eq!(n_cached, 32);
    assert_eq!(first.table.pages()[..2], second.table.pages()[..2]);
    assert_ne!(first.table.pages()[2], second.table.pages()[2], "a page that is not full is nobody else's");
    assert_eq!(kv.pool().n_refs(first.table.pages()[0]), 2);
    let (other, n_cached) = kv.admit(&prompt, Root::Salted(1), 0).unwrap();
    assert_eq!(n_cached, 0, "another salt shares nothing");
    for held in [first, second, other] {
        kv.release(held);
    }
    assert_eq!((kv.pool().n_free(), kv.pool().n_kept()), (10, 2));
    let (third, n_cached) = kv.admit(&tokens(33), ROOT, 0).unwrap();
    assert_eq!(n_cached, 32, "pages outlive their sequence");
    kv.release(third);
    let (fourth, n_cached) = kv.admit(&tokens(32), ROOT, 0).unwrap();
    assert_eq!(n_cached, 16, "one token at least is left to compute");
    kv.release(fourth);
}

#[test]
fn two_that_computed_the_same_end_with_one_copy() {
    let mut kv = kv(8, 2, 0);
    let prompt = tokens(35);
    let (mut first, _) = kv.admit(&prompt, ROOT, 0).unwrap();
    let (mut second, n_cached) = kv.admit(&prompt, ROOT, 0).unwrap();
    assert_eq!((n_cached, kv.pool().n_free()), (0, 2));
    kv.computed(&mut first, &prompt, 35, false);
    kv.computed(&mut second, &prompt, 35, false);
    assert_eq!(first.table.pages()[..2], second.table.pages()[..2]);
    assert_eq!(kv.pool().n_free(), 4);
    kv.release(first);
    kv.release(second);
    assert_eq!((kv.pool().n_free(), kv.pool().n_kept()), (8, 2));
}

#[test]
fn pages_are_given_away_from_the_end_of_the_sequence_that_was_used_least_lately() {
    let mut kv = kv(6, 2, 0);
    for base in [0, 100] {
        let prompt: Vec<u32> = (base..base + 33).collect();
        let (mut held, _) = kv.admit(&prompt, ROOT, 0).unwrap();
        kv.computed(&mut held, &prompt, 33, false);
        kv.release(held);
    }
    assert_eq!((kv.pool().n_free(), kv.pool().n_kept()), (6, 4));
    let (held, _) = kv.admit(&(200..240).collect::<Vec<_>>(), ROOT, 0).unwrap();
    let n_left = |kv: &Kv, base: u32| kv.find(&(base..base + 33).collect::<Vec<_>>(), Parent::Root(ROOT)).0.len();
    assert_eq!((n_left(&kv, 0), n_left(&kv, 100)), (1, 2));
    kv.release(held);
}

#[test]
fn spare_pages_are_left_to_others() {
    let mut kv = kv(4, 2, 0);
    let refused = kv.admit(&tokens(20), ROOT, 3).unwrap_err();
    assert_eq!(refused, KvError::Pages(OutOfPages { needed: 5, free: 4, n_pages: 4 }));
    assert!(kv.admit(&tokens(20), ROOT, 2).is_ok());
}

#[test]
fn a_recurrent_model_goes_on_only_from_a_snapshot() {
    let mut kv = kv(10, 2, 2);
    let prompt = tokens(60);
    let (mut first, _) = kv.admit(&prompt, ROOT, 0).unwrap();
    kv.computed(&mut first, &prompt, 16, false);
    kv.computed(&mut first, &prompt, 32, true);
    assert_eq!(kv.take_copies(), [StateCopy { from: first.slot, to: 2 }]);
    kv.computed(&mut first, &prompt, 40, true);
    kv.computed(&mut first, &prompt, 60, true);
    assert_eq!(kv.take_copies(), [], "a state in the middle of a page is of no use");
    let (second, n_cached) = kv.admit(&prompt, ROOT, 0).unwrap();
    assert_eq!(n_cached, 32, "three pages are known, the state after two is");
    assert_eq!(kv.take_copies(), [StateCopy { from: 2, to: second.slot }]);
    kv.release(first);
    kv.release(second);
    // Both sequences and all pages in other hands: the snapshot goes with its page.
    let all = kv.claim(160).unwrap();
    assert_eq!(kv.n_snapshots(), (0, 2));
    kv.release(all);
}
