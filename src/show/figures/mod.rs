//! Figures about privacy, data, masks, runs and grids of runs. They do not train.
//!
//! Figures about privacy are functions of events and settings, so they cost no privacy. Figures of
//! masks reveal what the mask reveals, figures of grids the accuracies that they are given. Figures
//! that come from private data outside the ledger carry a badge. Figures of examples read those
//! that they draw, and no others.
//!
//! Privacy curves are evaluated at about 30 points. A point that the accountant refuses is a gap;
//! an accountant that refuses all points is named but not drawn. Solid lines are proved upper
//! bounds, dashed lines are estimates. Neighbouring data sets differ by one added or removed
//! example.
//!
//! ```
//! use epsilab::prelude::*;
//! let training =
//!     Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
//! let chart = figures::epsilon_over_steps(&training, Delta(1e-5))?;
//! assert!(chart.text().contains("epsilon"));
//! # Ok::<(), epsilab::Error>(())
//! ```

mod accountants;
mod attack;
mod claims;
mod clipped_fractions;
mod epsilon_panel;
mod evaluation;
mod grids;
mod masks;
mod norms;
mod pictures;
mod rate_clip;
mod runs;
mod scaling;
mod schedules;
mod selection;
mod settings;
mod steps;
mod trade_off;

pub use accountants::{Releases, accountant_comparison, epsilon_vs_delta};
pub use attack::attack_curves;
pub use claims::{EpsilonClaim, epsilon_claims};
pub use clipped_fractions::clipped_fractions;
pub use evaluation::{
    ClassAccuracy, ClassCount, ConfusionMatrix, Prediction, Predictions, class_accuracy,
    confusion_matrix, predictions,
};
pub use grids::{
    GridCell, GridFigure, GridSlices, accuracy_heat_map, accuracy_heat_maps, accuracy_lines,
};
pub(crate) use masks::saliency_histograms;
pub use masks::{
    SaliencyInput, chance_overlap, kept, mask, overlap, overlap_over_epsilon, saliency,
    selection_log, signal_and_noise, tiles,
};
pub use norms::{gradient_norm_histogram, gradient_norms};
pub use pictures::{Filters, examples, filters};
pub use rate_clip::{RateClipCell, rate_clip_heat_map};
pub use runs::{RunPoint, accuracy_over_epsilon, compare_runs, pareto};
pub use scaling::{noise_over_epochs, scaling_law, scaling_law_for_plan};
pub use schedules::schedules;
pub use selection::selection_cost;
pub use settings::{epsilon_over_batch_size, epsilon_over_epochs, epsilon_over_noise};
pub use steps::epsilon_over_steps;
pub use trade_off::trade_off;
pub(crate) use trade_off::trade_off_curve;

use super::format;
use crate::privacy::Event;
use crate::{Error, Result};

/// Refuses an empty list of this name.
fn check_not_empty<T>(name: &str, list: &[T], fix: &str) -> Result<()> {
    let empty = || Error::setting(name, "an empty list", "there is nothing to draw").fix(fix);
    (!list.is_empty()).then_some(()).ok_or_else(empty)
}

/// Refuses an empty list of events.
fn check_events(events: &[Event]) -> Result<()> {
    let empty = || Error::setting("events", "an empty list", "the list releases nothing to draw");
    let fix = "pass the events of a plan or a run, e.g. &[plan.event()]";
    (!events.is_empty()).then_some(()).ok_or_else(|| empty().fix(fix))
}
/// Returns the values in ascending order, each once.
fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Returns the events as one sentence, for the note of a figure.
fn describe_events(events: &[Event]) -> String {
    let parts = match events {
        [Event::Composed { events }] => events,
        others => others,
    };
    let releases = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.release_count()));
    match parts {
        [] => "nothing released".into(),
        [one] => one.to_string(),
        [first, ..] => format!(
            "{}, {}; the first: {first}",
            format::pluralise(parts.len(), "part"),
            format::pluralise(releases, "noisy release")
        ),
    }
}

/// Returns the text with an initial capital and a full stop.
fn as_sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// Colours of the accountants, the same in all figures.
mod colour {
    pub(super) const PLD: usize = 0;
    pub(super) const RDP: usize = 1;
    pub(super) const GDP: usize = 2;
    pub(super) const ZCDP: usize = 3;
    pub(super) const GUESSING: usize = 4;
}
