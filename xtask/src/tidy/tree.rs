//! The files of the repository, read once, and the rules about documents.

use std::fs;
use std::path::{Path, PathBuf};

use super::Violation;

/// Folders that are not part of the tree.
const LEFT_OUT: [&str; 6] = ["target", ".git", ".cache", "corpus", "artifacts", "node_modules"];
/// Bytes that `fixtures/` may hold in all.
const FIXTURES_BYTES_MAX: u64 = 48 << 20;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Every file of the repository.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Files that are UTF-8 text.
    pub sources: Vec<Source>,
    /// Path and size of every file.
    pub files: Vec<(String, u64)>,
}

impl Tree {
    /// Reads the tree at `root`.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                if LEFT_OUT.contains(&name.as_str()) || name.starts_with("target-") {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    tree.add(root, &path)?;
                }
            }
        }
        Ok(tree)
    }

    fn add(&mut self, root: &Path, path: &Path) -> Result<(), String> {
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
        self.files.push((relative.clone(), bytes.len() as u64));
        if let Ok(text) = String::from_utf8(bytes) {
            self.sources.push(Source { path: relative, text });
        }
        Ok(())
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|s| s.path.ends_with(".rs"))
    }

    /// The scripts and style sheets of the chat page and of its tests; what others wrote lies in folders named `vendor`.
    pub fn page(&self) -> impl Iterator<Item = &Source> {
        let is_page = |s: &&Source| [".js", ".mjs", ".css"].iter().any(|ending| s.path.ends_with(ending));
        self.sources.iter().filter(is_page).filter(|s| !s.path.contains("/vendor/"))
    }

    /// The text of one file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.sources.iter().find(|s| s.path == path).map(|s| s.text.as_str())
    }

    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|(file, _)| file == path || file.starts_with(&folder))
    }
}

/// ARCHITECTURE.md names only paths that exist; links between documents lead somewhere; the
/// fixtures stay inside their budget and say where they come from.
pub(super) fn check_documents(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.sources.iter().filter(|s| s.path.ends_with(".md")) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in source.text.lines().enumerate() {
            for link in links(line) {
                let target = resolve(folder, link);
                if !tree.has(&target) {
                    violations.push(format!("{}:{}: the link `{link}` leads nowhere", source.path, number + 1));
                }
            }
            if source.path == "ARCHITECTURE.md" {
                for path in code_paths(line).filter(|path| !tree.has(path)) {
                    violations.push(format!("ARCHITECTURE.md:{}: `{path}` does not exist", number + 1));
                }
            }
        }
    }
    let fixtures: u64 = tree.files.iter().filter(|(p, _)| p.starts_with("fixtures/")).map(|(_, n)| n).sum();
    if fixtures > FIXTURES_BYTES_MAX {
        violations.push(format!("fixtures/: {fixtures} bytes, more than {FIXTURES_BYTES_MAX}"));
    }
    for (path, _) in tree.files.iter().filter(|(p, _)| p.starts_with("fixtures/")) {
        let area = path.split('/').nth(1).unwrap_or_default();
        let readme = format!("fixtures/{area}/README.md");
        if !tree.has(&readme) && !violations.iter().any(|v| v.starts_with(&readme)) {
            violations.push(format!("{readme}: missing; it says how each file was obtained"));
        }
    }
    violations
}

/// Targets of Markdown links that are not addresses or anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|l| l.split('#').next().unwrap_or(l))
        .filter(|l| !l.is_empty() && !l.contains("://") && !l.starts_with("mailto:"))
}

/// Code spans that look like paths of this tree: they begin with one of its top folders.
fn code_paths(line: &str) -> impl Iterator<Item = &str> {
    let roots = ["crates/", "xtask/", "fixtures/", "docs/", "fuzz/", "benches/"];
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(move |span| roots.iter().any(|root| span.starts_with(root)) && !span.contains(['*', '<', '{', ' ']))
}

fn resolve(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{Source, Tree, check_documents};

    fn tree(path: &str, text: &str) -> Tree {
        Tree {
            sources: vec![Source { path: path.into(), text: text.into() }],
            files: vec![(path.into(), text.len() as u64)],
        }
    }

    #[test]
    fn a_dead_link_is_found() {
        let found = check_documents(&tree("docs/a.md", "see [b](../crates/b.rs) and [web](https://example.com)"));
        assert_eq!(found, ["docs/a.md:1: the link `../crates/b.rs` leads nowhere"]);
    }

    #[test]
    fn a_dead_path_in_the_architecture_is_found() {
        let found = check_documents(&tree("ARCHITECTURE.md", "`crates/gone/src/lib.rs` and `cargo test`"));
        assert_eq!(found, ["ARCHITECTURE.md:1: `crates/gone/src/lib.rs` does not exist"]);
    }

    #[test]
    fn fixtures_without_provenance_are_found() {
        let found = check_documents(&tree("fixtures/x/data.bin", "1"));
        assert_eq!(found, ["fixtures/x/README.md: missing; it says how each file was obtained"]);
    }
}
