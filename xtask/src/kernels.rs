//! `cargo xtask kernels`: GLSL to SPIR-V with the pinned compiler.
//!
//! Prints the parameter blocks, compiles every `.comp`, and notes in `spv/SOURCES` what each was made from.
//! [`check`] does the same into a scratch folder and compares bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../crates/vulkan/src/params.rs"]
#[allow(dead_code, unreachable_pub, reason = "the structs are for the backend, the printed blocks for us")]
mod params;
#[path = "../../crates/vulkan/build/sources.rs"]
#[allow(dead_code, reason = "the build script uses the rest")]
mod sources;

use params::Kernel;

/// The compiler that the committed code comes from: the first line of `glslc --version`.
const PINNED: &str = "shaderc 2025.2";

/// Compiles every kernel into `crates/vulkan/spv`.
///
/// # Errors
/// No pinned compiler, or the compiler's own words.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    let crate_folder = root.join("crates/vulkan");
    let glslc = Glslc::find(root)?;
    glslc.must_be_pinned()?;
    print_blocks(&crate_folder.join("shaders"))?;
    let spv = crate_folder.join("spv");
    remove_orphans(&spv)?;
    glslc.compile_all(&crate_folder.join("shaders"), &spv)
}

/// Compiles every kernel anew and compares with what is committed. Another compiler than the pinned
/// one makes other bytes: then only the hashes of the sources are compared, which is said.
///
/// # Errors
/// What differs.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let crate_folder = root.join("crates/vulkan");
    let (shaders, spv) = (crate_folder.join("shaders"), crate_folder.join("spv"));
    for kernel in Kernel::ALL {
        let path = block_path(&shaders, *kernel);
        if read_text(&path)? != kernel.glsl() {
            return Err(format!("{} is not what src/params.rs says: run `cargo xtask kernels`", path.display()));
        }
    }
    let stale = sources::stale(&shaders, &spv)?;
    if !stale.is_empty() {
        return Err(format!("{}; run `cargo xtask kernels`", stale.join("; ")));
    }
    let glslc = Glslc::find(root)?;
    if let Err(why) = glslc.must_be_pinned() {
        eprintln!("SKIP: the bytes of the kernels are not compared: {why}");
        return Ok(());
    }
    let scratch = root.join("target/kernels");
    fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    glslc.compile_all(&shaders, &scratch)?;
    for stem in sources::stems(&shaders)? {
        let name = format!("{stem}.spv");
        let read = |folder: &Path| fs::read(folder.join(&name)).map_err(|e| format!("{name}: {e}"));
        if read(&scratch)? != read(&spv)? {
            return Err(format!("spv/{name} is not what {PINNED} makes of shaders/{stem}.comp"));
        }
    }
    Ok(())
}

fn block_path(shaders: &Path, kernel: Kernel) -> PathBuf {
    shaders.join("common/params").join(format!("{}.glsl", kernel.stem()))
}

fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map(|text| text.replace("\r\n", "\n")).map_err(|e| format!("{}: {e}", path.display()))
}

