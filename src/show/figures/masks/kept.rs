//! What is kept of each tensor, as bars.

use super::{is_collapsed, is_not_covered, kept_in_all, largest, left_out, percent, shape};
use crate::mask::{Mask, MaskTensor};
use crate::show::layout::{MARGIN, SMALL, letters};
use crate::show::page::{Head, Page};
use crate::show::scene::{Align, Area, Scene};
use crate::show::{Figure, Table, font, format, palette};

const WIDTH: f64 = 760.0;
const ROW: f64 = 19.0;
/// Most rows that are drawn.
const MOST_ROWS: usize = 32;
/// Most tensors that are named in a note.
const MOST_NAMES: usize = 5;

/// The share that is kept of each tensor, as bars with counts, and of all of them together, as a
/// dashed line. Tensors of which one coordinate is left are named.
///
/// # Guarantee
/// It reveals what the mask reveals; one that was chosen on private examples without noise carries
/// [`NOT_COVERED`](crate::show::NOT_COVERED).
pub fn kept(mask: &Mask) -> Figure {
    let sizes: Vec<usize> = mask.tensors().iter().map(|tensor| tensor.kept.len()).collect();
    let shown = largest(&sizes, MOST_ROWS);
    let head = Head::new(format!("Kept in each tensor: {}", mask.origin().method))
        .note(kept_in_all(mask))
        .note("Dashed: all tensors together.")
        .note(collapsed(mask))
        .note(left_out(shown.len(), sizes.len()))
        .not_covered(is_not_covered(mask));
    let mut page = Page::new(WIDTH, head);
    let rows: Vec<&MaskTensor> = shown.iter().map(|&i| &mask.tensors()[i]).collect();
    let top = page.top + 2.0;
    let bottom = top + rows.len() as f64 * ROW;
    let texts: Vec<(String, String)> = rows.iter().map(|tensor| counts(tensor)).collect();
    let width = |text: &str| font::width(text, SMALL, false);
    let names = rows.iter().map(|tensor| width(&tensor.path)).fold(40.0, f64::max).min(230.0);
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
        let text = |colour, align| letters(SMALL, false, colour, align);
        let name = font::fit(&tensor.path, SMALL, false, names);
        page.scene.text((plot.left - 8.0, y), name, text(palette::INK, Align::Right));
        page.scene.text((right, y), count, text(palette::MUTED, Align::Right));
        let at = (right - numbers - 14.0, y);
        page.scene.text(at, share, text(palette::INK, Align::Right));
        // A thousandth is still to be seen.
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
    page.finish(bottom + 18.0, &table(mask).text())
}

/// Share, and kept out of all.
fn counts(tensor: &MaskTensor) -> (String, String) {
    let count =
        format!("{} of {}", format::count(tensor.count()), format::count(tensor.kept.len()));
    (percent(tensor.density()), count)
}

/// Names the tensors that collapsed.
fn collapsed(mask: &Mask) -> String {
    let names: Vec<&str> =
        mask.tensors().iter().filter(|t| is_collapsed(t)).map(|t| t.path.as_str()).collect();
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
        let style = letters(SMALL - 1.0, false, palette::MUTED, Align::Middle);
        scene.text((x, plot.bottom + 10.0), format!("{} %", share * 100.0), style);
    }
}

/// All tensors in numbers; the text of a mask.
pub(in crate::show) fn table(mask: &Mask) -> Table {
    let mut table = Table::new(["tensor", "shape", "kept", "of", "share"]);
    for tensor in mask.tensors() {
        table = table.row([
            tensor.path.clone(),
            shape(&tensor.shape),
            format::count(tensor.count()),
            format::count(tensor.kept.len()),
            percent(tensor.density()),
        ]);
    }
    table
}
