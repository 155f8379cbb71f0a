//! From `--model-id`, `-m` or nothing to a file: what is not here yet is fetched.

use std::path::{Path, PathBuf};

use zinc_hub::catalog::{self, Entry};
use zinc_hub::{Error, Event, Folders, HUB_URL, Limits, Phase, Platform, Resolved, Settings, Token, Verification};

use crate::args::ModelArgs;
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::output::{bytes, note};
use crate::progress::Bar;

/// The file of the model that the arguments name, and its entry in the catalog if it has one.
pub(crate) fn model(args: &ModelArgs, interrupt: &Interrupt) -> Result<(PathBuf, Option<&'static Entry>), Failure> {
    if let Some(path) = &args.model {
        zinc_hub::model_file(path).map_err(|e| failure(&e))?;
        return Ok((path.clone(), None));
    }
    let folders = folders()?;
    let id = args.model_id.as_deref().unwrap_or(catalog::DEFAULT.id.as_str());
    match zinc_hub::model_id(&folders, id).map_err(|e| failure(&e))? {
        Resolved::Installed(entry, installed) => Ok((installed.path, Some(entry))),
        Resolved::Missing(entry) => {
            if args.model_id.is_none() {
                let licence = entry.licence;
                note(&format!(
                    "No model was named: this fetches {} ({}, {licence}) once.",
                    entry.name,
                    bytes(entry.size_bytes)
                ));
                note("Another one: --model-id ID (see `zinc model list`) or -m FILE.");
            }
            Ok((fetch(entry, &folders, interrupt)?, Some(entry)))
        }
    }
}

/// Fetches a model of the catalog and returns its file.
pub(crate) fn fetch(entry: &'static Entry, folders: &Folders, interrupt: &Interrupt) -> Result<PathBuf, Failure> {
    let mut bar: Option<(Phase, Bar)> = None;
    let mut on_event = |event: Event<'_>| match event {
        Event::Progress { phase, done, total } => {
            if bar.as_ref().is_none_or(|(of, _)| *of != phase) {
                bar.take().inspect(|(_, bar)| bar.finish());
                bar = Some((phase, Bar::bytes(phase_name(phase), total)));
            }
            bar.iter().for_each(|(_, bar)| bar.set(done));
        }
        other => {
            bar.take().inspect(|(_, bar)| bar.finish());
            note(&event_text(&other));
        }
    };
    let pulled = zinc_hub::pull(entry, folders, &settings(), &interrupt.flag(), &mut on_event);
    bar.take().inspect(|(_, bar)| bar.finish());
    let installed = pulled.map_err(|e| failure(&e))?;
    let checked = match installed.verification {
        Verification::Sha256 => "SHA-256 checked",
        Verification::SizeOnly => "no published checksum: only the size was checked",
    };
    note(&format!("{} is in {} ({checked})", entry.id, installed.path.display()));
    Ok(installed.path)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Checking => "checking what is here",
        Phase::Downloading => "downloading",
        Phase::Unpacking => "unpacking",
    }
}

fn event_text(event: &Event<'_>) -> String {
    match event {
        Event::Trying { source } => format!("fetching from {source}"),
        Event::Failed { source, reason } => format!("  {source} failed: {reason}"),
        Event::Retrying { reason, delay } => format!("  {reason}; trying again in {:.1} s", delay.as_secs_f64()),
        Event::Progress { .. } => String::new(),
    }
}

/// The cache folders of this user.
pub(crate) fn folders() -> Result<Folders, Failure> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (home, caches) = (variable("HOME"), variable("XDG_CACHE_HOME"));
    Folders::from_environment(Platform::CURRENT, home.as_deref(), caches.as_deref())
        .map_err(|e| failure(&e).remedy("set HOME or XDG_CACHE_HOME, or name a file with -m"))
}

/// The folder that holds this user's models and what else is worth keeping, if there is a place for it.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    // A model's folder is `models/<id>` in it.
    let folders = folders().ok()?;
    folders.model(&catalog::DEFAULT.id).ancestors().nth(2).map(Path::to_path_buf)
}

/// How this user's downloads go: `HF_ENDPOINT`, `HF_TOKEN`, `HTTPS_PROXY`.
pub(crate) fn settings() -> Settings {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Settings {
        hub_url: variable("HF_ENDPOINT").unwrap_or_else(|| HUB_URL.to_owned()),
        token: variable("HF_TOKEN").as_deref().and_then(Token::new),
        proxy: variable("HTTPS_PROXY").or_else(|| variable("https_proxy")),
        python: Path::new("python3").to_owned(),
        limits: Limits::STANDARD,
    }
}

/// An error of the hub crate as a failure of its kind.
pub(crate) fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::BadId { .. } | Error::UnknownModel { .. } | Error::NoSuchFile { .. } | Error::NoHome => {
            Kind::ModelNotFound
        }
        Error::IsFolder { .. } | Error::NotAFile { .. } | Error::EmptyFile { .. } => Kind::ModelUnusable,
        Error::BadHubUrl { .. } | Error::BadProxy => Kind::Usage,
        Error::Cancelled => Kind::Interrupted,
        _ => Kind::Download,
    };
    let failure = Failure::new(kind, error);
    match error {
        Error::BadId { .. } | Error::UnknownModel { .. } => {
            failure.remedy("`zinc model list` shows the catalog; -m FILE takes any GGUF file")
        }
        Error::NoSuchFile { .. } => failure.remedy("check the path, or use --model-id with an id of `zinc model list`"),
        Error::EmptyFile { .. } | Error::IsFolder { .. } | Error::NotAFile { .. } => {
            failure.remedy("-m takes a GGUF file")
        }
        Error::Cancelled => failure.remedy("what was fetched is kept; the next pull goes on from there"),
        _ => failure,
    }
}
