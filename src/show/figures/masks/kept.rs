//! Bars of the fraction of each tensor that is kept.

use super::{
    coverage_of, is_collapsed, kept_summary, largest, layer_cell, left_out, names_of, percent,
    shape,
};
use crate::mask::{Mask, MaskTensor};
use crate::show::axis::{Axis, Unit};
use crate::show::bars::{Bar, Bars};
use crate::show::page::Head;
use crate::show::{Figure, Table, format, palette};

/// Maximum number of rows.
const MOST_ROWS: usize = 32;
/// Maximum number of tensors named in a note.
const MOST_NAMES: usize = 5;

/// Fraction of each tensor that is kept, as bars with counts, and of all tensors together, as a
/// dashed line. Tensors with a single coordinate left are named.
///
/// # Guarantee
/// The figure reveals what the mask reveals. For a mask computed from private examples without
/// noise it carries [`NOT_COVERED`](crate::show::NOT_COVERED).
pub fn kept(mask: &Mask) -> Figure {
    let sizes: Vec<usize> = mask.tensors().iter().map(|tensor| tensor.kept.len()).collect();
    let shown = largest(&sizes, MOST_ROWS);
    let all_names = names_of(mask);
    let head = Head::new(format!("Kept in each tensor: {}", mask.origin().method))
        .note(kept_summary(mask))
        .note("Dashed: all tensors together.")
        .note(collapsed(mask, &all_names))
        .note(left_out(shown.len(), sizes.len()))
        .coverage(coverage_of(mask));
    let row = |&i: &usize| {
        let tensor = &mask.tensors()[i];
        let remark = if is_collapsed(tensor) { "one left" } else { "" };
        let (kept, all) = (format::count(tensor.count()), format::count(tensor.kept.len()));
        let texts = vec![percent(tensor.density()), format!("{kept} of {all}")];
        let bar = Bar { value: Some(tensor.density()), texts, remark };
        (all_names[i].clone(), vec![bar])
    };
    let bars = Bars {
        name: "kept",
        axis: Axis::linear(0.0, 1.0, 5, Unit::Percent),
        kinds: vec![("kept", palette::KEPT)],
        rows: shown.iter().map(row).collect(),
        mark: Some(1.0 - mask.rate()),
    };
    head.figure(&bars, table(mask))
}

/// Note that names the tensors with a single coordinate left.
fn collapsed(mask: &Mask, names: &[String]) -> String {
    let tensors = mask.tensors().iter().zip(names).filter(|(tensor, _)| is_collapsed(tensor));
    let names: Vec<&str> = tensors.map(|(_, name)| name.as_str()).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    let named = names[..names.len() - more].join(", ");
    match (names.len(), more) {
        (0, _) => String::new(),
        (_, 0) => format!("One coordinate is left of {named}."),
        _ => format!("One coordinate is left of {named} and {more} more."),
    }
}

/// Table of all tensors; the text format of a mask.
pub(in crate::show) fn table(mask: &Mask) -> Table {
    let row = |(tensor, name): (&MaskTensor, String)| {
        [
            tensor.path.clone(),
            layer_cell(&name, &tensor.path),
            shape(&tensor.shape),
            format::count(tensor.count()),
            format::count(tensor.kept.len()),
            percent(tensor.density()),
        ]
    };
    let rows = mask.tensors().iter().zip(names_of(mask)).map(row);
    Table::new(["tensor", "layer", "shape", "kept", "of", "share"]).rows(rows)
}
