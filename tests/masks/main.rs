//! Masks from end to end: how they are made, charged and stored.

mod dropping;
mod files;
#[path = "../shared/mod.rs"]
mod shared;
mod snip;
mod synflow;

use epsilab::data;
use epsilab::prelude::*;
use shared::home;

/// Each test has its own data, hence its own ledger: they run at the same time.
fn glyphs(examples: usize, seed: u64) -> Dataset {
    home();
    data::glyphs_with(examples, 10, seed).expect("glyphs")
}
