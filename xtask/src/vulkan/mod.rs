//! `cargo xtask vulkan`: the Vulkan backend proved on a machine without a GPU.
//!
//! Mesa's CPU driver computes: conformance, models, the backend's own tests, under the validation layer. RADV on
//! pretended AMD cards compiles and takes submissions: the code of the kernels is held to limits and to a committed
//! baseline, and the whole program runs. `tools/radv-offline.sh` installs both drivers into a cache folder.

mod baseline;
mod binaries;
mod check;
mod jobs;
mod lavapipe;
mod rdna;
mod smoke;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use binaries::Binaries;
use jobs::Job;

/// The pretended AMD cards: RDNA3 and RDNA4.
const FAMILIES: [&str; 2] = ["gfx1100", "gfx1201"];

/// What a call of `cargo xtask vulkan` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Which parts; all by default.
    parts: HashSet<Part>,
    /// Whether the baseline is written anew rather than compared with.
    bless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Lavapipe,
    Rdna,
    Smoke,
    Check,
    /// Every tiny model and the real ones on lavapipe.
    Models,
}

const PARTS: [(&str, Part); 5] = [
    ("lavapipe", Part::Lavapipe),
    ("rdna", Part::Rdna),
    ("smoke", Part::Smoke),
    ("check", Part::Check),
    ("models", Part::Models),
];

impl Request {
    /// Every part that gates a change, compared with the baseline.
    pub(crate) fn everything() -> Request {
        Request { parts: PARTS.iter().map(|(_, part)| *part).collect(), bless: false }
    }

    /// From the words after `vulkan`.
    ///
    /// # Errors
    /// A word that is no part.
    pub(crate) fn parse(words: &[String]) -> Result<Request, String> {
        let mut request = Request { parts: HashSet::new(), bless: false };
        for word in words {
            match PARTS.iter().find(|(name, _)| name == word) {
                Some((_, part)) => drop(request.parts.insert(*part)),
                None if word == "--bless" => request.bless = true,
                None => {
                    return Err(format!(
                        "`{word}` is no part of `cargo xtask vulkan`: lavapipe, rdna, smoke, check, models, --bless"
                    ));
                }
            }
        }
        if request.bless && !request.parts.iter().all(|part| *part == Part::Rdna) {
            return Err("--bless goes with the part `rdna` alone".into());
        }
        match (request.parts.is_empty(), request.bless) {
            (true, true) => request.parts.insert(Part::Rdna),
            (true, false) => return Ok(Request::everything()),
            _ => true,
        };
        Ok(request)
    }
}

/// Where things are.
pub(crate) struct Place {
    root: PathBuf,
    /// Logs, reports, the drivers' shader cache.
    output: PathBuf,
}

impl Place {
    fn script(&self) -> PathBuf {
        self.root.join("tools/radv-offline.sh")
    }
}

/// Runs what `request` asks for.
///
/// # Errors
/// Drivers that cannot be installed, or whatever does not hold.
pub(crate) fn run(root: &Path, request: &Request) -> Result<(), String> {
    let start = Instant::now();
    let place = Place { root: root.to_owned(), output: root.join("target/vulkan") };
    std::fs::create_dir_all(&place.output).map_err(|e| format!("{}: {e}", place.output.display()))?;
    let setup = Setup::start(&place)?;
    let wants = |part: Part| request.parts.contains(&part);
    let built = Binaries::build(root, if wants(Part::Smoke) || wants(Part::Check) { &["zinc"] } else { &[] });
    let mesa = setup.wait()?;
    let binaries = built?;
    eprintln!("vulkan: Mesa {mesa}, programs built, {:.0} s", start.elapsed().as_secs_f32());

    let mut jobs: Vec<Job> = Vec::new();
    if wants(Part::Lavapipe) {
        jobs.extend(lavapipe::jobs(&place, &binaries));
    }
    if wants(Part::Models) {
        jobs.extend(lavapipe::models(&place, &binaries));
    }
    if wants(Part::Rdna) {
        jobs.extend(rdna::jobs(&place, &binaries)?);
    }
    if wants(Part::Smoke) {
        jobs.extend(smoke::jobs(&place, &binaries)?);
    }
    if wants(Part::Check) {
        jobs.extend(check::jobs(&place, &binaries)?);
    }
    jobs::run_all(&place, jobs)?;
    if wants(Part::Rdna) {
        rdna::check(&place, &mesa, request.bless)?;
    }
    eprintln!("vulkan: everything holds, {:.0} s in all", start.elapsed().as_secs_f32());
    Ok(())
}

/// The installation of the drivers, which runs while programs are compiled.
struct Setup {
    script: PathBuf,
    child: Child,
}

impl Setup {
    fn start(place: &Place) -> Result<Setup, String> {
        let script = place.script();
        let child = Command::new(&script).arg("--setup").stdout(Stdio::piped()).spawn();
        child.map(|child| Setup { script: script.clone(), child }).map_err(|e| format!("{}: {e}", script.display()))
    }

    /// The version of Mesa.
    fn wait(self) -> Result<String, String> {
        let output = self.child.wait_with_output().map_err(|e| format!("{}: {e}", self.script.display()))?;
        if !output.status.success() {
            return Err(format!(
                "the Vulkan backend cannot be tested here: `{} --setup` could not install Mesa's drivers ({}). It needs \
                 Debian 12 on x86-64, apt's mirror and, the first time, root. `cargo xtask test --no-vulkan` runs every \
                 other check",
                self.script.display(),
                output.status
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Request};

    fn parse(words: &[&str]) -> Result<Request, String> {
        Request::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_choose_parts() {
        assert_eq!(parse(&[]), Ok(Request::everything()));
        let rdna = |bless| Ok(Request { parts: [Part::Rdna].into(), bless });
        assert_eq!(parse(&["rdna"]), rdna(false));
        assert_eq!(parse(&["--bless"]), rdna(true));
        assert_eq!(parse(&["rdna", "--bless"]), rdna(true));
        assert!(parse(&["smoke", "--bless"]).is_err());
        assert!(parse(&["lavapip"]).unwrap_err().contains("`lavapip`"));
    }
}
