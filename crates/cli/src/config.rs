//! Settings that were not typed: the environment, then a TOML file with the names of the flags.
//!
//! A flag goes before the environment, that before the file, that before the built-in value. What is found here becomes
//! the value that a flag has when it is absent, so that the commands see one set of arguments.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches};
use toml::Value;

use crate::args::Cli;
use crate::args::show::ConfigArgs;
use crate::failure::Failure;

/// Bytes of the largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 16;
/// Names a file in place of the usual one.
const FILE_VARIABLE: &str = "ZINC_CONFIG";
/// Two ways to name one thing: who types one does not mean the other.
const EITHER: [&str; 2] = ["model", "model-id"];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Environment(String),
    /// The file.
    File,
    /// Nothing was said.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment(name) => f.write_str(name),
            Source::File => f.write_str("file"),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A setting that the environment or the file makes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Long name of the flag.
    key: String,
    /// As on the command line; several for flags that may be given several times.
    values: Vec<String>,
    source: Source,
}

/// What is set outside of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    made: Vec<Setting>,
    /// The file, and whether it is there.
    pub(crate) file: Option<(PathBuf, bool)>,
}

/// The command line with everything that was set elsewhere.
pub(crate) struct CommandLine {
    pub(crate) cli: Cli,
    /// `-p` was typed: a port of the file alone starts no server.
    pub(crate) is_port_typed: bool,
    pub(crate) settings: Settings,
    pub(crate) matches: ArgMatches,
}

