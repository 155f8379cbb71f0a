//! Choosing, checking and removing models, and what keeps a cache to itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::cache::{Cache, content};
use crate::python::processes;
use crate::server::{Reply, Server};
use zinc_hub::{Error, Manifest, ModelId, Removed};

const SIZE: usize = 100_003;

fn pulled(seed: u64) -> (Server, Cache) {
    let bytes = content(seed, SIZE);
    let server = Server::of_file(&bytes);
    let cache = Cache::new(&server, &bytes);
    cache.pull().unwrap();
    (server, cache)
}

fn remove(cache: &Cache, is_forced: bool) -> Result<Removed, Error> {
    cache.folders.remove(&cache.entry.id, Some(cache.entry.hub.file), is_forced)
}

#[test]
fn a_choice_lasts_until_its_model_goes() {
    let (_server, cache) = pulled(1);
    let (folders, id) = (&cache.folders, &cache.entry.id);
    assert_eq!(folders.active(), None);
    folders.set_active(Some(id)).unwrap();
    assert_eq!(folders.active().as_ref(), Some(id));
    fs::write(cache.root().join("active.json"), "{\"id\": \"../../etc\"}").unwrap();
    assert_eq!(folders.active(), None, "an id is a folder's name");
    folders.set_active(Some(id)).unwrap();
    assert_eq!(remove(&cache, false).unwrap(), Removed { size_bytes: SIZE as u64, left: Vec::new() });
    assert_eq!(folders.active(), None);
    assert!(!cache.folder().exists());
    assert!(matches!(remove(&cache, false), Err(Error::NotInstalled { .. })));
}

#[test]
fn checking_finds_a_changed_byte() {
    let (_server, cache) = pulled(2);
    let check = || cache.folders.verify(&cache.entry.id, &AtomicBool::new(false), &mut |_| {});
    check().unwrap();
    let mut bytes = fs::read(cache.file()).unwrap();
    bytes[SIZE / 2] ^= 1;
    fs::write(cache.file(), &bytes).unwrap();
    let Err(Error::Damaged { path, .. }) = check() else { panic!("it was believed") };
    assert_eq!(path, cache.file());
    let cancelled = cache.folders.verify(&cache.entry.id, &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(cancelled, Err(Error::Cancelled)));
}

/// The lock of another process, which the shell command `flock` takes.
#[test]
fn a_model_in_use_stays_unless_forced() {
    let _alone = processes();
    let (_server, cache) = pulled(3);
    let installed = cache.folders.installed(&cache.entry).unwrap().unwrap();
    let hold = installed.hold().unwrap();
    let second = installed.hold().unwrap();
    assert!(matches!(remove(&cache, false), Err(Error::Loaded { .. })));
    drop(hold);
    assert!(matches!(remove(&cache, false), Err(Error::Loaded { .. })), "another one is left");
    assert!(cache.folders.installed(&cache.entry).unwrap().is_some(), "a refusal removes nothing");
    let other = Command::new("flock").args(["-n", "-s"]).arg(cache.file()).arg("true").status();
    if let Ok(status) = other {
        assert!(status.success(), "other processes may run it too");
    }
    remove(&cache, true).unwrap();
    drop(second);
    assert!(!cache.folder().exists());
}

#[test]
fn removing_takes_only_what_a_pull_made() {
    let bytes = content(4, SIZE);
    let served = bytes.clone();
    let server = Server::start(move |index, request| {
        let reply = Reply::file(&served, request);
        if index == 0 { reply.cut_at(SIZE / 2) } else { reply }
    });
    let mut cache = Cache::new(&server, &bytes);
    cache.settings.limits.attempts_max = 1;
    cache.fail_hub();
    // An unfinished one goes too.
    assert_eq!(remove(&cache, false).unwrap().left, Vec::<String>::new());

    cache.pull().unwrap();
    fs::write(cache.folder().join("notes.txt"), "mine").unwrap();
    assert_eq!(remove(&cache, false).unwrap().left, ["notes.txt"]);
    assert_eq!(fs::read(cache.folder().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn a_manifest_cannot_name_files_elsewhere() {
    let (_server, cache) = pulled(5);
    let path = cache.folder().join("manifest.json");
    let manifest: Manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let victim = cache.root().join("victim.gguf");
    fs::write(&victim, vec![0; SIZE]).unwrap();
    for name in ["../../victim.gguf", victim.to_str().unwrap(), "manifest.json", ""] {
        let mut other = manifest.clone();
        other.files[0].name = name.to_owned();
        fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
        assert_eq!(cache.folders.installed_by_id(&cache.entry.id).unwrap(), None, "{name}");
        assert_eq!(cache.folders.all_installed().unwrap(), []);
    }
    let mut other = manifest;
    other.files[0].name = "../../victim.gguf".to_owned();
    fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
    remove(&cache, true).unwrap();
    assert!(victim.exists());
}

/// Whatever is put into the cache as a link: what it leads to is neither written nor removed.
#[test]
fn links_in_the_cache_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    let bytes = content(6, SIZE);
    for name in [
        "tiny/tiny.gguf",
        "tiny/tiny.gguf.partial",
        "tiny/tiny.gguf.partial.json.new",
        "tiny/manifest.json.new",
        "tiny.lock",
    ] {
        let server = Server::of_file(&bytes);
        let cache = Cache::new(&server, &bytes);
        fs::write(&victim, "precious").unwrap();
        fs::create_dir_all(cache.folder()).unwrap();
        symlink(&victim, cache.root().join("models").join(name)).unwrap();
        let result =
            zinc_hub::pull(&cache.entry, &cache.folders, &cache.settings, &AtomicBool::new(false), &mut |_| {});
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}: {result:?}");
        let _ = remove(&cache, true);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{name}");
    }
    let server = Server::of_file(&bytes);
    let cache = Cache::new(&server, &bytes);
    fs::create_dir_all(cache.root().join("models")).unwrap();
    symlink(outside.path(), cache.folder()).unwrap();
    let pulled = zinc_hub::pull(&cache.entry, &cache.folders, &cache.settings, &AtomicBool::new(false), &mut |_| {});
    assert!(matches!(pulled, Err(Error::Linked { .. })), "{pulled:?}");
    assert!(matches!(remove(&cache, true), Err(Error::Linked { .. })));
    assert_eq!(names(outside.path()), ["victim"]);
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A clock that was wrong when a model came, or is wrong now, changes nothing.
#[test]
fn the_clock_is_for_people() {
    let (_server, cache) = pulled(7);
    let path = cache.folder().join("manifest.json");
    for time in [0, u64::MAX] {
        let mut manifest: Manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest.installed_at_unix = time;
        fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
        assert!(!cache.pull().unwrap().fetched, "{time}");
    }
    assert_eq!(cache.folders.all_installed().unwrap().len(), 1);
    assert!(cache.folders.installed_by_id(&ModelId::fixed("other")).unwrap().is_none());
}
