//! `crates/vulkan/baselines/rdna.txt`: what the compiler made of each kernel variant when it was last looked at.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What is compared of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// Width of a wave.
    pub(super) wave: u64,
    /// Waves that fit on a SIMD.
    pub(super) waves: u64,
    /// Matrix instructions.
    pub(super) matrix: u64,
    /// Integer dot product instructions.
    pub(super) dot: u64,
}

/// All variants, by card, kernel and constants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    /// The driver that compiled them.
    pub(super) mesa: String,
    pub(super) variants: BTreeMap<String, Code>,
}

const HEAD: &str = "\
# The kernels' code on AMD cards as RADV compiles it. Made by `cargo xtask vulkan --bless`, which says
# what changed.
# card kernel constants (by id, from 0): width of a wave, waves per SIMD, v_wmma and v_dot4 instructions
";

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    /// A file that is missing or malformed.
    pub(super) fn read(path: &Path) -> Result<Baseline, String> {
        let text = fs::read_to_string(path)
            .map_err(|e| format!("{}: {e} (`cargo xtask vulkan --bless` makes it)", path.display()))?;
        Baseline::parse(&text).map_err(|line| format!("{}: what is `{line}`?", path.display()))
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        let mut baseline = Baseline { mesa: String::new(), variants: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            if let Some(mesa) = line.strip_prefix("Mesa ") {
                mesa.clone_into(&mut baseline.mesa);
                continue;
            }
            let (variant, code) = line.split_once(": ").ok_or(line)?;
            let numbers: Vec<u64> = code.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let &[wave, waves, matrix, dot] = numbers.as_slice() else { return Err(line.to_owned()) };
            baseline.variants.insert(variant.to_owned(), Code { wave, waves, matrix, dot });
        }
        Ok(baseline)
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}Mesa {}\n", self.mesa);
        for (variant, code) in &self.variants {
            let Code { wave, waves, matrix, dot } = code;
            let _ = writeln!(text, "{variant}: wave {wave} waves {waves} wmma {matrix} dot4 {dot}");
        }
        text
    }

    /// Replaces the file, and says what changed.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        if let Ok(before) = Baseline::read(path) {
            self.changes(&before).iter().for_each(|change| eprintln!("{change}"));
        }
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        fs::write(path, self.text()).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Compares with the committed one: the same variants, as many waves or more, instructions that do not vanish.
    /// Another driver makes other code: then nothing is compared, which is said.
    ///
    /// # Errors
    /// Every variant that is worse, new or gone.
    pub(super) fn check_against(&self, committed: &Baseline) -> Result<(), String> {
        if self.mesa != committed.mesa {
            eprintln!(
                "SKIP: the kernels' code is not compared with the baseline: it is of Mesa {}, this is {}",
                committed.mesa, self.mesa
            );
            return Ok(());
        }
        let worse = |before: &Code, now: &Code| {
            let gone = |before: u64, now: u64| before > 0 && now == 0;
            now.waves < before.waves
                || now.wave != before.wave
                || gone(before.matrix, now.matrix)
                || gone(before.dot, now.dot)
        };
        let faults: Vec<String> = self
            .changes(committed)
            .into_iter()
            .filter(|change| match (&change.before, &change.now) {
                (Some(before), Some(now)) => worse(before, now),
                _ => true,
            })
            .map(|change| change.to_string())
            .collect();
        match faults.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the kernels' code differs from the baseline:\n{}\nif that is meant: `cargo xtask vulkan --bless`",
                faults.join("\n")
            )),
        }
    }

    fn changes(&self, before: &Baseline) -> Vec<Change> {
        let mut names: Vec<&String> = self.variants.keys().chain(before.variants.keys()).collect();
        names.sort();
        names.dedup();
        let change = |name: &String| {
            let (before, now) = (before.variants.get(name).copied(), self.variants.get(name).copied());
            (before != now).then(|| Change { variant: name.clone(), before, now })
        };
        names.into_iter().filter_map(change).collect()
    }
}

/// A variant that is not as it was.
struct Change {
    variant: String,
    before: Option<Code>,
    now: Option<Code>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Change { variant, before, now } = self;
        match (before, now) {
            (Some(before), Some(now)) => write!(f, "{variant}: {now:?}, was {before:?}"),
            (None, _) => write!(f, "{variant}: is new"),
            (_, None) => write!(f, "{variant}: is not made any more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Code};

    const CODE: Code = Code { wave: 64, waves: 10, matrix: 4, dot: 0 };

    fn baseline(mesa: &str, variants: &[(&str, Code)]) -> Baseline {
        let variants = variants.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
        Baseline { mesa: mesa.to_owned(), variants }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = baseline("26.1.6", &[("gfx1100 gemm 256,64", CODE), ("gfx1201 slice ", CODE)]);
        assert_eq!(Baseline::parse(&written.text()), Ok(written));
        assert_eq!(Baseline::parse("gfx1100 gemm: wave 64").unwrap_err(), "gfx1100 gemm: wave 64");
    }

    #[test]
    fn worse_new_and_lost_variants_are_faults() {
        let committed = baseline("26.1.6", &[("gemm", CODE)]);
        let check = |variants: &[(&str, Code)]| baseline("26.1.6", variants).check_against(&committed);
        assert_eq!(check(&[("gemm", CODE)]), Ok(()));
        assert_eq!(check(&[("gemm", Code { waves: 12, matrix: 8, ..CODE })]), Ok(()));
        for worse in [Code { waves: 9, ..CODE }, Code { wave: 32, ..CODE }, Code { matrix: 0, ..CODE }] {
            assert!(check(&[("gemm", worse)]).unwrap_err().contains("gemm: Code"));
        }
        assert!(check(&[]).unwrap_err().contains("gemm: is not made any more"));
        assert!(check(&[("gemm", CODE), ("new", CODE)]).unwrap_err().contains("new: is new"));
        assert_eq!(baseline("26.2.0", &[]).check_against(&committed), Ok(()));
    }
}
