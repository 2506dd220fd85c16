//! How much masks have in common.

use super::is_not_covered;
use crate::mask::Mask;
use crate::show::heat::{Heat, HeatCell};
use crate::show::page::{Head, Page};
use crate::show::{Chart, Figure, NOT_COVERED, Panel, Series, Table, font, format, layout};
use crate::{Error, Result};

/// Most masks that are compared in one figure.
const MOST: usize = 16;

/// The Jaccard overlap to expect of two independent random masks that keep these shares of the
/// same coordinates: ab / (a + b - ab), the ratio of the expected sizes of intersection and union.
pub fn chance_overlap(a: f64, b: f64) -> f64 {
    let union = a + b - a * b;
    if union > 0.0 { a * b / union } else { 0.0 }
}

/// The Jaccard overlap of each pair of masks (both keep over at least one keeps: 1 for equal
/// masks) as a matrix, with what independent random masks of the same kept shares in each tensor
/// would have: masks of one rule often agree in nothing but these. The text form also says the
/// chance for the same kept shares over all.
///
/// # Guarantee
/// It reveals no more than the masks; if one of them was chosen on private examples without
/// noise, it carries [`NOT_COVERED`].
///
/// # Errors
/// Kind `Setting` for fewer than 2 or more than 16 masks, kind `Model` if they are about different
/// parameters.
pub fn overlap(masks: &[(String, Mask)]) -> Result<Figure> {
    if !(2..=MOST).contains(&masks.len()) {
        let why = format!("a matrix of overlaps takes from 2 to {MOST}");
        return Err(Error::setting("masks", masks.len(), why));
    }
    let mut pairs =
        Table::new(["pair", "overlap", "by chance", "by chance with these shares per tensor"]);
    let mut cells = Vec::new();
    for (i, (first, a)) in masks.iter().enumerate() {
        let mut row = Vec::new();
        for (j, (second, b)) in masks.iter().enumerate() {
            let jaccard = a.jaccard(b)?;
            let chance = chance_overlap(1.0 - a.rate(), 1.0 - b.rate());
            let fair = by_tensor(a, b);
            let sub = if i == j { String::new() } else { format!("chance {}", two(fair)) };
            row.push(HeatCell {
                shade: Some(jaccard),
                main: two(jaccard),
                sub,
                ..HeatCell::default()
            });
            if i < j {
                let name = format!("{first} / {second}");
                pairs = pairs.row([name, three(jaccard), three(chance), three(fair)]);
            }
        }
        cells.push(row);
    }
    let names: Vec<String> = masks.iter().map(|(name, _)| name.clone()).collect();
    let shares: Vec<String> = masks
        .iter()
        .map(|(name, mask)| format!("{name} keeps {}", format::percent(1.0 - mask.rate())))
        .collect();
    let mut heat = Heat {
        rows: names.clone(),
        columns: names.clone(),
        row_name: String::new(),
        column_name: String::new(),
        cells,
    };
    // Names that don't fit above a cell are numbered.
    if names.iter().any(|name| font::width(name, layout::SMALL, false) > 100.0) {
        heat.columns = (1..=names.len()).map(|n| n.to_string()).collect();
        heat.rows =
            names.iter().enumerate().map(|(i, name)| format!("{}  {name}", i + 1)).collect();
    }
    let private = masks.iter().any(|(_, mask)| is_not_covered(mask));
    let head = Head::new("Overlap of masks (Jaccard)")
        .note("Coordinates that both keep over those that at least one keeps.")
        .note("Chance: two independent random masks that keep as many in each tensor.")
        .note(format!("{}.", shares.join(", ")))
        .not_covered(private);
    let mut page = Page::new(heat.width(), head);
    let bottom = heat.draw(&mut page);
    Ok(page.finish(bottom, &pairs.text()))
}

/// What to expect of random masks that keep as much of each tensor as these do.
fn by_tensor(a: &Mask, b: &Mask) -> f64 {
    let (mut both, mut either) = (0.0, 0.0);
    for (a, b) in a.tensors().iter().zip(b.tensors()) {
        let (n, a, b) = (a.kept.len() as f64, a.density(), b.density());
        both += n * a * b;
        either += n * (a + b - a * b);
    }
    if either > 0.0 { both / either } else { 0.0 }
}

fn two(value: f64) -> String {
    format::fixed(value, 2)
}

fn three(value: f64) -> String {
    format::fixed(value, 3)
}

/// How good noisy masks are: their overlap with the mask that was made without noise, over the
/// epsilon of the noise, beside the overlap by chance ([`chance_overlap`]). Points `(epsilon,
/// overlap)` in any order; those that are not finite are left out.
///
/// # Guarantee
/// None: the mask without noise is a function of the private examples, and comparing with it is in
/// no ledger. It carries [`NOT_COVERED`].
pub fn overlap_over_epsilon(points: &[(f64, f64)], chance: f64) -> Chart {
    let mut points: Vec<(f64, f64)> = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut table = Table::new(["epsilon", "overlap", "by chance"]);
    for &(epsilon, overlap) in &points {
        table = table.row([format::eps(epsilon), three(overlap), three(chance)]);
    }
    let panel = Panel::new("overlap (Jaccard)")
        .note(NOT_COVERED)
        .series(Series::line("overlap", points).marked().colour(0))
        .reference(chance, format!("by chance {}", two(chance)));
    Chart::new("How much of the mask survives the noise")
        .note("Overlap of the noisy mask with the one made without noise.")
        .panel(panel)
        .x_label("epsilon of the mask (logarithmic)")
        .x_log()
        .details(table.text())
}
