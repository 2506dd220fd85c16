//! Accuracies over learning rate and clip norm.

use super::sorted;
use crate::show::figure_card::FigureHeader;
use crate::show::heat_map::{CellMark, HeatMap, HeatMapCell};
use crate::show::{Coverage, Figure, Table, format};
use crate::{Error, Result};

/// The accuracy of one pair of learning rate and clip norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateClipCell {
    /// Learning rate.
    pub learning_rate: f64,
    /// Clip norm.
    pub clip: f64,
    /// Test accuracy in [0, 1]; NaN if training diverged.
    pub accuracy: f64,
}

/// Bound on the factor between products on the same ridge: sqrt(2).
const RIDGE_FACTOR: f64 = std::f64::consts::SQRT_2;

/// Draws the test accuracy over learning rate (columns) and clip norm (rows, the smallest at the
/// bottom), as in Figure 4 of Kurakin et al. (2022, "Toward training at ImageNet scale with
/// differential privacy").
///
/// Where the clip norm is small, a clip norm k times smaller needs a rate k times larger: accuracy
/// depends on the product. Cases whose product is that of the best case, up to a factor of sqrt(2),
/// are framed: the ridge.
///
/// ```
/// use epsilab::prelude::*;
/// use epsilab::show::figures::RateClipCell;
/// let cell = |learning_rate, clip, accuracy| RateClipCell { learning_rate, clip, accuracy };
/// let cells = [cell(0.5, 1.0, 0.90), cell(1.0, 1.0, 0.93), cell(0.5, 0.1, 0.70)];
/// let figure = figures::rate_clip_heat_map("DP-SGD on MNIST", "epsilon 3", &cells)?;
/// assert_eq!((figure.title(), figure.table().len()), ("DP-SGD on MNIST", 3));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Setting` without cases, for a rate or clip norm that is not positive, and for a pair given
/// twice.
pub fn rate_clip_heat_map(title: &str, note: &str, cells: &[RateClipCell]) -> Result<Figure> {
    validate_cells(cells)?;
    let rates = sorted(cells.iter().map(|cell| cell.learning_rate));
    let mut clips = sorted(cells.iter().map(|cell| cell.clip));
    clips.reverse();
    let finite = || cells.iter().filter(|cell| cell.accuracy.is_finite());
    // The first of several.
    let best =
        finite().reduce(|best, cell| if cell.accuracy > best.accuracy { cell } else { best });
    let low = finite().map(|cell| cell.accuracy).fold(f64::INFINITY, f64::min);
    let range = best.map_or(1.0, |best| (best.accuracy - low).max(0.02));
    let on_ridge = |cell: &RateClipCell| {
        let ratio = best.map(|best| product(cell) / product(best));
        ratio.is_some_and(|ratio| (1.0 / RIDGE_FACTOR..=RIDGE_FACTOR).contains(&ratio))
    };
    let mut table = Table::new(["clip norm", "learning rate", "rate x clip", "accuracy", "ridge"]);
    let mut rows = Vec::new();
    for &clip in &clips {
        let mut row = Vec::new();
        for &rate in &rates {
            let at = |cell: &&RateClipCell| cell.learning_rate == rate && cell.clip == clip;
            let Some(cell) = cells.iter().find(at) else {
                row.push(HeatMapCell::default());
                continue;
            };
            let ridge = on_ridge(cell);
            let text = if cell.accuracy.is_finite() {
                format::percent(cell.accuracy)
            } else {
                "diverged".into()
            };
            table = table.row([
                format_number(clip),
                format_number(rate),
                format_number(product(cell)),
                text.clone(),
                if ridge { "yes".into() } else { String::new() },
            ]);
            row.push(HeatMapCell {
                shade: cell.accuracy.is_finite().then_some((cell.accuracy - low) / range),
                label: text.trim_end_matches(" %").to_owned(),
                sublabel: String::new(),
                mark: if ridge { CellMark::Framed } else { CellMark::None },
            });
        }
        rows.push(row);
    }
    let heat = HeatMap {
        rows: clips.iter().map(|&clip| format_number(clip)).collect(),
        columns: rates.iter().map(|&rate| format_number(rate)).collect(),
        row_name: "clip norm".into(),
        column_name: "learning rate".into(),
        cells: rows,
    };
    let head = FigureHeader::new(title)
        .coverage(Coverage::TestPart)
        .note(note)
        .note("Test accuracy in percent. Framed: rate x clip norm as in the best case (the ridge).")
        .note("The best of many noisy accuracies overstates what its settings reach.");
    Ok(head.figure(&heat, table))
}

fn product(cell: &RateClipCell) -> f64 {
    cell.learning_rate * cell.clip
}

fn format_number(value: f64) -> String {
    format::short(value, 3)
}

fn validate_cells(cells: &[RateClipCell]) -> Result<()> {
    if cells.is_empty() {
        return Err(
            Error::setting("cases", "[]", "there is nothing to draw").fix("give at least one case")
        );
    }
    for (i, cell) in cells.iter().enumerate() {
        for (name, value) in [("learning_rate", cell.learning_rate), ("clip", cell.clip)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::setting(name, value, "must be a positive number")
                    .fix("leave the case out, or correct its value"));
            }
        }
        let same = |other: &RateClipCell| {
            (other.learning_rate, other.clip) == (cell.learning_rate, cell.clip)
        };
        if cells[..i].iter().any(same) {
            let pair = format!("({}, {})", cell.learning_rate, cell.clip);
            return Err(Error::setting(
                "pair of rate and clip norm",
                pair,
                "the pair is given twice",
            )
            .fix("give it once"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(learning_rate: f64, clip: f64, accuracy: f64) -> RateClipCell {
        RateClipCell { learning_rate, clip, accuracy }
    }

    #[test]
    fn the_ridge_is_where_the_product_is_that_of_the_best() {
        let cells = [
            cell(1.0, 0.1, 0.95),
            cell(0.1, 1.0, 0.94),
            cell(10.0, 0.01, f64::NAN),
            cell(1.0, 1.0, 0.5),
            cell(0.1, 0.1, 0.6),
        ];
        let figure = rate_clip_heat_map("Tuning", "epsilon 1", &cells).unwrap();
        let text = figure.text();
        let line = |clip: &str, rate: &str| {
            let found = text.lines().find(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.first() == Some(&clip) && words.get(1) == Some(&rate)
            });
            found.unwrap_or_else(|| panic!("{clip} {rate}: {text}"))
        };
        assert!(line("0.1", "1").ends_with("yes") && line("1", "0.1").ends_with("yes"), "{text}");
        assert!(line("0.01", "10").contains("diverged"), "{text}");
        assert!(!line("1", "1").ends_with("yes") && !line("0.1", "0.1").ends_with("yes"), "{text}");
        for wrong in [&[][..], &[cell(0.0, 1.0, 0.5)], &[cell(1.0, 1.0, 0.5); 2]] {
            assert!(rate_clip_heat_map("", "", wrong).is_err());
        }
    }
}
