//! `zinc model fit`: the bytes of each part of a model, and what there is.

use std::fmt::Write as _;

use clap::ValueEnum as _;
use serde_json::{Map, Value, json};
use zinc_hub::Resolved;

use crate::args::shared::{DeviceArgs, KvType, ModelArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::fit::{self, Fit, Space};
use crate::interrupt::Interrupt;
use crate::output::{bytes, print};
use crate::resolve;
use crate::session::ModelFile;

pub(super) fn run(model: &ModelArgs, device: &DeviceArgs, as_json: bool) -> Outcome {
    let space = Space::of(&device.device)?;
    let (name, fit) = reckoned(model, device, &space)?;
    print(&if as_json { format!("{:#}\n", as_value(&name, &fit, &space)) } else { as_text(&name, &fit, &space) })?;
    match fit.is_ok() {
        Some(false) => Err(refusal(&name, &fit, &space)),
        _ => Ok(()),
    }
}

/// From the header if the file is here; else, without fetching it, from what the catalog knows.
fn reckoned(model: &ModelArgs, device: &DeviceArgs, space: &Space) -> Result<(String, Fit), Failure> {
    if model.model.is_none() {
        let folders = resolve::folders()?;
        let id = model.model_id.clone().unwrap_or_else(|| resolve::usual_id(&folders));
        if let Resolved::Missing(entry) = zinc_hub::model_id(&folders, &id).map_err(|e| resolve::failure(&e))? {
            return Ok((
                format!("{} (not here: by its catalog entry)", entry.id),
                fit::of_entry(entry, device, space)?,
            ));
        }
    }
    let file = ModelFile::open_header(model, &Interrupt::listen()?)?;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, fit::of_file(&file, device, space)?))
}

fn as_text(name: &str, fit: &Fit, space: &Space) -> String {
    let mut text = format!("{name} on {} ({}), context {} tokens\n", space.device, space.name, fit.context_tokens);
    for (part, size) in fit.needs.parts() {
        let _ = writeln!(text, "  {part:<18} {:>9}  {size} bytes", bytes(size));
    }
    let total = fit.needs.total_bytes();
    let _ = writeln!(text, "  {:<18} {:>9}  {total} bytes", "together", bytes(total));
    match fit.budget_bytes {
        Some(budget) => {
            let _ = writeln!(text, "  {:<18} {:>9}  {budget} bytes", "there is", bytes(budget));
        }
        None => text += "  the system does not tell how much memory there is\n",
    }
    for (kv_type, tokens) in &fit.longest {
        let tokens = tokens.map_or_else(|| "none".to_owned(), |tokens| format!("{tokens} tokens"));
        let _ = writeln!(text, "longest context with --kv-type {}: {tokens}", flag(*kv_type));
    }
    text
}

fn as_value(name: &str, fit: &Fit, space: &Space) -> Value {
    let parts: Map<String, Value> = fit
        .needs
        .parts()
        .iter()
        .map(|(part, size)| (format!("{}_bytes", part.replace(' ', "_")), (*size).into()))
        .collect();
    let longest: Map<String, Value> = fit.longest.iter().map(|(kv, tokens)| (flag(*kv), (*tokens).into())).collect();
    json!({
        "model": name, "device": space.device, "context_tokens": fit.context_tokens, "parts": parts,
        "total_bytes": fit.needs.total_bytes(), "budget_bytes": fit.budget_bytes, "fits": fit.is_ok(),
        "context_max": longest,
    })
}

/// No, with numbers, and what would do.
fn refusal(name: &str, fit: &Fit, space: &Space) -> Failure {
    let (total, budget) = (fit.needs.total_bytes(), fit.budget_bytes.unwrap_or(0));
    let short = total.saturating_sub(budget);
    let message = format!(
        "{name} does not fit {}: it takes {}, there are {} ({} too few)",
        space.device,
        bytes(total),
        bytes(budget),
        bytes(short)
    );
    let remedy = match (fit.context_max(), fit.better()) {
        (Some(tokens), None) => format!("-c {tokens} fits"),
        (Some(tokens), Some((kv, more))) => format!("-c {tokens} fits, or -c {more} with --kv-type {}", flag(kv)),
        (None, Some((kv, tokens))) => format!("-c {tokens} with --kv-type {} fits", flag(kv)),
        (None, None) => "a smaller model or quantisation (zinc model list), or another --device".to_owned(),
    };
    Failure::new(Kind::Failed, message).remedy(remedy)
}

/// The format as `--kv-type` takes it.
fn flag(kv_type: KvType) -> String {
    kv_type.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use zinc_engine::fit::Needs;

    use super::{Fit, KvType, Space, as_text, refusal};

    fn fit(longest: [Option<u32>; 2]) -> Fit {
        let needs = Needs {
            weights_bytes: 5_000_000_000,
            kv_bytes: 2_000_000_000,
            recurrent_bytes: 0,
            workspace_bytes: 500_000_000,
        };
        let longest = vec![(KvType::F32, longest[0]), (KvType::F16, longest[1])];
        Fit { context_tokens: 8192, needs, budget_bytes: Some(6_000_000_000), longest }
    }

    #[test]
    fn no_comes_with_numbers_and_with_what_would_do() {
        let space = Space { device: "cpu".into(), name: "CPU".into(), budget_bytes: Some(6_000_000_000) };
        let cases = [
            ([Some(2048), Some(4096)], "-c 2048 fits, or -c 4096 with --kv-type f16"),
            ([None, Some(4096)], "-c 4096 with --kv-type f16 fits"),
            ([Some(2048), Some(2048)], "-c 2048 fits"),
            ([None, None], "a smaller model or quantisation (zinc model list), or another --device"),
        ];
        for (longest, remedy) in cases {
            let failure = refusal("m", &fit(longest), &space);
            assert_eq!(failure.message, "m does not fit cpu: it takes 7.50 GB, there are 6.00 GB (1.50 GB too few)");
            assert_eq!(failure.remedy.as_deref(), Some(remedy), "{longest:?}");
        }
        let text = as_text("m", &fit([None, Some(4096)]), &space);
        for line in [
            "m on cpu (CPU), context 8192 tokens\n",
            "  weights              5.00 GB  5000000000 bytes\n",
            "  together             7.50 GB  7500000000 bytes\n",
            "longest context with --kv-type f32: none\nlongest context with --kv-type f16: 4096 tokens\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }
}
