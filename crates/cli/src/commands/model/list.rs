//! `zinc model list`: the catalog, and what else is here, with what fits.

use std::fmt::Write as _;

use clap::Parser as _;
use serde_json::{Value, json};
use zinc_hub::catalog::{ENTRIES, Entry, Thinking};
use zinc_hub::{Folders, Installed};

use super::entry_of;
use crate::args::model::ModelCommand;
use crate::args::shared::DeviceArgs;
use crate::args::{Cli, Command};
use crate::failure::{Failure, Outcome};
use crate::fit::{self, Fit, Space};
use crate::output::{bytes, note, print};
use crate::resolve::{self, Found};
use crate::session::ModelFile;

/// A line of the list.
struct Row {
    id: String,
    name: String,
    size_bytes: u64,
    entry: Option<&'static Entry>,
    is_here: bool,
    /// Why it could not be reckoned, if it could not.
    fit: Result<Fit, String>,
}

pub(super) fn run(folders: &Folders, all: bool, as_json: bool, device: &str) -> Outcome {
    let args = defaults_for(device)?;
    let space = Space::of(device)?;
    let rows = rows(folders, &args, &space)?;
    if as_json {
        let rows: Vec<Value> = rows.iter().map(as_value).collect();
        return print(&format!("{:#}\n", Value::from(rows)));
    }
    let active = folders.active();
    let is_shown = |row: &&Row| all || row.is_here || row.fit.as_ref().map_or(true, |fit| fit.is_ok() != Some(false));
    let mut text = format!(
        "{:<30} {:>8}  {:<6} {:>9}  {:<12} {:<20} {}\n",
        "ID", "SIZE", "HERE", "CONTEXT", "VERIFIED", "LICENCE", "NAME"
    );
    for row in rows.iter().filter(is_shown) {
        let here = match (row.is_here, active.as_ref().is_some_and(|id| id.as_str() == row.id)) {
            (true, true) => "active",
            (true, false) => "yes",
            _ => "",
        };
        let (verified, licence) =
            row.entry.map_or(("not checked", "see its page"), |entry| (entry.verified.words(), entry.licence));
        let _ = writeln!(
            text,
            "{:<30} {:>8}  {here:<6} {:>9}  {verified:<12} {licence:<20} {}",
            row.id,
            bytes(row.size_bytes),
            context(row),
            row.name
        );
    }
    print(&text)?;
    let n_hidden = rows.len() - rows.iter().filter(is_shown).count();
    let has = space.budget_bytes.map_or_else(|| "memory that the system does not tell".to_owned(), bytes);
    note(&format!("CONTEXT: the longest that fits {} ({}, {has} free).", space.device, space.name));
    if n_hidden > 0 {
        note(&format!("{n_hidden} more do not fit: --all shows them, zinc model fit --model-id ID says why."));
    }
    Ok(())
}

fn rows(folders: &Folders, args: &DeviceArgs, space: &Space) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for entry in &ENTRIES {
        let here = folders.installed(entry).map_err(|e| resolve::failure(&e))?;
        let fit = match &here {
            Some(installed) => of_installed(Some(entry), installed, args, space),
            None => fit::of_entry(entry, args, space).map_err(|failure| failure.message),
        };
        rows.push(Row {
            id: entry.id.to_string(),
            name: entry.name.to_owned(),
            size_bytes: entry.size_bytes,
            entry: Some(entry),
            is_here: here.is_some(),
            fit,
        });
    }
    for installed in folders.all_installed().map_err(|e| resolve::failure(&e))? {
        if entry_of(folders, &installed)?.is_some() {
            continue;
        }
        rows.push(Row {
            id: installed.id.to_string(),
            name: installed.repository.clone(),
            size_bytes: installed.size_bytes,
            entry: None,
            is_here: true,
            fit: of_installed(None, &installed, args, space),
        });
    }
    Ok(rows)
}

fn of_installed(
    entry: Option<&'static Entry>,
    installed: &Installed,
    args: &DeviceArgs,
    space: &Space,
) -> Result<Fit, String> {
    let reckoned =
        Found::of(entry, installed).and_then(ModelFile::read).and_then(|file| fit::of_file(&file, args, space));
    reckoned.map_err(|failure| failure.message)
}

fn context(row: &Row) -> String {
    match &row.fit {
        Ok(Fit { budget_bytes: None, .. }) => "unknown".to_owned(),
        Ok(fit) => fit.context_max().map_or_else(|| "too large".to_owned(), |tokens| tokens.to_string()),
        Err(_) => "unusable".to_owned(),
    }
}

fn as_value(row: &Row) -> Value {
    let mut value = json!({ "id": row.id, "name": row.name, "size_bytes": row.size_bytes, "installed": row.is_here });
    if let Some(entry) = row.entry {
        value["family"] = entry.family.into();
        value["architecture"] = entry.architecture.into();
        value["repository"] = entry.hub.repository.into();
        value["file"] = entry.hub.file.into();
        value["sha256"] = entry.sha256.map(|sum| sum.to_string()).into();
        value["quantisation"] = entry.quantisation.into();
        value["context_tokens"] = entry.context_tokens.into();
        value["context_train"] = entry.context_train.into();
        value["licence"] = entry.licence.into();
        value["thinking"] = (!matches!(entry.thinking, Thinking::No)).into();
        value["verified"] = entry.verified.words().into();
    }
    match &row.fit {
        Ok(fit) => {
            value["memory_bytes"] = fit.needs.total_bytes().into();
            value["fits"] = fit.is_ok().into();
            value["context_max"] = fit.context_max().into();
        }
        Err(why) => value["problem"] = why.as_str().into(),
    }
    value
}

/// The arguments of a command that says nothing but the device.
fn defaults_for(device: &str) -> Result<DeviceArgs, Failure> {
    // In one piece, so that no value is taken for a flag.
    let device = format!("--device={device}");
    match Cli::try_parse_from(["zinc", "model", "fit", &device]).map(|cli| cli.command) {
        Ok(Some(Command::Model(ModelCommand::Fit { device, .. }))) => Ok(device),
        Ok(_) => Err(Failure::usage("`model fit` is no command")),
        Err(error) => Err(Failure::usage(error)),
    }
}
