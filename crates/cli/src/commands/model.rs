//! `zinc model …`: what there is, what is here, what fits.

mod fit;
mod list;

use serde_json::json;
use zinc_hub::{Folders, Installed, ModelId, Resolved, catalog};

use crate::args::model::ModelCommand;
use crate::args::shared::{DeviceArgs, ModelArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{bytes, note, print};
use crate::resolve::{self, Wish};

pub(crate) fn run(command: &ModelCommand) -> Outcome {
    let folders = resolve::folders()?;
    match command {
        ModelCommand::List { all, json, device } => list::run(&folders, *all, *json, device),
        ModelCommand::Pull { id } => {
            let installed = fetched(&folders, id)?;
            print(&format!("{}\n", installed.path.display()))
        }
        ModelCommand::Use { id } => choose(&folders, id),
        ModelCommand::Active { json } => active(&folders, *json),
        ModelCommand::Rm { id, force } => remove(&folders, id, *force),
        ModelCommand::Path { id } => print(&format!("{}\n", here(&folders, id)?.path.display())),
        ModelCommand::Verify { id } => verify(&folders, id),
        ModelCommand::Fit { json, model, device } => fit(model, device, *json),
    }
}

fn fit(model: &ModelArgs, device: &DeviceArgs, as_json: bool) -> Outcome {
    fit::run(model, device, as_json)
}

fn resolved(folders: &Folders, id: &str) -> Result<Resolved, Failure> {
    zinc_hub::model_id(folders, id).map_err(|e| resolve::failure(&e))
}

/// A model that is here, or comes now.
fn fetched(folders: &Folders, id: &str) -> Result<Installed, Failure> {
    match resolved(folders, id)? {
        Resolved::Installed(_, installed) => Ok(installed),
        Resolved::Missing(entry) => resolve::fetch(Wish::Catalog(entry), folders, &Interrupt::listen()?),
        Resolved::OnHub(reference) => resolve::fetch(Wish::Hub(&reference), folders, &Interrupt::listen()?),
    }
}

/// A model that is here.
fn here(folders: &Folders, id: &str) -> Result<Installed, Failure> {
    match resolved(folders, id)? {
        Resolved::Installed(_, installed) => Ok(installed),
        Resolved::Missing(_) | Resolved::OnHub(_) => Err(not_here(id)),
    }
}

fn not_here(id: &str) -> Failure {
    Failure::new(Kind::ModelNotFound, format!("{id} is not here")).remedy(format!("zinc model pull {id}"))
}

fn choose(folders: &Folders, id: &str) -> Outcome {
    let installed = fetched(folders, id)?;
    folders.set_active(Some(&installed.id)).map_err(|e| resolve::failure(&e))?;
    note(&format!("{} runs if no model is named", installed.id));
    Ok(())
}

fn active(folders: &Folders, as_json: bool) -> Outcome {
    let id = resolve::usual_id(folders);
    let is_chosen = folders.active().is_some();
    let installed = match resolved(folders, &id) {
        Ok(Resolved::Installed(_, installed)) => Some(installed),
        _ => None,
    };
    if as_json {
        let path = installed.map(|installed| installed.path.display().to_string());
        return print(&format!("{:#}\n", json!({ "id": id, "chosen": is_chosen, "path": path })));
    }
    if !is_chosen {
        note("none was chosen (zinc model use ID); this is the default");
    }
    if installed.is_none() {
        note(&format!("it is not here yet: zinc model pull {id}"));
    }
    print(&format!("{id}\n"))
}

fn remove(folders: &Folders, id: &str, is_forced: bool) -> Outcome {
    // What is unfinished or broken does not count as installed, and is removed all the same.
    let (id, file) = match resolved(folders, id)? {
        Resolved::Installed(entry, installed) => (installed.id, entry.map(|entry| entry.hub.file)),
        Resolved::Missing(entry) => (entry.id.clone(), Some(entry.hub.file)),
        Resolved::OnHub(reference) => match reference.quantisation() {
            Some(quantisation) => (reference.id(quantisation).map_err(|e| resolve::failure(&e))?, None),
            None => return Err(not_here(id)),
        },
    };
    let removed = folders.remove(&id, file, is_forced).map_err(|e| resolve::failure(&e))?;
    note(&format!("removed {id}: {}", bytes(removed.size_bytes)));
    if !removed.left.is_empty() {
        let names: Vec<String> = removed.left.iter().map(|name| name.escape_debug().to_string()).collect();
        let folder = folders.model(&id);
        note(&format!("left in {}, since no pull made it: {}", folder.display(), names.join(", ")));
    }
    Ok(())
}

fn verify(folders: &Folders, id: &str) -> Outcome {
    let id: ModelId = match resolved(folders, id)? {
        Resolved::Installed(_, installed) => installed.id,
        Resolved::Missing(_) | Resolved::OnHub(_) => return Err(not_here(id)),
    };
    let cancel = Interrupt::listen()?.flag();
    let verified = resolve::watched(|on_event| folders.verify(&id, &cancel, on_event));
    let installed = verified.map_err(|e| resolve::failure(&e))?;
    print(&format!("{id}: {} as they came, by SHA-256\n", bytes(installed.size_bytes)))
}

/// The entry of the catalog that an installed model is, if its files are still those that the catalog means.
fn entry_of(folders: &Folders, installed: &Installed) -> Result<Option<&'static catalog::Entry>, Failure> {
    let Some(entry) = catalog::find(installed.id.as_str()) else { return Ok(None) };
    let is_its = folders.installed(entry).map_err(|e| resolve::failure(&e))?.is_some();
    Ok(is_its.then_some(entry))
}
