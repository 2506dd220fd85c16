//! Figures about privacy, masks and grids of runs. Nothing is trained here and no data is read.
//!
//! Those about privacy are drawn from events and settings alone, so looking at them costs no
//! privacy. Those of masks reveal what the mask reveals, those of grids the accuracies they are
//! given; what comes from private data outside the ledger says so.
//!
//! Every privacy curve is an accountant's answer at some 30 points; an accountant that refuses a point
//! leaves a gap, one that refuses all is not drawn and named. Solid lines are proved upper bounds,
//! dashed ones estimates. Neighbours differ by one added or removed example.
//!
//! ```
//! use epsilab::prelude::*;
//! let training =
//!     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
//! let chart = figures::epsilon_over_steps(&training, Delta(1e-5))?;
//! assert!(chart.text().contains("epsilon"));
//! # Ok::<(), epsilab::Error>(())
//! ```

mod compare;
mod grids;
mod masks;
mod settings;
mod steps;
mod sweep;
mod trade_off;

pub use compare::{epsilon_vs_delta, why_they_differ};
pub use grids::{GridCell, GridFigure, accuracy_heat_map, accuracy_lines};
pub use masks::{
    Scored, chance_overlap, kept, mask, of_saliency, overlap, overlap_over_epsilon, saliency,
    selection_log, signal_and_noise, tiles,
};
pub use settings::{epsilon_over_batch_size, epsilon_over_epochs, epsilon_over_noise, scaling_law};
pub use steps::epsilon_over_steps;
pub use trade_off::{of_trade_off, trade_off};

use super::format;
use crate::privacy::Event;

/// The events as one sentence, for the line under a title.
fn sentence(events: &[Event]) -> String {
    let parts = match events {
        [Event::Composed { events }] => events,
        others => others,
    };
    let releases = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.releases()));
    match parts {
        [] => "nothing released".into(),
        [one] => one.to_string(),
        [first, ..] => format!(
            "{} parts, {} noisy releases; the first: {first}",
            format::count(parts.len()),
            format::count(releases)
        ),
    }
}

/// Colours of the accountants, the same in every figure.
mod colour {
    pub(super) const PLD: usize = 0;
    pub(super) const RDP: usize = 1;
    pub(super) const GDP: usize = 2;
    pub(super) const ZCDP: usize = 3;
    pub(super) const GUESSING: usize = 4;
}
