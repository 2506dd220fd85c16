//! The heat map of a tuning.

use super::result::Trial;
use crate::Result;
use crate::show::Figure;
use crate::show::figures::{RateClipCell, rate_clip_heat_map};

/// Returns the heat map of the runs with noise; `None` for a single pair.
pub(super) fn heat_map(trials: &[Trial], note: &str) -> Result<Option<Figure>> {
    let mut cells: Vec<RateClipCell> = Vec::new();
    for Trial { learning_rate, clip, accuracy } in trials.iter().cloned() {
        let clip = clip.unwrap_or(f64::INFINITY);
        if cells.iter().all(|cell| (cell.learning_rate, cell.clip) != (learning_rate, clip)) {
            let accuracy = accuracy.unwrap_or(f64::NAN);
            cells.push(RateClipCell { learning_rate, clip, accuracy });
        }
    }
    match cells.len() {
        0 | 1 => Ok(None),
        _ => rate_clip_heat_map("Learning rate and clip norm", note, &cells).map(Some),
    }
}
