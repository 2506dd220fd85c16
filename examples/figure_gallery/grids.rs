//! Figures of many runs.

use super::Chapter;
use epsilab::prelude::*;
use epsilab::show::figures::{GridCell, GridFigure, RateClipCell};

pub const CHAPTER: Chapter = Chapter {
    title: "Grids of runs",
    source: include_str!("grids.rs"),
    figures: &[
        ("accuracy_heat_map", accuracy_heat_map),
        ("accuracy_lines", accuracy_lines),
        ("rate_clip_heat_map", rate_clip_heat_map),
    ],
};

/// Accuracy over two rates; `Grid::run` shows it of its runs.
fn accuracy_heat_map() -> Result<()> {
    let mut cells = Vec::new();
    for (pre_prune, base) in [(0.0, 0.91), (0.5, 0.93), (0.9, 0.88)] {
        for (drop, less) in [(0.0, 0.0), (0.5, 0.005), (0.9, 0.03)] {
            let accuracy = vec![base - less, base - less + 0.01, base - less - 0.006];
            cells.push(GridCell { pre_prune, drop, accuracy });
        }
    }
    let (title, note) = ("Accuracy by pruning and dropping".into(), "made-up accuracies".into());
    figures::accuracy_heat_map(&GridFigure { title, note, cells })?.show();
    Ok(())
}

/// The same as lines with error bars.
fn accuracy_lines() -> Result<()> {
    let mut cells = Vec::new();
    for (pre_prune, base) in [(0.0, 0.91), (0.3, 0.925), (0.6, 0.93), (0.9, 0.88)] {
        for (drop, less) in [(0.0, 0.0), (0.5, 0.005), (0.9, 0.03)] {
            let accuracy = vec![base - less, base - less + 0.01, base - less - 0.006];
            cells.push(GridCell { pre_prune, drop, accuracy });
        }
    }
    let (title, note) = ("Accuracy by pruning and dropping".into(), "made-up accuracies".into());
    figures::accuracy_lines(&GridFigure { title, note, cells })?.show();
    Ok(())
}

/// Learning rate and clip norm together: cells with the same product lie on a diagonal.
fn rate_clip_heat_map() -> Result<()> {
    let mut cells = Vec::new();
    for learning_rate in [0.25, 0.5, 1.0, 2.0, 4.0] {
        for clip in [0.1, 0.3, 1.0, 3.0] {
            let distance = f64::ln(learning_rate * clip / 0.5);
            let accuracy = 0.93 * (-0.08 * distance * distance).exp();
            cells.push(RateClipCell { learning_rate, clip, accuracy });
        }
    }
    figures::rate_clip_heat_map("Learning rate and clip norm", "made-up accuracies", &cells)?
        .show();
    Ok(())
}
