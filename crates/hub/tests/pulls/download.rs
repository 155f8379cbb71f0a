//! Downloads from a hub that behaves well, badly, and in turns.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cache::{Cache, LIMITS, content};
use crate::server::{Reply, Request, Server};
use zinc_hub::{Error, Event, Limits, Manifest, ManifestFile, Phase, Token, Verification};

/// Not a multiple of anything, and several reads long.
const SIZE: usize = 300_007;

#[test]
fn a_file_comes_once_and_stays() {
    let bytes = content(1, SIZE);
    let server = Server::of_file(&bytes);
    let cache = Cache::new(&server, &bytes);
    let mut seen = Vec::new();
    let installed = cache
        .pull_watched(&AtomicBool::new(false), &mut |event| {
            if let Event::Progress { phase, done, total } = event {
                assert_eq!((phase, total), (Phase::Downloading, SIZE as u64));
                seen.push(done);
            }
        })
        .unwrap();
    assert!(seen.is_sorted() && seen.first() == Some(&0) && seen.last() == Some(&(SIZE as u64)), "{seen:?}");
    let url = format!("{}/owner/tiny/resolve/main/tiny.gguf", server.url());
    assert_eq!((installed.fetched, installed.verification, &installed.source), (true, Verification::Sha256, &url));

    let manifest: Manifest = serde_json::from_slice(&fs::read(cache.folder().join("manifest.json")).unwrap()).unwrap();
    let expected = Manifest {
        id: "tiny".into(),
        repository: "owner/tiny".into(),
        revision: "main".into(),
        files: vec![ManifestFile {
            name: "tiny.gguf".into(),
            size_bytes: SIZE as u64,
            sha256: cache.entry.sha256.unwrap().to_string(),
        }],
        verification: Verification::Sha256,
        source: url,
        installed_at_unix: manifest.installed_at_unix,
    };
    assert_eq!(manifest, expected);

    assert!(!cache.pull().unwrap().fetched);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.requests()[0].line, "GET /owner/tiny/resolve/main/tiny.gguf HTTP/1.1");
}

#[test]
fn a_cut_anywhere_costs_no_byte_twice() {
    let bytes = content(2, SIZE);
    let points = (0..=10).map(|tenth| SIZE * tenth / 10).chain([1, SIZE - 1]).filter(|n| *n < SIZE);
    for point in points {
        let served = bytes.clone();
        let server = Server::start(move |index, request| {
            let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
            if index == 0 { reply.cut_at(point) } else { reply }
        });
        let mut cache = Cache::new(&server, &bytes);
        cache.settings.limits.attempts_max = 1;
        assert!(matches!(cache.fail_hub(), Error::Cut { .. }), "cut at {point}");
        assert_eq!(cache.partial_bytes(), Some(point as u64));
        cache.pull().unwrap();
        assert_eq!(server.body_bytes(), SIZE as u64, "cut at {point}");
        let requests = server.requests();
        assert_eq!((requests.len(), requests[1].offset()), (2, point));
    }
}

#[test]
fn one_pull_outlasts_a_server_that_keeps_cutting() {
    let bytes = content(3, SIZE);
    let served = bytes.clone();
    let server =
        Server::start(move |_, request| Reply::file(&served, request).header("ETag", "\"v1\"").cut_at(SIZE / 10));
    let mut cache = Cache::new(&server, &bytes);
    cache.settings.limits.attempts_max = 11;
    let mut retries = 0;
    let count = &mut |event: Event<'_>| {
        retries += u32::from(matches!(event, Event::Retrying { reason: Error::Cut { .. }, .. }))
    };
    cache.pull_watched(&AtomicBool::new(false), count).unwrap();
    assert_eq!((server.body_bytes(), server.requests().len(), retries), (SIZE as u64, 11, 10));
}

