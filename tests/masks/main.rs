//! Masks from end to end: how they are made, charged and stored.

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

/// One project folder for this test program; the environment is set before anything reads it.
fn home() -> &'static Path {
    static HOME: OnceLock<tempfile::TempDir> = OnceLock::new();
    HOME.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // SAFETY: every test calls this first, and OnceLock lets only one of them in here.
        unsafe { std::env::set_var("EPSILAB_HOME", folder.path()) };
        folder
    })
    .path()
}

/// Each test has its own data, hence its own ledger: they run at the same time.
fn glyphs(examples: usize, seed: u64) -> Dataset {
    home();
    data::glyphs_with(examples, 10, seed).expect("glyphs")
}
