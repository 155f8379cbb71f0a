//! The report: sections of lines, as text for people and as JSON for scripts.

use std::fmt::Write;

use serde_json::{Value, json};

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "OK",
            Level::Warn => "WARN",
            Level::Fail => "FAIL",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Level::Ok => "\x1b[32m",
            Level::Warn => "\x1b[33m",
            Level::Fail => "\x1b[31m",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) what: String,
    /// A line to paste.
    pub(super) remedy: Option<String>,
}

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) lines: Vec<Line>,
}

impl Section {
    pub(super) fn new(name: &'static str) -> Section {
        Section { name, lines: Vec::new() }
    }

    pub(super) fn ok(&mut self, what: impl Into<String>) {
        self.lines.push(Line { level: Level::Ok, what: what.into(), remedy: None });
    }

    pub(super) fn warn(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.lines.push(Line { level: Level::Warn, what: what.into(), remedy: Some(remedy.into()) });
    }

    pub(super) fn fail(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.lines.push(Line { level: Level::Fail, what: what.into(), remedy: Some(remedy.into()) });
    }
}

/// Everything that is said of a machine.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Profile of the chosen device.
    pub(super) profile: String,
    pub(super) sections: Vec<Section>,
}

impl Report {
    /// The worst of all lines.
    pub(super) fn verdict(&self) -> Level {
        let levels = self.sections.iter().flat_map(|section| section.lines.iter().map(|line| line.level));
        levels.max().unwrap_or(Level::Ok)
    }

    /// A line for each thing, the remedies below, the verdict last.
    pub(super) fn as_text(&self, with_colours: bool) -> String {
        let paint = |level: Level, text: &str| match with_colours {
            true => format!("{}{text}\x1b[0m", level.colour()),
            false => text.to_owned(),
        };
        // Writing to a string cannot fail.
        let mut text = String::new();
        for section in &self.sections {
            let _ = writeln!(text, "{}", section.name);
            for Line { level, what, remedy } in &section.lines {
                let mark = format!("[{}]", level.name());
                let _ = writeln!(text, "  {}{} {what}", paint(*level, &mark), " ".repeat(6 - mark.len()));
                if let Some(remedy) = remedy {
                    let _ = writeln!(text, "         {remedy}");
                }
            }
        }
        let verdict = self.verdict();
        let words = match verdict {
            Level::Ok => "READY [OK]",
            Level::Warn => "READY WITH WARNINGS [WARN]",
            Level::Fail => "NOT READY [FAIL]",
        };
        let _ = writeln!(text, "\n{}", paint(verdict, words));
        text
    }

    pub(super) fn as_json(&self) -> String {
        let line = |line: &Line| json!({ "level": line.level.name(), "what": line.what, "remedy": line.remedy });
        let section = |section: &Section| -> Value {
            json!({ "name": section.name, "lines": section.lines.iter().map(line).collect::<Vec<_>>() })
        };
        let verdict = match self.verdict() {
            Level::Ok => "ready",
            Level::Warn => "ready_with_warnings",
            Level::Fail => "not_ready",
        };
        let object = json!({
            "version": env!("CARGO_PKG_VERSION"), "verdict": verdict, "profile": self.profile,
            "sections": self.sections.iter().map(section).collect::<Vec<_>>(),
        });
        format!("{object:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(levels: &[Level]) -> Report {
        let mut section = Section::new("part");
        section.lines = levels.iter().map(|&level| Line { level, what: "x".into(), remedy: None }).collect();
        Report { profile: "cpu".into(), sections: vec![section] }
    }

    #[test]
    fn the_worst_line_decides() {
        use Level::{Fail, Ok, Warn};
        for (levels, words, name) in [
            (&[Ok, Ok][..], "READY [OK]", "ready"),
            (&[Ok, Warn, Ok], "READY WITH WARNINGS [WARN]", "ready_with_warnings"),
            (&[Fail, Warn], "NOT READY [FAIL]", "not_ready"),
        ] {
            let report = report(levels);
            assert_eq!(report.as_text(false).lines().last(), Some(words));
            let object: Value = serde_json::from_str(&report.as_json()).unwrap();
            assert_eq!(object["verdict"], name);
            assert_eq!(object["sections"][0]["lines"].as_array().unwrap().len(), levels.len());
        }
    }

    #[test]
    fn colours_change_nothing_else() {
        let report = report(&[Level::Ok, Level::Warn, Level::Fail]);
        let mut plain = report.as_text(true);
        for code in ["\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, report.as_text(false));
    }
}
