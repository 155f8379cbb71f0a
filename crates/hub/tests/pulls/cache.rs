//! A cache of its own for each test, a made-up model for it, and the one promise that holds after every pull.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sha2::{Digest, Sha256};
use zinc_hub::catalog::{Entry, HubFile, Sampling, Thinking, Verified};
use zinc_hub::{Attempt, Error, Event, Folders, Installed, Limits, ModelId, Settings, Sha256Sum};

use crate::server::Server;

/// Patient enough for a busy machine; what must be waited for in a test is set by the test.
pub(crate) const LIMITS: Limits = Limits {
    connect: Duration::from_secs(20),
    response: Duration::from_secs(20),
    stall: Duration::from_secs(20),
    attempts_max: 3,
    retry_delay: Duration::from_millis(1),
    connections: 4,
    // More than any file here has, unless a test says otherwise.
    piece_bytes: 1 << 20,
};

/// Bytes that look like nothing in particular.
pub(crate) fn content(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..n).map(|_| next()).collect()
}

/// A model whose file has this content.
pub(crate) fn entry(content: &[u8]) -> Entry {
    let sum: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    Entry {
        id: ModelId::fixed("tiny"),
        name: "Tiny",
        family: "Tiny",
        architecture: "llama",
        declare: || zinc_models::published::llama::SMOLLM2_135M.declare(),
        context_train: 64,
        hub: HubFile { repository: "owner/tiny", revision: "main", file: "tiny.gguf" },
        package: None,
        size_bytes: content.len() as u64,
        sha256: Some(Sha256Sum::from_hex(&sum)),
        quantisation: "Q4_0",
        context_tokens: 64,
        sampling: Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, presence_penalty: 0.0 },
        thinking: Thinking::No,
        licence: "MIT",
        verified: Verified::SmallModels,
    }
}

/// A model, a cache for it, and settings.
pub(crate) struct Cache {
    folder: tempfile::TempDir,
    pub(crate) folders: Folders,
    pub(crate) content: Vec<u8>,
    pub(crate) entry: Entry,
    pub(crate) settings: Settings,
}

impl Cache {
    pub(crate) fn new(server: &Server, content: &[u8]) -> Cache {
        Cache::at(tempfile::tempdir().unwrap(), server, content)
    }

    pub(crate) fn at(folder: tempfile::TempDir, server: &Server, content: &[u8]) -> Cache {
        let settings = Settings {
            hub_url: server.url(),
            token: None,
            proxy: None,
            python: "no-such-python".into(),
            limits: LIMITS,
        };
        let folders = Folders::at(folder.path());
        Cache { folder, folders, content: content.to_vec(), entry: entry(content), settings }
    }

    /// Pulls, and checks the promise.
    pub(crate) fn pull(&self) -> Result<Installed, Error> {
        self.pull_watched(&AtomicBool::new(false), &mut |_| {})
    }

    pub(crate) fn pull_watched(
        &self,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<Installed, Error> {
        let result = zinc_hub::pull(&self.entry, &self.folders, &self.settings, cancel, on_event);
        match &result {
            Ok(installed) => {
                assert_eq!(installed.path, self.file());
                assert!(fs::read(self.file()).unwrap() == self.content, "the file is not the model's");
                let mut left = self.names();
                left.sort();
                assert_eq!(left, ["manifest.json", "tiny.gguf"], "something was left behind");
            }
            Err(_) => assert!(!self.file().exists(), "a file that is not whole has the final name"),
        }
        result
    }

    /// Pulls, and gives the reason of each source for having failed.
    pub(crate) fn fail(&self) -> Vec<Attempt> {
        match self.pull() {
            Err(Error::NoSource { attempts, .. }) => attempts,
            other => panic!("expected failed sources, got {other:?}"),
        }
    }

    /// As [`Cache::fail`], when there is one source.
    pub(crate) fn fail_hub(&self) -> Error {
        let mut attempts = self.fail();
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        attempts.remove(0).reason
    }

    /// Another server, the same cache.
    pub(crate) fn turn_to(&mut self, server: &Server) {
        self.settings.hub_url = server.url();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folders.file(&self.entry)
    }

    /// Bytes of the unfinished file, if there is one.
    pub(crate) fn partial_bytes(&self) -> Option<u64> {
        fs::metadata(self.folder().join("tiny.gguf.partial")).ok().map(|metadata| metadata.len())
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folders.model(&self.entry.id)
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}
