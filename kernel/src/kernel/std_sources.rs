//! Reduced sources of the standard library for rust-analyzer.
//!
//! rust-analyzer would read all crates of the standard library and cargo's metadata about them. It
//! gets a folder of the lab with the three crates that cells see, without bodies of functions. That
//! saves seconds of every start and more than 180 MB of memory. Completion does not know
//! `core::arch`, and variables of its types need a type annotation.

use std::io;
use std::path::Path;

/// Environment variable with the folder, which rust-analyzer reads.
pub const STD_SOURCES_ENV_VAR: &str = "RUST_SRC_PATH";
/// Name of the folder in the folder of the session.
pub const DIR_NAME: &str = "rust-src";

/// Makes an empty crate `core` in the folder `root` of a session. evcxr evaluates `42` when it
/// starts, before it knows of the lab, and rust-analyzer would work through the standard library
/// twice.
///
/// # Errors
/// The folder can't be written.
pub fn prepare(root: &Path) -> io::Result<()> {
    let folder = root.join(DIR_NAME);
    // After a restart of the engine, it is a link.
    let _ = std::fs::remove_file(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    let core = folder.join("core/src");
    std::fs::create_dir_all(&core)?;
    std::fs::write(core.join("lib.rs"), "")
}

/// Replaces the empty crate by a link to `sources`.
///
/// # Errors
/// The folder can't be written.
pub fn link(root: &Path, sources: &Path) -> io::Result<()> {
    let folder = root.join(DIR_NAME);
    std::fs::remove_dir_all(&folder)?;
    std::os::unix::fs::symlink(sources, &folder)
}
