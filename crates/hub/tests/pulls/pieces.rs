//! Several connections that bring one file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::cache::{Cache, LIMITS, content};
use crate::server::{Reply, Request, Server};
use zinc_hub::{Error, Event, Limits, Phase};

const SIZE: usize = 300_007;
/// Five of these make up the file.
const PIECE: usize = 64 << 10;

fn cache(server: &Server, bytes: &[u8]) -> Cache {
    let mut cache = Cache::new(server, bytes);
    cache.settings.limits = Limits { connections: 4, piece_bytes: PIECE as u64, ..LIMITS };
    cache
}

/// First bytes that were asked for, in order of their place.
fn offsets(server: &Server) -> Vec<usize> {
    let mut offsets: Vec<usize> = server.requests().iter().map(Request::offset).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn pieces_come_side_by_side_and_each_byte_once() {
    let bytes = content(1, SIZE);
    let served = bytes.clone();
    // No answer but the first is given before all connections have asked: they do go side by side.
    let waiting = Arc::new((Mutex::new(0), Condvar::new()));
    let server = Server::start(move |index, request| {
        if index > 0 {
            let (count, all) = &*waiting;
            let mut count = count.lock().unwrap();
            *count += 1;
            all.notify_all();
            let waited = all.wait_timeout_while(count, Duration::from_secs(20), |count| *count < 3).unwrap();
            assert!(!waited.1.timed_out(), "the connections wait for each other");
        }
        Reply::file(&served, request).header("ETag", "\"v1\"")
    });
    let cache = cache(&server, &bytes);
    let mut seen = Vec::new();
    cache
        .pull_watched(&AtomicBool::new(false), &mut |event| {
            if let Event::Progress { phase: Phase::Downloading, done, .. } = event {
                seen.push(done);
            }
        })
        .unwrap();
    assert!(seen.is_sorted() && seen.first() == Some(&0), "{seen:?}");
    assert_eq!(offsets(&server), [0, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]);
    assert_eq!(server.body_bytes(), SIZE as u64);
}

#[test]
fn a_broken_pull_goes_on_with_the_missing_pieces_alone() {
    let bytes = content(2, SIZE);
    for tenth in 0..10 {
        let (served, cut) = (bytes.clone(), SIZE * tenth / 10);
        let is_down = Arc::new(AtomicBool::new(true));
        let down = is_down.clone();
        let server = Server::start(move |_, request| {
            let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
            let offset = request.offset();
            // The byte at `cut` does not come.
            let is_hit = (offset..offset + PIECE).contains(&cut);
            if is_hit && down.load(Ordering::SeqCst) { reply.cut_at(cut - offset) } else { reply }
        });
        let mut cache = cache(&server, &bytes);
        cache.settings.limits.attempts_max = 1;
        assert!(matches!(cache.fail_hub(), Error::Cut { .. }), "cut at {cut}");
        is_down.store(false, Ordering::SeqCst);
        cache.pull().unwrap();
        assert_eq!(server.body_bytes(), SIZE as u64, "cut at {cut}: no byte comes twice");
    }
}

#[test]
fn a_connection_that_fails_leaves_its_piece_to_the_others() {
    let bytes = content(3, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| match index {
        1 => Reply::status(503),
        _ => Reply::file(&served, request).header("ETag", "\"v1\""),
    });
    let mut cache = cache(&server, &bytes);
    cache.settings.limits.attempts_max = 1;
    cache.pull().unwrap();
    assert_eq!(server.body_bytes(), SIZE as u64);
}

#[test]
fn where_pieces_are_not_served_one_answer_brings_all() {
    let bytes = content(4, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |_, _| Reply::whole(&served));
    cache(&server, &bytes).pull().unwrap();
    assert_eq!((server.requests().len(), server.body_bytes()), (1, SIZE as u64));

    // Pieces of a version without a name, and no published sum: nothing would tell a mixture.
    let served = bytes.clone();
    let server = Server::start(move |_, request| Reply::file(&served, request));
    let mut cache = cache(&server, &bytes);
    cache.entry.sha256 = None;
    cache.pull().unwrap();
    assert_eq!(server.requests().pop().unwrap().header("range"), None);
}

#[test]
fn pieces_of_two_versions_are_not_joined() {
    let (old, new) = (content(5, SIZE), content(6, SIZE));
    let served = new.clone();
    let server = Server::start(move |index, request| match index {
        0 => Reply::file(&old, request).header("ETag", "\"v1\""),
        _ => Reply::file(&served, request).header("ETag", "\"v2\""),
    });
    let mut cache = cache(&server, &new);
    cache.pull().unwrap();

    // A version's name that says nothing: the sum tells, and one connection then brings the whole.
    let (old, served) = (content(5, SIZE), new.clone());
    let server = Server::start(move |index, request| match index {
        0 => Reply::file(&old, request).header("ETag", "\"v1\""),
        _ => Reply::file(&served, request).header("ETag", "\"v1\""),
    });
    cache = self::cache(&server, &new);
    cache.pull().unwrap();
    let last = server.requests().pop().unwrap();
    assert_eq!(last.header("range"), None, "{last:?}");

    // Wrong in any case: refused, and not kept.
    let wrong = Server::of_file(&content(7, SIZE));
    let cache = self::cache(&wrong, &new);
    assert!(matches!(cache.fail_hub(), Error::WrongHash { .. }));
    assert_eq!(cache.partial_bytes(), None);
}

#[test]
fn cancelling_reaches_every_connection() {
    let bytes = content(8, SIZE);
    let served = bytes.clone();
    let is_silent = Arc::new(AtomicBool::new(true));
    let silent = is_silent.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
        if index > 0 && silent.load(Ordering::SeqCst) { reply.silent_at(1000) } else { reply }
    });
    let cache = cache(&server, &bytes);
    let cancel = AtomicBool::new(false);
    let started = std::time::Instant::now();
    // The first connection's piece, and what three others brought before they fell silent, and a fourth request's.
    let cancelled = cache.pull_watched(&cancel, &mut |event| {
        if matches!(event, Event::Progress { done, .. } if done >= PIECE as u64 + 3000) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert!(started.elapsed() < LIMITS.stall, "it waited for the server");
    is_silent.store(false, Ordering::SeqCst);
    cache.pull().unwrap();
    assert_eq!(server.body_bytes(), SIZE as u64, "what came before is kept");
}
