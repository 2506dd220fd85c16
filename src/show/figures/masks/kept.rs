//! Bars of the fraction of each tensor that is kept.

use super::{
    coverage_of, is_collapsed, kept_summary, largest, layer_cell, left_out, names_of, percent,
    shape,
};
use crate::mask::{Mask, MaskTensor};
use crate::show::layout::{MARGIN, SMALL, text_style};
use crate::show::page::{Head, Page};
use crate::show::scene::{Align, Area, Scene};
use crate::show::vega::bars::{Bar, Measure};
use crate::show::{Figure, Table, font, format, palette, vega};

const WIDTH: f64 = 760.0;
const ROW: f64 = 19.0;
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
    let mut page = Page::new(WIDTH, head);
    let rows: Vec<&MaskTensor> = shown.iter().map(|&i| &mask.tensors()[i]).collect();
    let top = page.top + 2.0;
    let bottom = top + rows.len() as f64 * ROW;
    let texts: Vec<(String, String)> = rows.iter().map(|tensor| counts(tensor)).collect();
    let width = |text: &str| font::width(text, SMALL, false);
    let names = shown.iter().map(|&i| width(&all_names[i])).fold(40.0, f64::max).min(230.0);
    let numbers = texts.iter().map(|(_, count)| width(count)).fold(40.0, f64::max);
    let share = width("100.0 %");
    let right = WIDTH - MARGIN;
    let plot = Area {
        left: (MARGIN + names + 8.0).round(),
        top,
        right: (right - numbers - share - 24.0).round(),
        bottom,
    };
    grid(&mut page.scene, plot);
    let mut bars = Vec::new();
    for (r, (tensor, (share, count))) in rows.iter().zip(&texts).enumerate() {
        let y = top + (r as f64 + 0.5) * ROW;
        let text = |colour, align| text_style(SMALL, false, colour, align);
        let name = font::fit(&all_names[shown[r]], SMALL, false, names);
        page.scene.text((plot.left - 8.0, y), name, text(palette::INK, Align::Right));
        page.scene.text((right, y), count, text(palette::MUTED, Align::Right));
        let at = (right - numbers - 14.0, y);
        page.scene.text(at, share, text(palette::INK, Align::Right));
        // Tiny fractions stay visible.
        let long = (tensor.density() * plot.width()).max(1.5);
        bars.push(Area {
            left: plot.left,
            top: (y - 6.0).round(),
            right: plot.left + long,
            bottom: (y + 6.0).round(),
        });
        if is_collapsed(tensor) {
            let at = (plot.left + long + 6.0, y);
            page.scene.text(at, "one left", text(palette::BADGE_INK, Align::Left));
        }
    }
    page.scene.cells(bars, palette::KEPT);
    let x = plot.left + (1.0 - mask.rate()) * plot.width();
    page.scene.dashed(&[(x, bottom), (x, top)], palette::INK, 1.25, (4.0, 3.0));
    let bars: Vec<Bar<'_>> = rows
        .iter()
        .zip(&shown)
        .zip(texts)
        .map(|((tensor, &i), (share, count))| Bar {
            row: &all_names[i],
            kind: "kept",
            value: Some(tensor.density()),
            text: format!("{share}, {count}"),
        })
        .collect();
    let measure = Measure {
        name: "kept",
        percent: true,
        kinds: vec![("kept", palette::KEPT)],
        mark: Some(1.0 - mask.rate()),
    };
    let body = vega::bars::body(&bars, &measure);
    page.finish_interactive(bottom + 18.0, table(mask), body)
}

/// Fraction kept, and kept out of all.
fn counts(tensor: &MaskTensor) -> (String, String) {
    let count =
        format!("{} of {}", format::count(tensor.count()), format::count(tensor.kept.len()));
    (percent(tensor.density()), count)
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

fn grid(scene: &mut Scene, plot: Area) {
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let x = (plot.left + share * plot.width()).round();
        let colour = if share == 0.0 { palette::AXIS } else { palette::GRID };
        scene.fill(Area { left: x, right: x + 1.0, ..plot }, colour);
        let style = text_style(SMALL - 1.0, false, palette::MUTED, Align::Middle);
        scene.text((x, plot.bottom + 10.0), format!("{} %", share * 100.0), style);
    }
}

/// Table of all tensors; the text format of a mask.
pub(in crate::show) fn table(mask: &Mask) -> Table {
    let mut table = Table::new(["tensor", "layer", "shape", "kept", "of", "share"]);
    for (tensor, name) in mask.tensors().iter().zip(names_of(mask)) {
        table = table.row([
            tensor.path.clone(),
            layer_cell(&name, &tensor.path),
            shape(&tensor.shape),
            format::count(tensor.count()),
            format::count(tensor.kept.len()),
            percent(tensor.density()),
        ]);
    }
    table
}
