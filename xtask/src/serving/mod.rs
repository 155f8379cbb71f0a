//! Commands that start a server and talk to it: load, cost, browser, routers, official clients.

mod browser;
mod client;
mod clients;
mod cost;
mod load;
mod packages;
mod scale_out;
mod server;

use std::path::Path;

/// Why a suite did not come to a good end.
#[derive(Debug)]
enum Missing {
    /// A package that it needs is not there and could not be installed.
    Package(String),
    /// It ran, and something did not hold.
    Failed(String),
}

impl From<String> for Missing {
    fn from(failure: String) -> Missing {
        Missing::Failed(failure)
    }
}

impl Missing {
    fn text(self) -> String {
        match self {
            Missing::Package(text) | Missing::Failed(text) => text,
        }
    }
}

/// Whether a suite may be left out for want of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanting {
    /// It is left out, and that is said.
    LeavesOut,
    /// That is a failure.
    Fails,
}

/// Seconds of requests that schemathesis makes when asked for by name.
const FUZZ_SECONDS: u32 = 180;
/// The same among all other checks.
const FUZZ_SECONDS_SHORT: u32 = 60;

/// One of the commands, by name.
///
/// # Errors
/// What could not be run, or did not hold.
pub(crate) fn command(root: &Path, name: &str, words: &[String]) -> Result<(), String> {
    match name {
        "load" => load::run(root, &load::Request::parse(words)?),
        "cost" => cost::run(root, words),
        "clients" => clients::run(root, FUZZ_SECONDS).map_err(Missing::text),
        "browser" => browser::run(root).map_err(Missing::text),
        _ => scale_out::run(root).map_err(Missing::text),
    }
}

/// What gates a change: a short load, the browser, the official clients.
///
/// # Errors
/// What did not hold.
pub(crate) fn suites(root: &Path, wanting: Wanting) -> Result<(), String> {
    load::run(root, &load::Request::short())?;
    left_out(browser::run(root), "the chat page in a browser", "cargo xtask browser", wanting)?;
    left_out(clients::run(root, FUZZ_SECONDS_SHORT), "the official clients", "cargo xtask clients", wanting)
}

/// Says what was left out, and how to make up for it.
fn left_out(result: Result<(), Missing>, what: &str, command: &str, wanting: Wanting) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(Missing::Package(text)) if wanting == Wanting::LeavesOut => {
            let reason = text.lines().next().unwrap_or_default();
            eprintln!("SKIP: {what} ({reason}); install it and run `{command}`");
            Ok(())
        }
        Err(missing) => Err(missing.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Missing, Wanting, left_out};

    #[test]
    fn only_missing_packages_leave_a_suite_out() {
        let outcome = |missing: Missing, wanting| left_out(Err(missing), "a", "b", wanting).is_ok();
        assert!(outcome(Missing::Package("x".into()), Wanting::LeavesOut));
        assert!(!outcome(Missing::Package("x".into()), Wanting::Fails));
        assert!(!outcome(Missing::Failed("x".into()), Wanting::LeavesOut));
    }
}
