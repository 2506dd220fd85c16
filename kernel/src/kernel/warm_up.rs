//! Warm-up of a kernel before the first cell, so that the first cell is as fast as later ones.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::prebuilt::PrebuiltLibrary;

/// The first cell, which loads the library into the cell process and shows its value.
///
/// The question mark makes evcxr allow question marks from now on. Otherwise the first cell with
/// one would show its last line in `Debug` form. The value is one that evcxr can show at once.
pub const WARM_UP_CELL: &str = "std::hint::black_box(epsilab::Error::setting(\"warm\", 1, \"up\")\
                        .to_string()); Ok::<(), epsilab::Error>(())?; 1";

/// Code that makes rust-analyzer infer a type of the library and one of Burn, so that the first
/// `let` of the user is fast.
pub const TYPE_INFERENCE_CODE: &str = "let error = epsilab::Error::setting(\"warm\", 1, \"up\");\n\
    let zeros = epsilab::burn::tensor::Tensor::<2>::zeros([2, 2], &Default::default());\n\
    let sum = zeros.clone().matmul(zeros).sum();\nsum.";

/// Returns evcxr's command that adds the lab.
pub fn dep_command(lab: &PrebuiltLibrary) -> String {
    format!(":dep {}", dependency_line(lab))
}

fn dependency_line(lab: &PrebuiltLibrary) -> String {
    format!("epsilab = {{ path = {:?} }}", lab.dir.join("shim").to_string_lossy())
}

/// Starts compiling the crate that links cells to the lab, while rust-analyzer reads the sources.
/// evcxr would do one after the other. If this fails, evcxr compiles the crate.
pub fn spawn_shim_build(work: &Path, scratch: &Path, lab: &PrebuiltLibrary) {
    if let Ok(mut command) = shim_build_command(work, scratch, lab)
        && let Ok(mut cargo) = command.spawn()
    {
        std::thread::spawn(move || cargo.wait());
    }
}

/// Returns the cargo command that evcxr calls in `work`, for a package beside that of the cells.
fn shim_build_command(work: &Path, scratch: &Path, lab: &PrebuiltLibrary) -> io::Result<Command> {
    let manifest = std::fs::read_to_string(work.join("Cargo.toml"))?;
    let manifest = manifest.replacen("name = \"ctx\"", "name = \"warm-up\"", 1);
    std::fs::create_dir_all(scratch.join("src"))?;
    std::fs::write(scratch.join("src/lib.rs"), "")?;
    let manifest = format!("{manifest}{}\n\n[workspace]\n", dependency_line(lab));
    std::fs::write(scratch.join("Cargo.toml"), manifest)?;
    let target = work.join("target");
    let mut command = Command::new(&lab.toolchain.cargo);
    command
        .args(["build", "--quiet", "-p", "epsilab", "--target", &lab.toolchain.host])
        .current_dir(scratch)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_BUILD_BUILD_DIR", &target)
        .env("RUSTFLAGS", "-Cprefer-dynamic")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}
