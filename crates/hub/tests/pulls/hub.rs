//! Models of any repository, by the list that the hub gives.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sha2::{Digest, Sha256};

use crate::cache::{LIMITS, content};
use crate::server::{Reply, Request, Server};
use zinc_hub::{
    Error, Event, Folders, HubReference, Installed, Resolved, Settings, Token, Verification, installed_hub, model_id,
    pull_hub,
};

const COMMIT: &str = "0123456789012345678901234567890123456789";

/// A repository as its server has it: names and contents.
type Files = Arc<Vec<(&'static str, Vec<u8>)>>;

fn listing(files: &Files, with_sums: bool) -> String {
    let sum = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let file = |(name, bytes): &(&str, Vec<u8>)| {
        let size = bytes.len();
        let lfs =
            if with_sums { format!(r#","lfs":{{"sha256":"{}","size":{size}}}"#, sum(bytes)) } else { String::new() };
        format!(r#"{{"rfilename":"{name}","size":{size}{lfs}}}"#)
    };
    let files: Vec<String> = files.iter().map(file).collect();
    format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, files.join(","))
}

fn answer(files: &Files, request: &Request, with_sums: bool) -> Reply {
    let path = request.line.split(' ').nth(1).unwrap();
    if path == "/api/models/Owner/Tiny-GGUF/revision/main?blobs=true" {
        return Reply::whole(listing(files, with_sums).as_bytes());
    }
    let name = path.strip_prefix(&format!("/Owner/Tiny-GGUF/resolve/{COMMIT}/"));
    match files.iter().find(|(file, _)| Some(*file) == name) {
        Some((_, bytes)) => Reply::file(bytes, request),
        None => Reply::status(404),
    }
}

fn files() -> Files {
    Arc::new(vec![
        ("README.md", b"# Tiny".to_vec()),
        ("tiny-Q4_K_M.gguf", content(1, 70_001)),
        ("BF16/tiny-BF16-00001-of-00002.gguf", content(2, 90_001)),
        ("BF16/tiny-BF16-00002-of-00002.gguf", content(3, 50_001)),
        ("mmproj-F16.gguf", content(4, 10)),
    ])
}

struct Hub {
    server: Server,
    files: Files,
    cache: tempfile::TempDir,
}

impl Hub {
    fn start(with_sums: bool) -> Hub {
        let files = files();
        let served = files.clone();
        let server = Server::start(move |_, request| answer(&served, request, with_sums));
        Hub { server, files, cache: tempfile::tempdir().unwrap() }
    }

    fn folders(&self) -> Folders {
        Folders::at(self.cache.path())
    }

    fn settings(&self) -> Settings {
        let python = "no-such-python".into();
        Settings { hub_url: self.server.url(), token: Token::new("secret"), proxy: None, python, limits: LIMITS }
    }

    fn pull(&self, reference: &str) -> Result<Installed, Error> {
        pull_hub(&read(reference), &self.folders(), &self.settings(), &AtomicBool::new(false), &mut |_: Event<'_>| {})
    }
}

fn read(reference: &str) -> HubReference {
    HubReference::parse(reference).unwrap().unwrap()
}

#[test]
fn a_quantisation_of_a_repository_is_fetched_checked_and_found_again() {
    let hub = Hub::start(true);
    let installed = hub.pull("Owner/Tiny-GGUF:q4_k_m").unwrap();
    assert_eq!(installed.id.as_str(), "owner--tiny-gguf--q4_k_m");
    assert_eq!((installed.verification, installed.fetched), (Verification::Sha256, true));
    assert_eq!(fs::read(&installed.path).unwrap(), hub.files[1].1);
    let asked = hub.server.requests();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|request| request.header("authorization") == Some("Bearer secret")));

    for name in ["Owner/Tiny-GGUF:Q4_K_M", "owner/tiny-gguf", "owner--tiny-gguf--q4_k_m"] {
        let found = model_id(&hub.folders(), name).unwrap();
        let Resolved::Installed(None, found) = found else { panic!("{name}: {found:?}") };
        assert_eq!(found.path, installed.path);
    }
    assert!(!hub.pull("Owner/Tiny-GGUF:Q4_K_M").unwrap().fetched);
    assert_eq!(hub.server.requests().len(), 2, "the hub is not asked about what is here");
    let elsewhere = model_id(&hub.folders(), "Other/Tiny-GGUF:Q4_K_M").unwrap();
    assert!(matches!(&elsewhere, Resolved::OnHub(reference) if reference.repository() == "Other/Tiny-GGUF"));
}

#[test]
fn a_split_model_comes_whole_or_goes_on_later() {
    let hub = Hub::start(true);
    // The second part is not there at first.
    let short: Files = Arc::new(hub.files[..3].to_vec());
    let all = hub.files.clone();
    let broken = Server::start(move |_, request| {
        let path = request.line.split(' ').nth(1).unwrap();
        if path.starts_with("/api") { answer(&all, request, true) } else { answer(&short, request, true) }
    });
    let settings = Settings { hub_url: broken.url(), ..hub.settings() };
    let reference = read("Owner/Tiny-GGUF:BF16");
    let failed = pull_hub(&reference, &hub.folders(), &settings, &AtomicBool::new(false), &mut |_: Event<'_>| {});
    assert!(matches!(failed, Err(Error::NoSource { .. })), "{failed:?}");
    assert_eq!(installed_hub(&reference, &hub.folders()).unwrap(), None, "a part is no model");

    let installed = hub.pull("Owner/Tiny-GGUF:BF16").unwrap();
    assert_eq!(installed.path.file_name().unwrap(), "tiny-BF16-00001-of-00002.gguf");
    assert_eq!(installed.size_bytes, 140_002);
    for (name, bytes) in &hub.files[2..4] {
        let name = name.rsplit('/').next().unwrap();
        assert_eq!(&fs::read(installed.path.with_file_name(name)).unwrap(), bytes);
    }
    assert_eq!(hub.server.body_bytes() - listing(&hub.files, true).len() as u64, 50_001, "the first part was here");
    assert_eq!(installed_hub(&reference, &hub.folders()).unwrap().map(|found| found.id), Some(installed.id));
}

#[test]
fn without_published_sums_the_length_is_checked_and_the_sum_is_kept() {
    let hub = Hub::start(false);
    let installed = hub.pull("Owner/Tiny-GGUF").unwrap();
    assert_eq!(installed.verification, Verification::SizeOnly);
    hub.folders().verify(&installed.id, &AtomicBool::new(false), &mut |_| {}).unwrap();
}

#[test]
fn what_the_hub_refuses_has_its_sentence() {
    let hub = Hub::start(true);
    let refused = hub.pull("Owner/Tiny-GGUF:Q6_K").unwrap_err().to_string();
    assert_eq!(refused, "Owner/Tiny-GGUF has no model \"Q6_K\"; it has BF16, Q4_K_M");
    for (status, sentence) in
        [(401, "HF_TOKEN"), (403, "HF_TOKEN"), (404, "has no http://127.0.0.1"), (500, "status 500")]
    {
        let gate = Server::start(move |_, _| Reply::status(status));
        let settings = Settings { hub_url: gate.url(), ..hub.settings() };
        let pulled =
            pull_hub(&read("Owner/Tiny-GGUF:Q4_K_M"), &hub.folders(), &settings, &AtomicBool::new(false), &mut |_| {});
        let refused = pulled.unwrap_err().to_string();
        assert!(refused.contains(sentence), "{status}: {refused}");
    }
    let endless = Server::start(|_, _| Reply::whole(&vec![b' '; (16 << 20) + 1]));
    let settings = Settings { hub_url: endless.url(), ..hub.settings() };
    let pulled = pull_hub(&read("Owner/Tiny-GGUF"), &hub.folders(), &settings, &AtomicBool::new(false), &mut |_| {});
    assert!(matches!(pulled, Err(Error::BadAnswer { .. })), "{pulled:?}");
    assert!(!hub.cache.path().join("models").exists(), "nothing was made");
}
