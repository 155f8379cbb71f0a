//! A Python whose pip does what a test tells it to, and wheels for it.
//!
//! The requirement carries the order: `NAME==PATH`, where the name says what to do and the path names the wheel.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use zinc_hub::catalog::Package;

use crate::cache::Cache;

/// `pip download … -d FOLDER NAME==PATH`, noting its arguments and its folder beside the wheel.
const SCRIPT: &str = r#"#!/bin/sh
all="$*"
while [ $# -gt 2 ]; do shift; done
to=$1
name=${2%%==*}
wheel=${2#*==}
printf '%s\n' "$all" "$(pwd) $(ls -A)" > "$wheel.call"
case $name in
  give) cp "$wheel" "$to/tiny-1-py3-none-any.whl" ;;
  twice) echo > "$to/a.whl"; echo > "$to/b.whl" ;;
  nothing) ;;
  nopip) echo "/usr/bin/python3: No module named pip" >&2; exit 1 ;;
  offline) printf 'WARNING: Retrying\n\nERROR: no versions: none\nERROR: No matching distribution found\n' >&2; exit 1 ;;
  mute) exit 3 ;;
  hang) exec sleep 60 ;;
esac
"#;

/// Taken by each test that starts processes. Until it runs its own program, a new process holds whatever files the
/// other threads have open: programs just written could not be run, disks not unmounted, space not freed.
pub(crate) fn processes() -> MutexGuard<'static, ()> {
    static PROCESSES: Mutex<()> = Mutex::new(());
    // A test that failed says nothing about the next one.
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program.
pub(crate) fn fake_python() -> &'static Path {
    static PYTHON: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PYTHON.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python3");
        fs::write(&path, SCRIPT).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    });
    path
}

/// Gives the model of a cache a second source.
pub(crate) fn packaged(cache: &mut Cache, requirement: &'static str) {
    cache.entry.package = Some(Package { requirement, member: "tiny/tiny.gguf", size_bytes: 400_000 });
    cache.settings.python = fake_python().to_path_buf();
}

/// A wheel and what is to be done with it.
pub(crate) struct Wheel {
    path: PathBuf,
    requirement: &'static str,
}

impl Wheel {
    /// A wheel with this model in it.
    pub(crate) fn of(cache: &Cache, content: &[u8]) -> Wheel {
        Wheel::with_member(cache, "tiny/tiny.gguf", content)
    }

    pub(crate) fn with_member(cache: &Cache, name: &str, content: &[u8]) -> Wheel {
        let wheel = Wheel::calling(cache, "give");
        let mut writer = zip::ZipWriter::new(File::create(&wheel.path).unwrap());
        for (name, content) in [("tiny/__init__.py", &b""[..]), (name, content)] {
            writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap();
        wheel
    }

    /// No wheel, only an order.
    pub(crate) fn calling(cache: &Cache, name: &str) -> Wheel {
        let path = cache.root().join("a.wheel");
        let requirement = format!("{name}=={}", path.display());
        // The catalog's texts live for ever; a test's few do too.
        Wheel { path, requirement: requirement.leak() }
    }

    /// Without its end.
    pub(crate) fn truncate(self) -> Wheel {
        let bytes = fs::read(&self.path).unwrap();
        fs::write(&self.path, &bytes[..bytes.len() / 2]).unwrap();
        self
    }

    /// With a wrong byte in the middle.
    pub(crate) fn corrupt(self) -> Wheel {
        let mut bytes = fs::read(&self.path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        fs::write(&self.path, bytes).unwrap();
        self
    }

    pub(crate) fn requirement(&self) -> &'static str {
        self.requirement
    }

    /// How pip was called: arguments, then its folder and what was in it.
    pub(crate) fn call(&self) -> String {
        fs::read_to_string(format!("{}.call", self.path.display())).unwrap()
    }
}