#[test]
fn attempts_are_bounded() {
    let server = Server::start(|_, _| Reply::status(500));
    let cache = Cache::new(&server, &content(4, SIZE));
    assert!(matches!(cache.fail_hub(), Error::Status { status: 500, .. }));
    assert_eq!(server.requests().len(), LIMITS.attempts_max as usize);
}

#[test]
fn a_wrong_length_is_refused() {
    let bytes = content(5, SIZE);
    for got in [SIZE - 1, SIZE + 1, 2 * SIZE] {
        let server = Server::start(move |_, _| Reply::whole(&content(5, got)));
        let cache = Cache::new(&server, &bytes);
        let refused = cache.fail_hub();
        assert!(matches!(refused, Error::WrongLength { got: n, .. } if n == got as u64), "{refused:?}");
        assert_eq!((cache.partial_bytes(), server.requests().len()), (Some(0), 1));
    }
}

#[test]
fn a_length_that_nobody_announced_is_counted() {
    let bytes = content(6, SIZE);
    let short = Server::start(|_, _| Reply::whole(&content(6, SIZE - 1)).without_length());
    let mut cache = Cache::new(&short, &bytes);
    cache.settings.limits.attempts_max = 1;
    let refused = cache.fail_hub();
    assert!(matches!(refused, Error::Cut { .. }), "{refused:?}");

    let long = Server::start(|_, _| Reply::whole(&content(6, SIZE + 1)).without_length());
    let mut cache = Cache::new(&long, &bytes);
    assert!(matches!(cache.fail_hub(), Error::WrongLength { .. }));
    cache.entry.sha256 = None;
    assert!(matches!(cache.fail_hub(), Error::WrongLength { .. }));
    assert_eq!(cache.partial_bytes(), Some(0));

    let right = Server::start(|_, _| Reply::whole(&content(6, SIZE)).without_length());
    cache.turn_to(&right);
    assert_eq!(cache.pull().unwrap().verification, Verification::SizeOnly);
}

#[test]
fn a_wrong_sum_is_refused_and_not_kept() {
    let server = Server::of_file(&content(7, SIZE));
    let cache = Cache::new(&server, &content(8, SIZE));
    let Error::WrongHash { expected, got, .. } = cache.fail_hub() else { panic!("accepted") };
    assert_eq!((Some(expected), Some(got)), (cache.entry.sha256, crate::cache::entry(&content(7, SIZE)).sha256));
    assert_eq!((cache.partial_bytes(), server.requests().len()), (None, 1));
}

#[test]
fn parts_that_do_not_fit_together_are_fetched_anew() {
    // A server whose version name says nothing: half of one file, then the rest of another.
    let (old, new) = (content(9, SIZE), content(10, SIZE));
    let served = new.clone();
    let server = Server::start(move |index, request| match index {
        0 => Reply::file(&old, request).header("ETag", "\"v1\"").cut_at(SIZE / 2),
        _ => Reply::file(&served, request).header("ETag", "\"v1\""),
    });
    let cache = Cache::new(&server, &new);
    cache.pull().unwrap();
    let offsets: Vec<usize> = server.requests().iter().map(Request::offset).collect();
    assert_eq!(offsets, [0, SIZE / 2, 0]);
}

#[test]
fn a_file_that_changes_upstream_is_begun_anew() {
    let (old, new) = (content(11, SIZE), content(12, SIZE));
    let served = new.clone();
    let server = Server::start(move |index, request| match index {
        0 => Reply::file(&old, request).header("ETag", "\"v1\"").cut_at(SIZE / 2),
        _ => Reply::file(&served, request).header("ETag", "\"v2\""),
    });
    let mut cache = Cache::new(&server, &new);
    // No published sum: the version's name alone tells.
    cache.entry.sha256 = None;
    cache.pull().unwrap();
    let offsets: Vec<usize> = server.requests().iter().map(Request::offset).collect();
    assert_eq!(offsets, [0, SIZE / 2, 0]);
}

