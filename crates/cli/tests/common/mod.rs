//! What the tests of the program share.

#![allow(dead_code, reason = "each test program takes what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tiny model of the tree.
pub(crate) fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name)
}

/// `zinc` with caches and settings of its own in `folder`, and no network to fall back on.
pub(crate) fn zinc(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
    command.args(args).env("HOME", folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("XDG_CONFIG_HOME", folder.join("config")).env("HF_ENDPOINT", "http://127.0.0.1:9");
    command.env_remove("HF_TOKEN").stdin(Stdio::null());
    command
}
