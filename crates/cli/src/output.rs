//! Writing to people: the answer to standard output, the rest to standard error.

use std::io::{self, IsTerminal, Write};

use crate::failure::{Failure, Outcome};

/// Writes to standard output. A reader that went away (`zinc … | head`) is no error.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error; nothing can be done if that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Dim text, if standard error is a terminal that wants colours.
pub(crate) fn dim(text: &str, colours: bool) -> String {
    if colours { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

/// Whether to colour what goes to standard error.
pub(crate) fn stderr_colours() -> bool {
    colours_wanted() && io::stderr().is_terminal()
}

/// Whether to colour what goes to standard output.
pub(crate) fn stdout_colours() -> bool {
    colours_wanted() && io::stdout().is_terminal()
}

fn colours_wanted() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    wanted && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// `1.2 GB`, in powers of ten.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, &["B", "kB", "MB", "GB", "TB"], " ")
}

/// `494 M`, in powers of ten.
pub(crate) fn count(n: u64) -> String {
    scaled(n, &["", "k", "M", "G", "T"], " ").trim_end().to_owned()
}

fn scaled(n: u64, units: &[&str], gap: &str) -> String {
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{gap}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::{bytes, count};

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (98_300_000, "98.3 MB"),
            (999_999_999, "1.00 GB"),
            (22_241_950_336, "22.2 GB"),
        ];
        for (n, text) in cases {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(count(494_032_768), "494 M");
        assert_eq!(count(7), "7");
    }
}
