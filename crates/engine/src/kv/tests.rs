//! Pages, prefixes and snapshots together.

use super::*;

const ROOT: Root = Root::Salted(0);
const NONE: Spare = spare(0);

const fn spare(n_pages: u32) -> Spare {
    Spare { n_pages, n_window_pages: 0 }
}

fn kv(n_pages: u32, n_slots: u32, n_snapshots: u32) -> Kv {
    Kv::new(KvLimits { n_pages, n_slots, n_snapshots, is_recurrent: n_snapshots > 0, window: None })
}

fn tokens(n: u32) -> Vec<u32> {
    (0..n).collect()
}

#[test]
fn a_claim_is_all_or_nothing() {
    let mut kv = kv(4, 2, 0);
    let first = kv.claim(33, 16).unwrap();
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1));
    assert_eq!(kv.claim(17, 16).unwrap_err(), KvError::Pages(OutOfPages { needed: 2, free: 1, n_pages: 4 }));
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (1, 1), "a refused claim takes nothing");
    let second = kv.claim(16, 16).unwrap();
    assert_ne!(first.slot, second.slot);
    assert_eq!(kv.claim(0, 16).unwrap_err(), KvError::Slots { n_slots: 2 });
    kv.release(first);
    kv.release(second);
    assert_eq!((kv.pool().n_free(), kv.n_free_slots()), (4, 2));
}

#[test]
fn growing_takes_only_what_is_missing() {
    let mut kv = kv(2, 1, 0);
    let mut held = kv.claim(1, 16).unwrap();
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
    let (mut first, n_cached) = kv.admit(&prompt, ROOT, NONE).unwrap();
    assert_eq!((n_cached, first.table.n_pages()), (0, 3));
    kv.computed(&mut first, &prompt, 40, false);
    let (second, n_cached) = kv.admit(&prompt, ROOT, NONE).unwrap();
    assert_eq!(n_cached, 32);
    assert_eq!(first.table.pages()[..2], second.table.pages()[..2]);
    assert_ne!(first.table.pages()[2], second.table.pages()[2], "a page that is not full is nobody else's");
    assert_eq!(kv.pool().n_refs(first.table.pages()[0]), 2);
    let (other, n_cached) = kv.admit(&prompt, Root::Salted(1), NONE).unwrap();
    assert_eq!(n_cached, 0, "another salt shares nothing");
    for held in [first, second, other] {
        kv.release(held);
    }
    assert_eq!((kv.pool().n_free(), kv.pool().n_kept()), (10, 2));
    let (third, n_cached) = kv.admit(&tokens(33), ROOT, NONE).unwrap();
    assert_eq!(n_cached, 32, "pages outlive their sequence");
    kv.release(third);
    let (fourth, n_cached) = kv.admit(&tokens(32), ROOT, NONE).unwrap();
    assert_eq!(n_cached, 16, "one token at least is left to compute");
    kv.release(fourth);
}