#[test]
fn a_file_that_keeps_changing_is_given_up() {
    let bytes = content(13, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| {
        Reply::file(&served, request).header("ETag", &format!("\"v{index}\"")).cut_at(SIZE / 2)
    });
    let mut cache = Cache::new(&server, &bytes);
    cache.entry.sha256 = None;
    cache.settings.limits.attempts_max = 100;
    let given_up = cache.fail_hub();
    assert!(matches!(&given_up, Error::BadAnswer { what, .. } if what.contains("changes")), "{given_up:?}");
    assert!(server.requests().len() < 10);
}

#[test]
fn without_any_name_a_part_is_not_trusted() {
    let bytes = content(14, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request);
        if index == 0 { reply.cut_at(SIZE / 2) } else { reply }
    });
    let mut cache = Cache::new(&server, &bytes);
    cache.entry.sha256 = None;
    cache.settings.limits.attempts_max = 1;
    assert!(matches!(cache.fail_hub(), Error::Cut { .. }));
    cache.pull().unwrap();
    assert_eq!(server.requests()[1].offset(), 0);
}

#[test]
fn busy_servers_are_asked_again() {
    let bytes = content(15, SIZE);
    for status in [408, 429, 500, 502, 503, 504] {
        let served = bytes.clone();
        let server = Server::start(move |index, request| match index {
            0 => Reply::status(status).header("Retry-After", "0"),
            1 => Reply::status(status),
            _ => Reply::file(&served, request),
        });
        Cache::new(&server, &bytes).pull().unwrap();
        assert_eq!(server.requests().len(), 3, "{status}");
    }
}

#[test]
fn a_server_that_asks_for_too_long_a_wait_is_left() {
    let too_long = Limits::DELAY_MAX.as_secs() + 1;
    let server = Server::start(move |_, _| Reply::status(429).header("Retry-After", &too_long.to_string()));
    let cache = Cache::new(&server, &content(16, SIZE));
    let message = cache.fail_hub().to_string();
    assert_eq!(message, format!("127.0.0.1 answered with status 429 and asks to wait {too_long} s"));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn refusals_are_final_and_told_apart() {
    let bytes = content(17, SIZE);
    let check = |status: u16, is_it: fn(&Error) -> bool| {
        let server = Server::start(move |_, _| Reply::status(status));
        let refused = Cache::new(&server, &bytes).fail_hub();
        assert!(is_it(&refused), "{status}: {refused:?}");
        assert_eq!(server.requests().len(), 1, "{status}");
    };
    check(401, |e| matches!(e, Error::Denied { status: 401, .. }));
    check(403, |e| matches!(e, Error::Denied { status: 403, .. }));
    check(404, |e| matches!(e, Error::NotThere { status: 404, .. }));
    check(410, |e| matches!(e, Error::NotThere { status: 410, .. }));
    check(400, |e| matches!(e, Error::Status { status: 400, .. }));
    check(204, |e| matches!(e, Error::Status { status: 204, .. }));
    check(416, |e| matches!(e, Error::BadAnswer { .. }));
}

#[test]
fn the_token_goes_to_the_hub_and_no_further() {
    let bytes = content(18, SIZE);
    let store = Server::of_file(&bytes);
    let store_url = format!("{}/blob", store.url());
    let by_name = format!("{}/blob", store.url_by_name());
    for elsewhere in [store_url, by_name] {
        let hub = Server::start(move |index, _| match index {
            0 => Reply::redirect("/moved").header("X-Linked-ETag", "\"the-version\""),
            _ => Reply::redirect(&elsewhere),
        });
        let mut cache = Cache::new(&hub, &bytes);
        cache.settings.token = Token::new("secret");
        cache.pull().unwrap();
        let asked_hub: Vec<_> = hub.requests().iter().map(|r| r.header("authorization").map(str::to_owned)).collect();
        assert_eq!(asked_hub, [Some("Bearer secret".to_owned()), Some("Bearer secret".to_owned())]);
    }
    let asked_store = store.requests();
    assert_eq!(asked_store.len(), 2);
    assert!(asked_store.iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn a_range_survives_redirects_and_the_hub_names_the_version() {
    let bytes = content(19, SIZE);
    let served = bytes.clone();
    // The store's own names differ from machine to machine.
    let store = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", &format!("\"{index}\""));
        if index == 0 { reply.cut_at(SIZE / 3) } else { reply }
    });
    let to = format!("{}/blob", store.url());
    let hub = Server::start(move |_, _| Reply::redirect(&to).header("X-Linked-ETag", "\"v1\""));
    let mut cache = Cache::new(&hub, &bytes);
    cache.entry.sha256 = None;
    cache.pull().unwrap();
    assert_eq!((store.body_bytes(), store.requests()[1].offset()), (SIZE as u64, SIZE / 3));
}

