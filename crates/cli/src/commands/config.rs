//! `zinc config`: every setting, its value, and where that comes from.

use std::fmt::Write;

use clap::{Arg, ArgMatches};
use serde_json::{Value, json};

use crate::config::{self, Settings, Source};
use crate::failure::Outcome;
use crate::output::print;

/// Settings whose values are nobody's business.
const SECRET: &str = "api-key";

/// One setting.
struct Row {
    key: String,
    values: Vec<String>,
    source: Source,
}

pub(crate) fn run(settings: &Settings, matches: &ArgMatches, is_json: bool) -> Outcome {
    let matches = matches.subcommand().map_or(matches, |(_, below)| below);
    let rows: Vec<Row> = config::keys().iter().map(|arg| row(arg, settings, matches)).collect();
    print(&if is_json { as_json(settings, &rows) } else { as_text(settings, &rows) })
}

fn row(arg: &Arg, settings: &Settings, matches: &ArgMatches) -> Row {
    let key = arg.get_long().unwrap_or_default().to_owned();
    let raw = matches.get_raw(arg.get_id().as_str());
    let mut values: Vec<String> = raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
    if key == SECRET && !values.is_empty() {
        values = vec![format!("({} set)", values.len())];
    }
    Row { key, values, source: settings.source(arg, matches) }
}

fn as_text(settings: &Settings, rows: &[Row]) -> String {
    let mut text = match &settings.file {
        Some((path, true)) => format!("file: {}\n\n", path.display()),
        Some((path, false)) => format!("file: {} (not there)\n\n", path.display()),
        None => "file: none (neither HOME nor XDG_CONFIG_HOME is set)\n\n".to_owned(),
    };
    let value = |row: &Row| if row.values.is_empty() { "(automatic)".to_owned() } else { row.values.join(",") };
    let width = rows.iter().map(|row| value(row).chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<20} {:<width$}  FROM", "SETTING", "VALUE");
    for row in rows {
        let _ = writeln!(text, "{:<20} {:<width$}  {}", row.key, value(row), row.source);
    }
    text
}

fn as_json(settings: &Settings, rows: &[Row]) -> String {
    let rows = rows.iter().map(|Row { key, values, source }| {
        let value = if values.is_empty() { Value::Null } else { json!(values.join(",")) };
        json!({ "setting": key, "value": value, "from": source.to_string(), "variable": config::variable(key) })
    });
    let file = settings.file.as_ref();
    let object = json!({
        "file": file.map(|(path, _)| path.display().to_string()), "file_is_there": file.is_some_and(|(_, is)| *is),
        "settings": rows.collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}
