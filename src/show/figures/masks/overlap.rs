//! Overlap of masks.

use super::mask_coverage;
use crate::mask::Mask;
use crate::show::figure_card::FigureHeader;
use crate::show::heat_map::{HeatMap, HeatMapCell};
use crate::show::{Chart, Figure, Panel, Series, Table, font, format, layout};
use crate::{Error, Result};
use std::borrow::Borrow;

/// Maximum number of masks in one figure.
const MAX_MASKS: usize = 16;

/// Returns the expected Jaccard overlap of two independent random masks that keep the fractions
/// `a` and `b` of the same coordinates: ab / (a + b - ab), the ratio of the expected sizes of
/// intersection and union.
///
/// ```
/// use epsilab::prelude::*;
/// // Two masks that keep half of the coordinates: 1/4 in both, 3/4 in at least one.
/// assert!((figures::chance_overlap(0.5, 0.5) - 1.0 / 3.0).abs() < 1e-12);
/// ```
pub fn chance_overlap(a: f64, b: f64) -> f64 {
    let union = a + b - a * b;
    if union > 0.0 { a * b / union } else { 0.0 }
}

/// Draws the matrix of the Jaccard overlap of each pair of named masks: coordinates that both keep
/// over coordinates that at least one keeps. Beside it stands the overlap by chance: that of
/// independent random masks that keep the same fraction of each tensor, since masks by the same
/// rule often agree in these fractions only. The text format also has the chance for the same
/// fraction overall.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(2, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let magnitude = MagnitudeMask::keep(0.5).mask(&model)?;
/// let random = RandomMask::keep(0.5).seed(1).mask(&model)?;
/// figures::overlap(&[("magnitude", &magnitude), ("random", &random)])?.show();
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The figure reveals no more than the masks. If one of them was computed from private examples
/// without noise, it carries [`NOT_COVERED`](crate::show::NOT_COVERED).
///
/// # Errors
/// Kind `Setting` for fewer than 2 or more than 16 masks, kind `Model` if the masks are for
/// different parameters.
pub fn overlap<N: AsRef<str>, M: Borrow<Mask>>(masks: &[(N, M)]) -> Result<Figure> {
    let masks: Vec<(&str, &Mask)> =
        masks.iter().map(|(name, mask)| (name.as_ref(), mask.borrow())).collect();
    if !(2..=MAX_MASKS).contains(&masks.len()) {
        let why = format!("a matrix of overlaps takes from 2 to {MAX_MASKS}");
        return Err(Error::setting("masks", masks.len(), why));
    }
    let mut pairs =
        Table::new(["pair", "overlap", "by chance", "by chance with these fractions per tensor"]);
    let mut cells = Vec::new();
    for (i, (first, a)) in masks.iter().enumerate() {
        let mut row = Vec::new();
        for (j, (second, b)) in masks.iter().enumerate() {
            let jaccard = a.jaccard(b)?;
            let chance = chance_overlap(1.0 - a.pruning_rate(), 1.0 - b.pruning_rate());
            let fair = chance_overlap_by_tensor(a, b);
            let sub = if i == j { String::new() } else { format!("chance {}", two_decimals(fair)) };
            row.push(HeatMapCell {
                shade: Some(jaccard),
                label: two_decimals(jaccard),
                sublabel: sub,
                ..HeatMapCell::default()
            });
            if i < j {
                let name = format!("{first} / {second}");
                pairs = pairs.row([
                    name,
                    three_digits(jaccard),
                    three_digits(chance),
                    three_digits(fair),
                ]);
            }
        }
        cells.push(row);
    }
    let names: Vec<String> = masks.iter().map(|(name, _)| (*name).to_owned()).collect();
    let shares: Vec<String> = masks
        .iter()
        .map(|(name, mask)| format!("{name} keeps {}", format::percent(1.0 - mask.pruning_rate())))
        .collect();
    let mut heat = HeatMap {
        rows: names.clone(),
        columns: names.clone(),
        row_name: String::new(),
        column_name: String::new(),
        cells,
    };
    // Names that do not fit below a cell are replaced by numbers.
    if names.iter().any(|name| font::text_width(name, layout::SMALL_SIZE, false) > 100.0) {
        heat.columns = (1..=names.len()).map(|n| n.to_string()).collect();
        heat.rows =
            names.iter().enumerate().map(|(i, name)| format!("{}  {name}", i + 1)).collect();
    }
    let reveals = masks.iter().map(|(_, mask)| mask_coverage(mask)).max();
    let head = FigureHeader::new("Overlap of masks (Jaccard)")
        .note("Coordinates that both keep, divided by those that at least one keeps.")
        .note("Chance: two independent random masks that keep the same number in each tensor.")
        .note(format!("{}.", shares.join(", ")))
        .coverage(reveals.unwrap_or_default());
    Ok(head.figure(&heat, pairs))
}

/// Returns the expected overlap of random masks that keep the same fraction of each tensor.
fn chance_overlap_by_tensor(a: &Mask, b: &Mask) -> f64 {
    let (mut both, mut either) = (0.0, 0.0);
    for (a, b) in a.tensors().iter().zip(b.tensors()) {
        let (n, a, b) = (a.kept.len() as f64, a.density(), b.density());
        both += n * a * b;
        either += n * (a + b - a * b);
    }
    if either > 0.0 { both / either } else { 0.0 }
}

fn two_decimals(value: f64) -> String {
    format::fixed(value, 2)
}

fn three_digits(value: f64) -> String {
    format::fixed(value, 3)
}

/// Plots the overlap of noisy masks with the mask computed without noise, over the epsilon of the
/// noise, beside the overlap by chance ([`chance_overlap`]). `points` are `(epsilon, overlap)` in
/// any order; those that are not finite are left out.
///
/// ```
/// use epsilab::prelude::*;
/// let chance = figures::chance_overlap(0.5, 0.5);
/// let chart = figures::overlap_over_epsilon(&[(8.0, 0.7), (1.0, 0.4)], chance);
/// let line = &chart.panels()[0].all_series()[0];
/// assert_eq!(line.points(), [(1.0, 0.4), (8.0, 0.7)]); // by epsilon
/// ```
///
/// # Guarantee
/// None: the mask without noise is a function of the private examples, and the comparison with it
/// is in no ledger. The figure carries [`NOT_COVERED`](crate::show::NOT_COVERED).
pub fn overlap_over_epsilon(points: &[(f64, f64)], chance: f64) -> Chart {
    let mut points: Vec<(f64, f64)> = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let row = |&(epsilon, overlap): &(f64, f64)| {
        [format::eps(epsilon), three_digits(overlap), three_digits(chance)]
    };
    let table = Table::new(["epsilon", "overlap", "by chance"]).rows(points.iter().map(row));
    let panel = Panel::new("overlap (Jaccard)")
        .not_covered()
        .series(Series::line("overlap", points).with_markers().colour(0))
        .reference(chance, format!("by chance {}", two_decimals(chance)));
    Chart::new("How much of the mask survives the noise")
        .note("Overlap of the noisy mask with the one made without noise.")
        .panel(panel)
        .x_label("epsilon of the mask (logarithmic)")
        .x_log()
        .details(table.text())
}