/// Reads the command line, the environment and the file. Ends the program where clap does: help, version, a mistake.
pub(crate) fn command_line() -> Result<CommandLine, Failure> {
    let typed = Cli::command().get_matches();
    let mut settings = Settings::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?;
    settings.drop_alternatives(&typed)?;
    let matches = settings.applied(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let is_port_typed = typed.value_source("port") == Some(ValueSource::CommandLine);
    Ok(CommandLine { cli, is_port_typed, settings, matches })
}

/// Every flag that can be set outside of the command line.
pub(crate) fn keys() -> Vec<Arg> {
    let command = ConfigArgs::augment_args(Command::new("zinc"));
    command.get_arguments().filter(|arg| !["json", "help"].contains(&arg.get_id().as_str())).cloned().collect()
}

/// Name of a flag's variable: `--kv-memory` is `ZINC_KV_MEMORY`.
pub(crate) fn variable(key: &str) -> String {
    format!("ZINC_{}", key.to_ascii_uppercase().replace('-', "_"))
}

impl Settings {
    /// From variables, and from the file that they name.
    fn read(variables: impl Fn(&str) -> Option<String>) -> Result<Settings, Failure> {
        let value = |name: &str| variables(name).filter(|value| !value.is_empty());
        let named = value(FILE_VARIABLE).map(PathBuf::from);
        let path = named.clone().or_else(|| {
            let absolute = |name: &str| value(name).map(PathBuf::from).filter(|path| path.is_absolute());
            let home = absolute("HOME");
            let folder = if cfg!(target_os = "macos") {
                home.map(|home| home.join("Library/Application Support"))
            } else {
                absolute("XDG_CONFIG_HOME").or_else(|| Some(home?.join(".config")))
            };
            Some(folder?.join("zinc/config.toml"))
        });
        let text = match &path {
            Some(path) if named.is_some() || path.exists() => Some(read_file(path)?),
            _ => None,
        };
        let file = path.map(|path| (path, text.is_some()));
        let mut settings = Settings { made: Vec::new(), file };
        let keys = keys();
        for arg in &keys {
            let Some(key) = arg.get_long() else { continue };
            let name = variable(key);
            if let Some(text) = value(&name) {
                let values = if is_list(arg) { text.split(',').map(str::to_owned).collect() } else { vec![text] };
                let source = Source::Environment(name);
                settings
                    .make(arg, values, source)
                    .map_err(|error| Failure::usage(format!("{}: {error}", variable(key))))?;
            }
        }
        if let (Some((path, _)), Some(text)) = (settings.file.clone(), text) {
            settings.take(&keys, &text).map_err(|error| {
                Failure::usage(format!("{}: {error}", path.display()))
                    .remedy("`zinc config --help` shows how it is written")
            })?;
        }
        Ok(settings)
    }

    /// The file's settings, where no variable has made them.
    fn take(&mut self, keys: &[Arg], text: &str) -> Result<(), String> {
        let table = text.parse::<toml::Table>().map_err(|error| error.to_string().trim_end().to_owned())?;
        for (key, value) in table {
            let arg = keys.iter().find(|arg| arg.get_long() == Some(key.as_str()));
            let arg = arg.ok_or_else(|| format!("`{key}` is no setting; `zinc config` lists all"))?;
            let values = words(&value)
                .ok_or_else(|| format!("`{key}` is not a text, a number, true or false, or a list of those"))?;
            if matches!(value, Value::Array(_)) && !is_list(arg) {
                return Err(format!("`{key}` takes one value"));
            }
            self.make(arg, values, Source::File).map_err(|error| format!("`{key}`: {error}"))?;
        }
        Ok(())
    }

    /// Makes a setting whose values the flag takes, unless it was made before.
    fn make(&mut self, arg: &Arg, mut values: Vec<String>, source: Source) -> Result<(), String> {
        let key = arg.get_long().unwrap_or_default().to_owned();
        if is_switch(arg) {
            for value in &mut values {
                let word = match value.as_str() {
                    "true" | "1" | "yes" | "on" => "true",
                    "false" | "0" | "no" | "off" => "false",
                    other => return Err(format!("`{other}` is neither true nor false")),
                };
                word.clone_into(value);
            }
        } else {
            let words = values.iter().map(|value| format!("--{key}={value}"));
            let trial = ConfigArgs::augment_args(Command::new("zinc"));
            trial.try_get_matches_from(std::iter::once("zinc".to_owned()).chain(words)).map_err(|error| {
                let text = error.to_string();
                text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
            })?;
        }
        if !values.is_empty() && self.made.iter().all(|setting| setting.key != key) {
            self.made.push(Setting { key, values, source });
        }
        Ok(())
    }

    /// Of two settings that exclude each other the one from the higher source stands, and none beside a flag.
    fn drop_alternatives(&mut self, typed: &ArgMatches) -> Result<(), Failure> {
        let mut leaf = typed;
        while let Some((_, below)) = leaf.subcommand() {
            leaf = below;
        }
        let is_typed = |id: &str| {
            matches!(leaf.try_contains_id(id), Ok(true)) && leaf.value_source(id) == Some(ValueSource::CommandLine)
        };
        if is_typed("model") || is_typed("model_id") {
            self.made.retain(|setting| !EITHER.contains(&setting.key.as_str()));
            return Ok(());
        }
        let both: Vec<&Setting> = self.made.iter().filter(|setting| EITHER.contains(&setting.key.as_str())).collect();
        let [first, second] = both[..] else { return Ok(()) };
        let is_file = |setting: &Setting| setting.source == Source::File;
        if is_file(first) == is_file(second) {
            return Err(
                Failure::usage(format!("both {} and {} are set", first.key, second.key)).remedy("keep one of them")
            );
        }
        self.made.retain(|setting| !EITHER.contains(&setting.key.as_str()) || !is_file(setting));
        Ok(())
    }

    /// `command` with these settings in place of its built-in values, in every command below it too.
    fn applied(&self, command: Command) -> Command {
        let below = command.mut_subcommands(|below| self.applied(below));
        below.mut_args(|arg| {
            let setting = self.made.iter().find(|setting| arg.get_long() == Some(setting.key.as_str()));
            match setting {
                Some(setting) => arg.default_values(setting.values.clone()),
                None => arg,
            }
        })
    }

    /// Where the value of a flag comes from.
    pub(crate) fn source(&self, arg: &Arg, matches: &ArgMatches) -> Source {
        if matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            return Source::Flag;
        }
        let made = self.made.iter().find(|setting| arg.get_long() == Some(setting.key.as_str()));
        made.map_or(Source::Default, |setting| setting.source.clone())
    }
}

