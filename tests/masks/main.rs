//! End-to-end tests of masks: how they are made, charged and stored.

mod dropping;
mod files;
#[path = "../shared/mod.rs"]
mod shared;
mod snip;
mod synflow;

use epsilab::data;
use epsilab::prelude::*;
use std::path::Path;
use std::sync::OnceLock;

/// The project folder of this test program. The environment is set before anything reads it.
fn home() -> &'static Path {
    static HOME: OnceLock<tempfile::TempDir> = OnceLock::new();
    HOME.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // SAFETY: every test calls this function first, and `OnceLock` runs the closure once.
        unsafe { std::env::set_var("EPSILAB_HOME", folder.path()) };
        folder
    })
    .path()
}

/// Glyphs from this seed. Tests run concurrently, so each uses its own data and thus its own
/// ledger.
fn glyphs(examples: usize, seed: u64) -> Dataset {
    home();
    data::glyphs_with(examples, 10, seed).expect("glyphs")
}
