//! Refuses SPIR-V that was not made from the GLSL beside it.

use std::path::Path;
use std::process::ExitCode;

#[path = "build/sources.rs"]
mod sources;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=shaders");
    println!("cargo::rerun-if-changed=spv");
    println!("cargo::rerun-if-changed=build");
    let reasons = match sources::stale(Path::new("shaders"), Path::new("spv")) {
        Ok(reasons) => reasons,
        Err(error) => vec![error],
    };
    if reasons.is_empty() {
        return ExitCode::SUCCESS;
    }
    for reason in &reasons {
        println!("cargo::error={reason}");
    }
    println!("cargo::error=the compiled kernels are stale: run `cargo xtask kernels` and commit crates/vulkan/spv");
    ExitCode::FAILURE
}