#[test]
fn redirects_are_bounded() {
    let server = Server::start(|_, _| Reply::redirect("/again"));
    let refused = Cache::new(&server, &content(20, SIZE)).fail_hub();
    assert!(matches!(&refused, Error::BadAnswer { what, .. } if what == "more than 10 redirects"), "{refused:?}");
    assert_eq!(server.requests().len(), 11);

    let server = Server::start(|_, _| Reply::status(302));
    assert!(matches!(Cache::new(&server, &content(20, SIZE)).fail_hub(), Error::BadAnswer { .. }));
}

#[test]
fn a_compressed_answer_is_refused() {
    let bytes = content(21, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |_, _| Reply::whole(&served).header("Content-Encoding", "gzip"));
    let cache = Cache::new(&server, &bytes);
    assert!(matches!(cache.fail_hub(), Error::BadAnswer { what, .. } if what.contains("gzip")));
    assert_eq!(server.requests()[0].header("accept-encoding"), Some("identity"));
    assert_eq!(cache.partial_bytes(), Some(0));
}

#[test]
fn silence_ends_a_download_and_what_came_is_kept() {
    let bytes = content(22, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
        if index == 0 { reply.silent_at(SIZE / 2) } else { reply }
    });
    let mut cache = Cache::new(&server, &bytes);
    cache.settings.limits = Limits { stall: Duration::from_millis(100), attempts_max: 1, ..LIMITS };
    assert!(matches!(cache.fail_hub(), Error::Stalled { limit, .. } if limit == Duration::from_millis(100)));
    cache.settings.limits = LIMITS;
    cache.pull().unwrap();
    assert_eq!(server.body_bytes(), SIZE as u64);
}

