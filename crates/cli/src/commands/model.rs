//! `zinc model list|pull|path`.

use serde_json::json;
use zinc_hub::catalog::{ENTRIES, Entry, Thinking, Verified};
use zinc_hub::{Folders, Resolved};

use crate::args::ModelCommand;
use crate::failure::{Failure, Kind, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{bytes, print};
use crate::resolve;

pub(crate) fn run(command: &ModelCommand) -> Outcome {
    let folders = resolve::folders()?;
    match command {
        ModelCommand::List { json } => list(&folders, *json),
        ModelCommand::Pull { id } => match resolved(&folders, id)? {
            Resolved::Installed(_, installed) => print(&format!("{}\n", installed.path.display())),
            Resolved::Missing(entry) => {
                let path = resolve::fetch(entry, &folders, &Interrupt::listen()?)?;
                print(&format!("{}\n", path.display()))
            }
        },
        ModelCommand::Path { id } => match resolved(&folders, id)? {
            Resolved::Installed(_, installed) => print(&format!("{}\n", installed.path.display())),
            Resolved::Missing(entry) => Err(Failure::new(Kind::ModelNotFound, format!("{} is not here", entry.id))
                .remedy(format!("zinc model pull {}", entry.id))),
        },
    }
}

fn resolved(folders: &Folders, id: &str) -> Result<Resolved, Failure> {
    zinc_hub::model_id(folders, id).map_err(|e| resolve::failure(&e))
}

fn list(folders: &Folders, as_json: bool) -> Outcome {
    let mut rows = Vec::new();
    let mut text =
        format!("{:<30} {:>9}  {:<9} {:<14} {:<18} {}\n", "ID", "SIZE", "HERE", "VERIFIED", "LICENCE", "NAME");
    for entry in &ENTRIES {
        let here = folders.installed(entry).map_err(|e| resolve::failure(&e))?.is_some();
        rows.push(row(entry, here));
        let (size, mark) = (bytes(entry.size_bytes), if here { "yes" } else { "" });
        text += &format!(
            "{:<30} {size:>9}  {mark:<9} {:<14} {:<18} {}\n",
            entry.id.as_str(),
            verified(entry),
            entry.licence,
            entry.name
        );
    }
    print(&if as_json { format!("{:#}\n", serde_json::Value::from(rows)) } else { text })
}

fn verified(entry: &Entry) -> &'static str {
    match entry.verified {
        Verified::ThisFile => "this file",
        Verified::SmallModels => "small models",
    }
}

fn row(entry: &Entry, here: bool) -> serde_json::Value {
    json!({
        "id": entry.id.as_str(),
        "name": entry.name,
        "architecture": entry.architecture,
        "repository": entry.hub.repository,
        "file": entry.hub.file,
        "size_bytes": entry.size_bytes,
        "sha256": entry.sha256.map(|sum| sum.to_string()),
        "quantisation": entry.quantisation,
        "context_tokens": entry.context_tokens,
        "licence": entry.licence,
        "thinking": !matches!(entry.thinking, Thinking::No),
        "verified": verified(entry),
        "installed": here,
    })
}