#[test]
fn two_that_computed_the_same_end_with_one_copy() {
    let mut kv = kv(8, 2, 0);
    let prompt = tokens(35);
    let (mut first, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    let (mut second, n_cached) = kv.admit(&prompt, ROOT, NONE).unwrap();
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
        let (mut held, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
        kv.computed(&mut held, &prompt, 33, false);
        kv.release(held);
    }
    assert_eq!((kv.pool().n_free(), kv.pool().n_kept()), (6, 4));
    let (held, _) = kv.admit(&(200..240).collect::<Vec<_>>(), ROOT, NONE).unwrap();
    let n_left = |kv: &Kv, base: u32| kv.find(&(base..base + 33).collect::<Vec<_>>(), Parent::Root(ROOT)).0.len();
    assert_eq!((n_left(&kv, 0), n_left(&kv, 100)), (1, 2));
    kv.release(held);
}

#[test]
fn spare_pages_are_left_to_others() {
    let mut kv = kv(4, 2, 0);
    let refused = kv.admit(&tokens(20), ROOT, spare(3)).unwrap_err();
    assert_eq!(refused, KvError::Pages(OutOfPages { needed: 5, free: 4, n_pages: 4 }));
    assert!(kv.admit(&tokens(20), ROOT, spare(2)).is_ok());
}

#[test]
fn a_recurrent_model_goes_on_only_from_a_snapshot() {
    let mut kv = kv(10, 2, 2);
    let prompt = tokens(60);
    let (mut first, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    kv.computed(&mut first, &prompt, 16, false);
    kv.computed(&mut first, &prompt, 32, true);
    assert_eq!(kv.take_copies(), [StateCopy { from: first.slot, to: 2 }]);
    kv.computed(&mut first, &prompt, 40, true);
    kv.computed(&mut first, &prompt, 60, true);
    assert_eq!(kv.take_copies(), [], "a state in the middle of a page is of no use");
    let (second, n_cached) = kv.admit(&prompt, ROOT, NONE).unwrap();
    assert_eq!(n_cached, 32, "three pages are known, the state after two is");
    assert_eq!(kv.take_copies(), [StateCopy { from: 2, to: second.slot }]);
    kv.release(first);
    kv.release(second);
    // Both sequences and all pages in other hands: the snapshot goes with its page.
    let all = kv.claim(160, 16).unwrap();
    assert_eq!(kv.n_snapshots(), (0, 2));
    kv.release(all);
}

/// Three pages have the window of a token.
fn windowed(n_pages: u32, n_window_pages: u32) -> Kv {
    let window = Some(WindowLimits { tokens: 20, n_pages: n_window_pages });
    Kv::new(KvLimits { n_pages, n_slots: 3, n_snapshots: 0, is_recurrent: false, window })
}

/// Computes the rest of a prompt, so many tokens at a time.
fn compute(kv: &mut Kv, held: &mut Allocation, prompt: &[u32], from: u32, step: u32) {
    let end = u32::try_from(prompt.len()).unwrap();
    for start in (from..end).step_by(step as usize) {
        let next = (start + step).min(end);
        assert_eq!(kv.reach(held, next, 0), next);
        kv.computed(held, prompt, next, false);
    }
}

fn n_window_pages_held(kv: &Kv) -> usize {
    let pool = kv.window_pool().unwrap();
    pool.n_pages() - pool.n_free()
}

#[test]
fn windows_hold_what_the_next_token_sees() {
    for (window, n_tokens, pages) in
        [(1, 1, 1), (2, 1, 2), (17, 1, 2), (18, 1, 3), (18, 16, 3), (18, 17, 4), (512, 1, 33)]
    {
        assert_eq!(window_pages(window, n_tokens), pages, "{n_tokens} tokens after a window of {window}");
    }
    let mut kv = windowed(20, 6);
    let prompt = tokens(200);
    let (mut held, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    assert_eq!(n_window_pages_held(&kv), 0, "taken as the tokens are computed");
    assert_eq!(kv.reach(&mut held, 200, 2), 64, "four of six pages, if two are to stay free");
    kv.computed(&mut held, &prompt, 64, false);
    let table = held.window.as_ref().unwrap();
    assert_eq!((table.first(), table.pages().len()), (2, 2), "tokens 45 to 63");
    compute(&mut kv, &mut held, &prompt, 64, 16);
    assert_eq!((held.table.n_pages(), n_window_pages_held(&kv)), (13, 2));
    let table = held.window.as_ref().unwrap();
    assert_eq!(table.first(), 11);
    kv.release(held);
    assert_eq!(n_window_pages_held(&kv), 0);
}

#[test]
fn a_prefix_is_taken_over_as_far_as_its_window_is_there() {
    let mut kv = windowed(40, 8);
    let prompt = tokens(150);
    let (mut first, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    compute(&mut kv, &mut first, &prompt, 0, 32);
    kv.release(first);
    let admitted = |kv: &mut Kv, n: u32| {
        let (held, n_cached) = kv.admit(&tokens(n), ROOT, NONE).unwrap();
        assert_eq!(held.table.n_pages(), pages_for(n + 1));
        kv.release(held);
        n_cached
    };
    assert_eq!(admitted(&mut kv, 151), 144, "the end of the text");
    // Another text takes five of the eight pages while it goes by.
    let other: Vec<u32> = (1000..1070).collect();
    let (mut held, _) = kv.admit(&other, ROOT, NONE).unwrap();
    compute(&mut kv, &mut held, &other, 0, 35);
    kv.release(held);
    assert_eq!(admitted(&mut kv, 151), 144, "an end is worth more than what went by");
    // A claim takes them all.
    let all = kv.claim(128, 128).unwrap();
    kv.release(all);
    assert_eq!(admitted(&mut kv, 151), 0);
    assert_eq!(kv.pool().n_kept(), 9 + 4, "the other pages are still known");
}

#[test]
fn points_where_others_may_go_on_keep_their_windows() {
    let mut kv = windowed(40, 10);
    let prompt = tokens(150);
    let (mut first, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    Kv::add_points(&mut first, [64].into_iter());
    compute(&mut kv, &mut first, &prompt, 0, 16);
    let branch = [&tokens(70)[..], &[5; 40]].concat();
    let (mut second, n_cached) = kv.admit(&branch, ROOT, NONE).unwrap();
    assert_eq!(n_cached, 64);
    compute(&mut kv, &mut second, &branch, 64, 16);
    kv.release(first);
    kv.release(second);
    // One that leaves the text elsewhere is computed, and the next that does so too is not.
    for (which, is_there) in [(0, false), (1, true)] {
        let branch = [&tokens(100)[..], &[which; 60]].concat();
        let (mut held, n_cached) = kv.admit(&branch, ROOT, NONE).unwrap();
        assert_eq!(n_cached == 96, is_there, "{n_cached}");
        compute(&mut kv, &mut held, &branch, n_cached, 16);
        kv.release(held);
    }
}

#[test]
fn two_that_computed_the_same_share_their_window() {
    let mut kv = windowed(20, 12);
    let prompt = tokens(70);
    let (mut first, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    let (mut second, _) = kv.admit(&prompt, ROOT, NONE).unwrap();
    compute(&mut kv, &mut first, &prompt, 0, 35);
    compute(&mut kv, &mut second, &prompt, 0, 35);
    let pages = |held: &Allocation| held.window.as_ref().unwrap().pages().collect::<Vec<_>>();
    assert_eq!(pages(&first)[0], pages(&second)[0], "the full page is the same");
    assert_ne!(pages(&first)[1], pages(&second)[1]);
    kv.check_windows();
    kv.release(first);
    kv.release(second);
    assert_eq!(n_window_pages_held(&kv), 0);
    kv.check_windows();
}
