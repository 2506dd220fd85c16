//! Bars of the fraction of each tensor that is kept.

use super::{
    is_collapsed, kept_summary, largest_indices, layer_cell, mask_coverage, mask_tensor_names,
    omission_note, percent, shape,
};
use crate::mask::{Mask, MaskTensor};
use crate::show::axis::{Axis, Unit};
use crate::show::bars::{Bar, Bars};
use crate::show::figure_card::FigureHeader;
use crate::show::{Figure, Table, format, palette};

/// Maximum number of rows.
const MAX_ROWS: usize = 32;
/// Maximum number of tensors named in a note.
const MAX_NAMES: usize = 5;

/// Draws the fraction of each tensor that is kept, as bars with counts, and of all tensors
/// together, as a dashed line. Tensors with a single coordinate left are named.
///
/// ```
/// use epsilab::prelude::*;
/// let data = data::glyphs_with(20, 0, 1)?;
/// let model = models::mlp(&data, &[4]).seed(1).build()?;
/// let figure = figures::kept(&Synflow::keep(0.25).mask(&model)?);
/// assert!(figure.text().contains("794 of 3,176 coordinates kept"));
/// # Ok::<(), Error>(())
/// ```
///
/// # Guarantee
/// The figure reveals what the mask reveals. For a mask computed from private examples without
/// noise it carries [`NOT_COVERED`](crate::show::NOT_COVERED).
pub fn kept(mask: &Mask) -> Figure {
    let sizes: Vec<usize> = mask.tensors().iter().map(|tensor| tensor.kept.len()).collect();
    let shown = largest_indices(&sizes, MAX_ROWS);
    let all_names = mask_tensor_names(mask);
    let head = FigureHeader::new(format!("Kept in each tensor: {}", mask.origin().method))
        .note(kept_summary(mask))
        .note("Dashed: all tensors together.")
        .note(collapsed_note(mask, &all_names))
        .note(omission_note(shown.len(), sizes.len()))
        .coverage(mask_coverage(mask));
    let row = |&i: &usize| {
        let tensor = &mask.tensors()[i];
        let remark = if is_collapsed(tensor) { "one left" } else { "" };
        let (kept, all) =
            (format::format_count(tensor.kept_count()), format::format_count(tensor.kept.len()));
        let texts = vec![percent(tensor.density()), format!("{kept} of {all}")];
        let bar = Bar { value: Some(tensor.density()), texts, remark };
        (all_names[i].clone(), vec![bar])
    };
    let bars = Bars {
        name: "kept",
        axis: Axis::linear_exact(0.0, 1.0, 5, Unit::Percent),
        kinds: vec![("kept", palette::KEPT)],
        rows: shown.iter().map(row).collect(),
        mark: Some(1.0 - mask.pruning_rate()),
    };
    head.figure(&bars, table(mask))
}

/// Returns the note that names the tensors with a single coordinate left.
fn collapsed_note(mask: &Mask, names: &[String]) -> String {
    let tensors = mask.tensors().iter().zip(names).filter(|(tensor, _)| is_collapsed(tensor));
    let names: Vec<&str> = tensors.map(|(_, name)| name.as_str()).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let named = names[..names.len() - more].join(", ");
    match (names.len(), more) {
        (0, _) => String::new(),
        (_, 0) => format!("Only one coordinate is left in {named}."),
        _ => format!("Only one coordinate is left in {named} and {more} more."),
    }
}

/// Returns the table of all tensors; the text format of a mask.
pub(in crate::show) fn table(mask: &Mask) -> Table {
    let row = |(tensor, name): (&MaskTensor, String)| {
        [
            tensor.path.clone(),
            layer_cell(&name, &tensor.path),
            shape(&tensor.shape),
            format::format_count(tensor.kept_count()),
            format::format_count(tensor.kept.len()),
            percent(tensor.density()),
        ]
    };
    let rows = mask.tensors().iter().zip(mask_tensor_names(mask)).map(row);
    Table::new(["tensor", "layer", "shape", "kept", "of", "share"]).rows(rows)
}