/// The flag may be given several times.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The flag has no value.
fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// A value of the file as words of the command line.
fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Integer(n) => Some(vec![n.to_string()]),
        Value::Float(x) => Some(vec![x.to_string()]),
        Value::Boolean(is) => Some(vec![is.to_string()]),
        Value::Array(values) => {
            values.iter().map(|value| if value.is_array() { None } else { words(value)?.pop() }).collect()
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let failure = |error: std::io::Error| {
        Failure::usage(format!("cannot read the settings in {}: {error}", path.display()))
            .remedy(format!("{FILE_VARIABLE} names another file"))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failure)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failure)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings of a file and of variables, and the command line read with them.
    fn read(text: &str, variables: &[(&str, &str)], typed: &[&str]) -> Result<(ArgMatches, Settings), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let mut settings = Settings::read(|name| match name {
            FILE_VARIABLE => Some(path.to_str().unwrap().to_owned()),
            name => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        })
        .map_err(|failure| failure.message.replace(path.to_str().unwrap(), "FILE"))?;
        let matches = Cli::command().try_get_matches_from(typed).unwrap();
        settings.drop_alternatives(&matches).map_err(|failure| failure.message)?;
        Ok((settings.applied(Cli::command()).try_get_matches_from(typed).unwrap(), settings))
    }

    fn context(matches: &ArgMatches) -> Option<u32> {
        matches.get_one::<u32>("context").copied()
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_that_before_the_file() {
        let file = "context = 100\nkv-memory = \"1GiB\"\n";
        let variables = [("ZINC_CONTEXT", "200")];
        assert_eq!(context(&read("", &[], &["zinc"]).unwrap().0), None);
        assert_eq!(context(&read(file, &[], &["zinc"]).unwrap().0), Some(100));
        assert_eq!(context(&read(file, &variables, &["zinc"]).unwrap().0), Some(200));
        let (matches, settings) = read(file, &variables, &["zinc", "-c", "300"]).unwrap();
        assert_eq!((context(&matches), matches.get_one::<u64>("kv_memory")), (Some(300), Some(&(1 << 30))));
        let source = |key: &str| {
            let keys = keys();
            settings.source(keys.iter().find(|arg| arg.get_long() == Some(key)).unwrap(), &matches)
        };
        assert_eq!((source("context"), source("kv-memory")), (Source::Flag, Source::File));
        assert_eq!(source("device"), Source::Default);
        // The same in a command below.
        let (matches, _) = read(file, &variables, &["zinc", "bench"]).unwrap();
        assert_eq!(context(matches.subcommand().unwrap().1), Some(200));
    }

    #[test]
    fn lists_and_switches_are_set_too() {
        let file = "allow-host = [\"a\", \"b\"]\nlog-requests = true\n";
        let (matches, _) = read(file, &[("ZINC_ALLOW_ORIGIN", "x,y")], &["zinc", "serve"]).unwrap();
        let matches = matches.subcommand().unwrap().1;
        let all = |id: &str| matches.get_many::<String>(id).unwrap().cloned().collect::<Vec<_>>();
        assert_eq!(
            (all("allow_host"), all("allow_origin")),
            (vec!["a".into(), "b".into()], vec!["x".into(), "y".into()])
        );
        assert!(matches.get_flag("log_requests"));
        let (matches, _) = read(file, &[("ZINC_LOG_REQUESTS", "off")], &["zinc", "serve"]).unwrap();
        assert!(!matches.subcommand().unwrap().1.get_flag("log_requests"));
    }

    #[test]
    fn who_types_a_model_does_not_mean_the_one_of_the_file() {
        let file = "model = \"a.gguf\"\n";
        let (matches, _) = read(file, &[], &["zinc", "--model-id", "b"]).unwrap();
        assert!(matches.get_one::<PathBuf>("model").is_none());
        let (matches, _) = read(file, &[("ZINC_MODEL_ID", "c")], &["zinc"]).unwrap();
        assert!(matches.get_one::<PathBuf>("model").is_none() && matches.get_one::<String>("model_id").is_some());
        let both = read("model = \"a\"\nmodel-id = \"b\"\n", &[], &["zinc"]).unwrap_err();
        assert!(both.contains("both model"), "{both}");
    }

    #[test]
    fn each_mistake_names_its_place() {
        /// A file, variables, and how the sentence begins.
        type Mistake<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let cases: [Mistake<'_>; 8] = [
            ("contxt = 1", &[], "FILE: `contxt` is no setting"),
            ("context = \"many\"", &[], "FILE: `context`: invalid value 'many' for '--context <N>'"),
            ("context = [1, 2]", &[], "FILE: `context` takes one value"),
            ("context = 1979-05-27", &[], "FILE: `context` is not a text"),
            ("log-requests = \"maybe\"", &[], "FILE: `log-requests`: `maybe` is neither true nor false"),
            ("context = ", &[], "FILE: TOML parse error"),
            ("[server]\nport = 1", &[], "FILE: `server` is no setting"),
            ("", &[("ZINC_PORT", "99999")], "ZINC_PORT: invalid value '99999'"),
        ];
        for (text, variables, sentence) in cases {
            let error = read(text, variables, &["zinc"]).map(|_| ()).unwrap_err();
            assert!(error.starts_with(sentence), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_was_named_must_be_there_and_the_usual_one_need_not() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        let found = Settings::read(|name| (name == "HOME").then(|| home.clone())).unwrap();
        assert!(found.file.is_some_and(|(path, is_there)| path.starts_with(folder.path()) && !is_there));
        assert!(Settings::read(|name| (name == FILE_VARIABLE).then(|| format!("{home}/none.toml"))).is_err());
    }

    #[test]
    fn every_setting_is_a_flag_of_some_command() {
        let command = Cli::command();
        let all: Vec<&str> = std::iter::once(&command)
            .chain(command.get_subcommands().filter(|below| below.get_name() != "config"))
            .flat_map(|command| command.get_arguments().filter_map(Arg::get_long))
            .collect();
        for arg in keys() {
            assert!(all.contains(&arg.get_long().unwrap()), "{:?}", arg.get_id());
        }
    }
}
