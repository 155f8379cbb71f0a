//! From `--model-id`, `-m` or nothing to a file: what is not here yet is fetched.

use std::path::{Path, PathBuf};

use zinc_hub::catalog::{self, Entry};
use zinc_hub::{
    Error, Event, Folders, HUB_URL, Hold, HubReference, Installed, Limits, Phase, Platform, Resolved, Settings, Token,
    Verification,
};

use crate::args::shared::ModelArgs;
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::output::{bytes, note};
use crate::progress::Bar;

/// A model's file on this machine.
pub(crate) struct Found {
    /// Where it lies; the first file of a split model.
    pub(crate) path: PathBuf,
    /// Its entry in the catalog, if it has one.
    pub(crate) entry: Option<&'static Entry>,
    /// Keeps other processes from removing it.
    pub(crate) hold: Option<Hold>,
}

impl Found {
    /// A model of the cache.
    pub(crate) fn of(entry: Option<&'static Entry>, installed: &Installed) -> Result<Found, Failure> {
        let hold = installed.hold().map_err(|e| failure(&e))?;
        Ok(Found { path: installed.path.clone(), entry, hold: Some(hold) })
    }
}

/// The id of the model that runs if none is named: the user's choice, or the default.
pub(crate) fn usual_id(folders: &Folders) -> String {
    folders.active().map_or_else(|| catalog::DEFAULT.id.to_string(), |id| id.to_string())
}

/// The file of the model that the arguments name; what is not here yet is fetched.
pub(crate) fn model(args: &ModelArgs, interrupt: &Interrupt) -> Result<Found, Failure> {
    if let Some(path) = &args.model {
        zinc_hub::model_file(path).map_err(|e| failure(&e))?;
        return Ok(Found { path: path.clone(), entry: None, hold: None });
    }
    let folders = folders()?;
    let id = args.model_id.clone().unwrap_or_else(|| usual_id(&folders));
    match zinc_hub::model_id(&folders, &id).map_err(|e| failure(&e))? {
        Resolved::Installed(entry, installed) => Found::of(entry, &installed),
        Resolved::OnHub(reference) => Found::of(None, &fetch(Wish::Hub(&reference), &folders, interrupt)?),
        Resolved::Missing(entry) => {
            if args.model_id.is_none() && std::ptr::eq(entry, catalog::DEFAULT) {
                let licence = entry.licence;
                note(&format!(
                    "No model was named: this fetches {} ({}, {licence}) once.",
                    entry.name,
                    bytes(entry.size_bytes)
                ));
                note("Another one: --model-id ID (see `zinc model list`) or -m FILE.");
            }
            Found::of(Some(entry), &fetch(Wish::Catalog(entry), &folders, interrupt)?)
        }
    }
}

/// What to fetch.
#[derive(Clone, Copy)]
pub(crate) enum Wish<'a> {
    /// A model of the catalog.
    Catalog(&'static Entry),
    /// A model of a repository of the hub.
    Hub(&'a HubReference),
}

/// Fetches a model, showing how it goes.
pub(crate) fn fetch(wish: Wish<'_>, folders: &Folders, interrupt: &Interrupt) -> Result<Installed, Failure> {
    let (settings, cancel) = (settings(), interrupt.flag());
    let pulled = watched(|on_event| match wish {
        Wish::Catalog(entry) => zinc_hub::pull(entry, folders, &settings, &cancel, on_event),
        Wish::Hub(reference) => zinc_hub::pull_hub(reference, folders, &settings, &cancel, on_event),
    });
    let installed = pulled.map_err(|e| failure(&e))?;
    let checked = match installed.verification {
        Verification::Sha256 => "SHA-256 checked",
        Verification::SizeOnly => "no published checksum: only the size was checked",
    };
    note(&format!("{} is in {} ({checked})", installed.id, installed.path.display()));
    Ok(installed)
}

/// Runs something that moves bytes, with a bar for each phase and a line for each event.
pub(crate) fn watched<R>(run: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> R) -> R {
    let mut bar: Option<(Phase, u64, Bar)> = None;
    let mut on_event = |event: Event<'_>| match event {
        Event::Progress { phase, done, total } => {
            if bar.as_ref().is_none_or(|(of, n, _)| (*of, *n) != (phase, total)) {
                bar.take().inspect(|(_, _, bar)| bar.finish());
                bar = Some((phase, total, Bar::bytes(phase_name(phase), total)));
            }
            bar.iter().for_each(|(_, _, bar)| bar.set(done));
        }
        other => {
            bar.take().inspect(|(_, _, bar)| bar.finish());
            note(&event_text(&other));
        }
    };
    let result = run(&mut on_event);
    bar.take().inspect(|(_, _, bar)| bar.finish());
    result
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
    folders().ok().map(|folders| folders.cache().to_path_buf())
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
        Error::BadId { .. }
        | Error::UnknownModel { .. }
        | Error::NoSuchFile { .. }
        | Error::NoHome
        | Error::NotInstalled { .. }
        | Error::NoSuchQuantisation { .. }
        | Error::Ambiguous { .. } => Kind::ModelNotFound,
        Error::IsFolder { .. } | Error::NotAFile { .. } | Error::EmptyFile { .. } | Error::Damaged { .. } => {
            Kind::ModelUnusable
        }
        Error::BadHubUrl { .. } | Error::BadProxy | Error::BadReference { .. } => Kind::Usage,
        Error::Loaded { .. } => Kind::Failed,
        Error::Cancelled => Kind::Interrupted,
        _ => Kind::Download,
    };
    let failure = Failure::new(kind, error);
    match error {
        Error::BadId { .. } | Error::UnknownModel { .. } => failure.remedy(
            "`zinc model list` shows the catalog; owner/name:Q4_K_M is any model of the hub, -m FILE any GGUF file",
        ),
        Error::NoSuchFile { .. } => failure.remedy("check the path, or use --model-id with an id of `zinc model list`"),
        Error::EmptyFile { .. } | Error::IsFolder { .. } | Error::NotAFile { .. } => {
            failure.remedy("-m takes a GGUF file")
        }
        Error::NotInstalled { id } => failure.remedy(format!("zinc model pull {id}")),
        Error::Loaded { .. } => failure.remedy("end that process, or use --force"),
        Error::Damaged { path, .. } => {
            let id = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            failure.remedy(format!("zinc model rm {id}, then zinc model pull it again"))
        }
        Error::Linked { .. } => failure.remedy("put the model itself there, or remove the link"),
        Error::Cancelled => failure.remedy("what was fetched is kept; the next pull goes on from there"),
        _ => failure,
    }
}
