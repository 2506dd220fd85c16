//! Figures of many runs.

use super::Chapter;
use epsilab::prelude::*;
use epsilab::show::Coverage;
use epsilab::show::figures::{GridCell, GridFigure, GridSlices, RateClipCell, RunPoint};

pub const CHAPTER: Chapter = Chapter {
    title: "Grids of runs",
    source: include_str!("grids.rs"),
    figures: &[
        ("accuracy_heat_map", accuracy_heat_map),
        ("accuracy_heat_maps", accuracy_heat_maps),
        ("accuracy_lines", accuracy_lines),
        ("accuracy_over_epsilon", accuracy_over_epsilon),
        ("pareto", pareto),
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

/// The same for several epsilons, with common shades. Interactive: a slider chooses the epsilon.
fn accuracy_heat_maps() -> Result<()> {
    let mut slices = Vec::new();
    for (epsilon, level) in [("1", 0.84), ("3", 0.91), ("8", 0.94)] {
        let mut cells = Vec::new();
        for (pre_prune, more) in [(0.0, 0.0), (0.5, 0.02), (0.9, -0.03)] {
            for (drop, less) in [(0.0, 0.0), (0.5, 0.005)] {
                let mean = level + more - less;
                cells.push(GridCell { pre_prune, drop, accuracy: vec![mean, mean + 0.01] });
            }
        }
        slices.push((epsilon.to_owned(), cells));
    }
    let (title, note) = ("Accuracy by epsilon".into(), "made-up accuracies".into());
    let grid = GridSlices { title, note, setting: "epsilon".into(), slices };
    figures::accuracy_heat_maps(&grid)?.show();
    Ok(())
}

/// Mean accuracy over epsilon, a line for each method, with bands of one standard deviation over
/// seeds. `result.run_points()` has the points of a grid.
fn accuracy_over_epsilon() -> Result<()> {
    let mut points = Vec::new();
    for (series, more) in [("dp-sgd", 0.0), ("dp-ssgd", 0.012)] {
        for epsilon in [0.5, 1.0, 2.0, 4.0, 8.0] {
            for (seed, deviation) in [-1.0, 0.2, 0.8].into_iter().enumerate() {
                points.push(RunPoint {
                    series: series.into(),
                    epsilon: Some(epsilon),
                    target: Some(epsilon),
                    accuracy: 0.95 - 0.1 / epsilon + more + 0.008 * deviation / epsilon.sqrt(),
                    tooltip: format!("seed {seed}"),
                    coverage: Coverage::Public,
                });
            }
        }
    }
    figures::accuracy_over_epsilon(&points)?.show();
    Ok(())
}

/// Accuracy and epsilon of every run, and the runs that no other beats in both.
fn pareto() -> Result<()> {
    let digits = data::glyphs_with(1_000, 200, 1)?;
    let model = models::mlp(&digits, &[32]).seed(1).build()?;
    let mut points = Vec::new();
    for epsilon in [1.0, 2.0, 4.0] {
        for rate in [0.1, 0.5] {
            let method = DpSgd::new().target(Epsilon(epsilon), Delta(1e-5)).clip(0.5);
            let method = method.learning_rate(rate).batch_size(100).epochs(2.0).seed(1);
            points.push((&method.train(&model, &digits)?).into());
        }
    }
    figures::pareto(&points)?.show();
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

/// Learning rate and clip norm together: cases with the same product lie on a diagonal.
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
