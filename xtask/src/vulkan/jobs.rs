//! Programs run on a driver, as many side by side as there are cores, each with its time and its log.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Place;

/// One run of a program.
pub(super) struct Job {
    /// For people; the log is named after it.
    pub(super) name: String,
    /// The driver, as words for `radv-offline.sh`.
    pub(super) driver: Vec<String>,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// What the log must contain.
    pub(super) expects: Vec<&'static str>,
    /// How it must end.
    pub(super) exit_code: i32,
}

/// What a test program prints at its end.
pub(super) const TESTS_PASSED: &str = "test result: ok.";

impl Job {
    pub(super) fn new(name: &str, driver: &[&str], program: PathBuf, expects: &'static str) -> Job {
        let driver = driver.iter().map(|word| (*word).to_owned()).collect();
        Job {
            name: name.to_owned(),
            driver,
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            expects: vec![expects],
            exit_code: 0,
        }
    }

    pub(super) fn arg(mut self, argument: impl Into<String>) -> Job {
        self.arguments.push(argument.into());
        self
    }

    pub(super) fn env(mut self, key: &str, value: impl Into<String>) -> Job {
        self.environment.push((key.to_owned(), value.into()));
        self
    }

    pub(super) fn expect(mut self, text: &'static str) -> Job {
        self.expects.push(text);
        self
    }

    pub(super) fn exits(mut self, code: i32) -> Job {
        self.exit_code = code;
        self
    }

    fn log(&self, place: &Place) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        place.output.join(self.name.chars().map(plain).collect::<String>() + ".log")
    }

    /// Runs it; a line with its times, or what went wrong.
    fn run(&self, place: &Place) -> Result<String, String> {
        // The shell's own timer knows what the program and its children used.
        const TIMED: &str = "TIMEFORMAT='cpu %U %S'; time \"$@\"";
        let path = self.log(place);
        let open = || File::create(&path).map_err(|e| format!("{}: {e}", path.display()));
        let log = open()?;
        let both = log.try_clone().map_err(|e| format!("{}: {e}", path.display()))?;
        let mut command = Command::new("bash");
        command.args(["-c", TIMED, "timed"]).arg(place.script()).args(&self.driver).arg("--");
        command.arg(&self.program).args(&self.arguments).envs(self.environment.iter().map(|(k, v)| (k, v)));
        command.current_dir(&place.root).stdout(log).stderr(both);
        let start = Instant::now();
        let status = command.status().map_err(|e| format!("bash: {e}"))?;
        let wall = start.elapsed().as_secs_f64();
        let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        let times = format!("{wall:.0} s (cpu {:.0} s)", cpu_seconds(&text));
        let failed = |what: &str| {
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            Err(format!("{}: {what} after {times}; the end of {}:\n{tail}", self.name, path.display()))
        };
        if text.contains("Validation Error") {
            let first = text.lines().skip_while(|line| !line.contains("Validation Error")).take(6);
            return failed(&format!("the validation layer complains:\n{}\n", first.collect::<Vec<_>>().join("\n")));
        }
        if status.code() != Some(self.exit_code) {
            return failed(&status.to_string());
        }
        if text.contains("SKIP:") {
            return failed("something was left out");
        }
        if let Some(absent) = self.expects.iter().find(|expected| !text.contains(**expected)) {
            return failed(&format!("`{absent}` is not in the log"));
        }
        Ok(times)
    }
}

/// Runs all, the first ones first; after a failure no new ones are begun.
///
/// # Errors
/// The failures, each with the end of its log.
pub(super) fn run_all(place: &Place, jobs: Vec<Job>) -> Result<(), String> {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len()).max(1);
    let queue = Mutex::new(VecDeque::from(jobs));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(job) = next else { return };
                    match job.run(place) {
                        Ok(times) => eprintln!("vulkan: {}: {times}", job.name),
                        Err(failure) => {
                            eprintln!("vulkan: {} FAILED", job.name);
                            queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                            failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                        }
                    }
                }
            });
        }
    });
    match failures.into_inner().unwrap_or_else(PoisonError::into_inner) {
        failures if failures.is_empty() => Ok(()),
        failures => Err(failures.join("\n\n")),
    }
}

/// User and system time from the shell's last line.
fn cpu_seconds(log: &str) -> f64 {
    let line = log.lines().rev().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.replace(',', ".").parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::cpu_seconds;

    #[test]
    fn the_shells_times_are_added_up() {
        let log = "cpu 1 1\nok\ncpu 12.500 0.250\n";
        assert!((cpu_seconds(log) - 12.75).abs() < 1e-9);
        assert!(cpu_seconds("killed").abs() < 1e-9);
    }
}
