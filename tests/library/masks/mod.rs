//! End-to-end tests of masks: how they are made, charged and stored.

mod dropping;
mod files;
mod networks;
mod snip;
mod synflow;

use epsilab::data;
use epsilab::prelude::*;

use crate::support::environment::home;

/// Glyphs from this seed. Tests run concurrently, so each uses its own data and thus its own
/// ledger.
fn glyphs(examples: usize, seed: u64) -> Dataset {
    home();
    data::glyphs_with(examples, 10, seed).expect("glyphs")
}