/// Writes the parameter blocks that have changed.
fn print_blocks(shaders: &Path) -> Result<(), String> {
    for kernel in Kernel::ALL {
        let path = block_path(shaders, *kernel);
        if !read_text(&path).is_ok_and(|text| text == kernel.glsl()) {
            let folder = shaders.join("common/params");
            fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            fs::write(&path, kernel.glsl()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let source = shaders.join(format!("{}.comp", kernel.stem()));
        if !source.exists() {
            return Err(format!("src/params.rs names a kernel without its {}", source.display()));
        }
    }
    match sources::stems(shaders)?.iter().find(|stem| !Kernel::ALL.iter().any(|kernel| kernel.stem() == *stem)) {
        Some(stem) => Err(format!("shaders/{stem}.comp has no parameters in src/params.rs")),
        None => Ok(()),
    }
}

/// Compiled code of kernels that are no more.
fn remove_orphans(spv: &Path) -> Result<(), String> {
    fs::create_dir_all(spv).map_err(|e| format!("{}: {e}", spv.display()))?;
    for path in fs::read_dir(spv).map_err(|e| format!("{}: {e}", spv.display()))?.flatten().map(|entry| entry.path()) {
        let known = |path: &Path| Kernel::ALL.iter().any(|kernel| path.file_stem().is_some_and(|s| s == kernel.stem()));
        if path.extension().is_some_and(|extension| extension == "spv") && !known(&path) {
            fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// A way to call the compiler.
struct Glslc {
    program: PathBuf,
    arguments: &'static [&'static str],
}

impl Glslc {
    /// `$GLSLC`, or the one that the project's own script sets up.
    fn find(root: &Path) -> Result<Glslc, String> {
        if let Some(program) = std::env::var_os("GLSLC") {
            return Ok(Glslc { program: program.into(), arguments: &[] });
        }
        let script = root.join("tools/radv-offline.sh");
        match script.exists() {
            true => Ok(Glslc { program: script, arguments: &["--glslc"] }),
            false => Err(format!("no glslc: set GLSLC to one of {PINNED} ({} does not exist)", script.display())),
        }
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        let output = command.args(self.arguments).args(arguments).current_dir(folder).output();
        let output = output.map_err(|e| format!("{}: {e}", self.program.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn must_be_pinned(&self) -> Result<(), String> {
        let version = self.run(Path::new("."), &["--version"])?;
        let first = version.lines().next().unwrap_or_default();
        match first.starts_with(PINNED) {
            true => Ok(()),
            false => Err(format!("{} is `{first}`, the kernels are compiled with {PINNED}", self.program.display())),
        }
    }

    /// Every kernel of `shaders` into `spv`, and what each was made from.
    fn compile_all(&self, shaders: &Path, spv: &Path) -> Result<(), String> {
        let mut list = format!("# SHA-256 of each kernel's GLSL and includes; compiled by {PINNED}\n");
        for stem in sources::stems(shaders)? {
            let (from, to) = (format!("{stem}.comp"), spv.join(format!("{stem}.spv")));
            let to = to.to_str().ok_or_else(|| format!("{} is not UTF-8", to.display()))?;
            self.run(shaders, &["--target-env=vulkan1.3", "-O", "-I", ".", &from, "-o", to])?;
            list += &format!("{}  {stem}\n", sources::hash(shaders, &stem)?);
        }
        let path = spv.join("SOURCES");
        fs::write(&path, list).map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::sources;

    /// Two kernels, one of which includes a file.
    fn folders(name: &str) -> (PathBuf, PathBuf) {
        let root = std::env::temp_dir().join(format!("zinc-kernels-{}-{name}", std::process::id()));
        let (shaders, spv) = (root.join("shaders"), root.join("spv"));
        fs::create_dir_all(shaders.join("common")).unwrap();
        fs::create_dir_all(&spv).unwrap();
        fs::write(shaders.join("common/a.glsl"), "float a;\n").unwrap();
        fs::write(shaders.join("one.comp"), "#include \"common/a.glsl\"\n").unwrap();
        fs::write(shaders.join("two.comp"), "float b;\n").unwrap();
        let line = |stem: &str| format!("{}  {stem}\n", sources::hash(&shaders, stem).unwrap());
        fs::write(spv.join("SOURCES"), format!("# note\n{}{}", line("one"), line("two"))).unwrap();
        (shaders, spv)
    }

    #[test]
    fn a_changed_include_makes_its_kernels_stale() {
        let (shaders, spv) = folders("include");
        assert_eq!(sources::stale(&shaders, &spv).unwrap(), Vec::<String>::new());
        fs::write(shaders.join("common/a.glsl"), "float a;\r\n").unwrap();
        assert_eq!(sources::stale(&shaders, &spv).unwrap(), Vec::<String>::new());
        fs::write(shaders.join("common/a.glsl"), "float c;\n").unwrap();
        let changed = "shaders/one.comp or a file that it includes has changed";
        assert_eq!(sources::stale(&shaders, &spv).unwrap(), [changed]);
    }

    #[test]
    fn a_new_and_a_lost_kernel_are_noticed() {
        let (shaders, spv) = folders("new");
        fs::rename(shaders.join("two.comp"), shaders.join("three.comp")).unwrap();
        let reasons = ["shaders/three.comp was never compiled", "spv/two.spv has no shaders/two.comp"];
        assert_eq!(sources::stale(&shaders, &spv).unwrap(), reasons);
    }
}