#[test]
fn an_answer_that_never_begins_is_not_waited_for() {
    let (release, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let server = Server::start(move |_, _| {
        // Until the test is over.
        let _ = held.lock().unwrap().recv();
        Reply::status(500)
    });
    let mut cache = Cache::new(&server, &content(23, SIZE));
    cache.settings.limits = Limits { response: Duration::from_millis(50), attempts_max: 1, ..LIMITS };
    assert!(matches!(cache.fail_hub(), Error::Stalled { limit, .. } if limit == Duration::from_millis(50)));
    drop(release);
}

#[test]
fn a_server_that_ignores_ranges_is_lived_with() {
    let bytes = content(24, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, _| {
        let reply = Reply::whole(&served).header("ETag", "\"v1\"");
        if index == 0 { reply.cut_at(SIZE / 2) } else { reply }
    });
    Cache::new(&server, &bytes).pull().unwrap();
    assert_eq!(server.requests()[1].offset(), SIZE / 2);
    assert_eq!(server.body_bytes(), (SIZE / 2 + SIZE) as u64);
}

#[test]
fn a_part_that_was_not_asked_for_is_refused() {
    let bytes = content(25, SIZE);
    for range in ["bytes 7-300006/300007", "bytes 150003-200000/300007", "lines 1-2/3", "bytes 150003-300006/400000"] {
        let served = bytes.clone();
        let server = Server::start(move |index, request| {
            let first = Reply::file(&served, request).header("ETag", "\"v1\"").cut_at(SIZE / 2);
            if index == 0 { first } else { first.part_of("\"v1\"", range) }
        });
        let mut cache = Cache::new(&server, &bytes);
        cache.settings.limits.attempts_max = 2;
        let refused = cache.fail_hub();
        assert!(matches!(refused, Error::BadAnswer { .. } | Error::WrongLength { .. }), "{range}: {refused:?}");
        assert_eq!(cache.partial_bytes(), Some(SIZE as u64 / 2));
    }
}

#[test]
fn a_range_past_the_end_begins_anew() {
    let bytes = content(26, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| match index {
        0 => Reply::file(&served, request).header("ETag", "\"v1\"").cut_at(SIZE / 2),
        1 => Reply::status(416),
        _ => Reply::file(&served, request).header("ETag", "\"v1\""),
    });
    Cache::new(&server, &bytes).pull().unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn cancelling_does_not_wait_for_the_server() {
    let bytes = content(27, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request).header("ETag", "\"v1\"");
        if index == 0 { reply.silent_at(SIZE / 2) } else { reply }
    });
    let cache = Cache::new(&server, &bytes);
    let cancel = AtomicBool::new(false);
    let started = Instant::now();
    let cancelled = cache.pull_watched(&cancel, &mut |event| {
        if matches!(event, Event::Progress { done, .. } if done == SIZE as u64 / 2) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert!(started.elapsed() < LIMITS.stall);
    cache.pull().unwrap();
    assert_eq!(server.body_bytes(), SIZE as u64);
}

#[test]
fn cancelling_reaches_a_read_that_waits_and_a_pause() {
    let bytes = content(28, SIZE);
    let served = bytes.clone();
    let silent = Server::start(move |_, request| Reply::file(&served, request).silent_at(SIZE / 2));
    let cache = Cache::new(&silent, &bytes);
    let cancel = AtomicBool::new(false);
    let (reached, at) = mpsc::channel();
    let flag = &cancel;
    thread::scope(|scope| {
        scope.spawn(move || {
            at.recv().unwrap();
            // The client tells before it reads on; it is given the time to do so.
            thread::sleep(Duration::from_millis(50));
            flag.store(true, Ordering::Relaxed);
        });
        let started = Instant::now();
        let cancelled = cache.pull_watched(&cancel, &mut |event| {
            if matches!(event, Event::Progress { done, .. } if done == SIZE as u64 / 2) {
                reached.send(()).unwrap();
            }
        });
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        assert!(started.elapsed() < LIMITS.stall, "it waited for the server");
    });

    let busy = Server::start(|_, _| Reply::status(503).header("Retry-After", "30"));
    let cache = Cache::new(&busy, &bytes);
    let cancel = AtomicBool::new(false);
    let cancelled = cache.pull_watched(&cancel, &mut |event| {
        if let Event::Retrying { delay, .. } = event {
            assert_eq!(delay, Duration::from_secs(30));
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)));
}

#[test]
fn a_proxy_is_used_if_there_is_one() {
    let bytes = content(29, SIZE);
    let server = Server::of_file(&bytes);
    let (proxy, lines) = crate::server::proxy();
    let mut cache = Cache::new(&server, &bytes);
    cache.settings.proxy = Some(proxy);
    cache.pull().unwrap();
    let target = server.url().trim_start_matches("http://").to_owned();
    assert_eq!(lines.recv().unwrap(), format!("CONNECT {target} HTTP/1.1"));

    cache.settings.proxy = Some("nonsense://".into());
    fs::remove_dir_all(cache.folder()).unwrap();
    assert!(matches!(cache.pull(), Err(Error::BadProxy)));
}
