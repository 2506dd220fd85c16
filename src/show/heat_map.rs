//! Heat maps with a value in each cell.

use super::figure_card::{Drawing, FigureCard};
use super::font;
use super::format::to_single_line;
use super::layout::{MARGIN, SMALL_SIZE, muted, text_style};
use super::palette::{self, Rgb};
use super::scene::{Align, Rect, Scene};
use serde_json::Value;

const LABEL_SIZE: f64 = 12.5;
const TICK_GAP: f64 = 11.0;
/// Minimum width of the card, for title and notes.
const MIN_CARD_WIDTH: f64 = 460.0;
/// Maximum width of a card with several heat maps.
const MAX_CARD_WIDTH: f64 = 820.0;
/// Width reserved for the sign of a cell.
const MARK_WIDTH: f64 = 11.0;
/// Shade of the darkest cell: with the full colour the text would have too little contrast.
const MAX_SHADE: f64 = 0.74;

/// Mark of a cell as above or below a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum CellMark {
    #[default]
    None,
    Above,
    Below,
    /// Frame without a sign.
    Framed,
}

/// One cell: its shade from 0 to 1 (blank if `None`), its value, and a smaller text below.
#[derive(Clone, Debug, Default)]
pub(super) struct HeatMapCell {
    pub shade: Option<f64>,
    pub label: String,
    pub sublabel: String,
    pub mark: CellMark,
}

/// A matrix of cells with row names at its left and column names below it.
#[derive(Clone, Debug)]
pub(super) struct HeatMap {
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    pub row_name: String,
    pub column_name: String,
    /// Cells of the map, `cells[row][column]`.
    pub cells: Vec<Vec<HeatMapCell>>,
}

impl HeatMap {
    /// Returns the width and height of a cell in a card of its own. Few columns are wider, so that
    /// they fill it.
    pub(super) fn cell_size(&self) -> (f64, f64) {
        let free = MIN_CARD_WIDTH - 2.0 * MARGIN - self.row_label_width() - TICK_GAP - 4.0;
        let filling = (free / self.columns.len().max(1) as f64).min(150.0);
        let (wide, high) = self.min_cell_size();
        (wide.max(filling).floor(), high)
    }

    /// Returns the width and height of a cell into which its texts fit.
    fn min_cell_size(&self) -> (f64, f64) {
        let all = || self.cells.iter().flatten();
        let main =
            all().map(|cell| font::text_width(&cell.label, LABEL_SIZE, true)).fold(0.0, f64::max);
        let names = self.columns.iter().map(|name| font::text_width(name, SMALL_SIZE, false));
        let names = names.fold(0.0, f64::max) - 8.0;
        // On both sides, so that the value stays centred.
        let signs =
            if all().any(|cell| cell.mark != CellMark::None) { 2.0 * MARK_WIDTH } else { 0.0 };
        let sub = all()
            .map(|cell| font::text_width(&cell.sublabel, SMALL_SIZE - 1.0, false))
            .fold(0.0, f64::max);
        let needed = ((main + signs).max(sub).max(names) + 16.0).clamp(46.0, 120.0);
        (needed.floor(), if sub > 0.0 { 42.0 } else { 32.0 })
    }

    /// Returns the colour of a cell.
    pub(super) fn background(&self, cell: &HeatMapCell) -> Rgb {
        cell.shade.map_or(palette::GRID, |share| palette::shade(share * MAX_SHADE))
    }

    fn row_label_width(&self) -> f64 {
        let widest = self.rows.iter().map(|name| font::text_width(name, SMALL_SIZE, false));
        widest.fold(20.0, f64::max).min(220.0).ceil()
    }

    /// Draws the heat map with cells of this size from the given upper left corner on, left of
    /// `right_end`, and returns its lower edge.
    fn draw_at(
        &self,
        scene: &mut Scene,
        (from, top): (f64, f64),
        right_end: f64,
        (wide, high): (f64, f64),
    ) -> f64 {
        let mut top = top;
        if !self.row_name.is_empty() {
            scene.text((from, top + 6.0), to_single_line(&self.row_name), muted(Align::Left));
            top += 20.0;
        }
        let left = (from + self.row_label_width() + TICK_GAP).round();
        let corner = |r: usize, c: usize| (left + c as f64 * wide, top + r as f64 * high);
        for (r, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let name = font::truncate_to_width(
                &to_single_line(name),
                SMALL_SIZE,
                false,
                self.row_label_width(),
            );
            let at = (left - TICK_GAP, corner(r, 0).1 + high / 2.0);
            scene.text(at, name, text_style(SMALL_SIZE, false, palette::INK, Align::Right));
            for (c, cell) in cells.iter().enumerate() {
                let ground = self.background(cell);
                draw_cell(scene, corner(r, c), (wide, high), (cell, ground));
            }
        }
        let bottom = corner(self.rows.len(), 0).1;
        for (c, name) in self.columns.iter().enumerate() {
            let name =
                font::truncate_to_width(&to_single_line(name), SMALL_SIZE, false, wide - 4.0);
            let at = (corner(0, c).0 + wide / 2.0, bottom + 12.0);
            scene.text(at, name, text_style(SMALL_SIZE, false, palette::INK, Align::Middle));
        }
        let name = to_single_line(&self.column_name);
        let right = corner(0, self.columns.len()).0;
        // Centred under the columns unless it is wider than they are.
        let half = font::text_width(&name, SMALL_SIZE, false) / 2.0;
        let middle = ((left + right) / 2.0).min(right_end - half);
        scene.text((middle, bottom + 30.0), &name, muted(Align::Middle));
        bottom + if name.is_empty() { 20.0 } else { 38.0 }
    }
}

impl Drawing for HeatMap {
    fn width(&self) -> f64 {
        let cells = self.columns.len() as f64 * self.cell_size().0;
        (2.0 * MARGIN + self.row_label_width() + TICK_GAP + cells + 4.0).max(MIN_CARD_WIDTH)
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let corner = (MARGIN, page.top + 2.0);
        let right = page.scene.width - MARGIN;
        self.draw_at(&mut page.scene, corner, right, self.cell_size())
    }

    fn vega_lite(&self) -> Option<Value> {
        Some(super::vega::heat(self))
    }
}

/// Heat maps of the same rows and columns, one for each value of a further setting.
#[derive(Clone, Debug)]
pub(super) struct HeatMapSlices {
    /// Name of the setting: `epsilon`.
    pub setting: String,
    /// Value of the setting and its heat map.
    pub maps: Vec<(String, HeatMap)>,
}

impl HeatMapSlices {
    /// Height of the line above each heat map.
    const HEAD: f64 = 24.0;
    const COLUMN_GAP: f64 = 30.0;
    const ROW_GAP: f64 = 22.0;

    /// Returns the width and height of a cell, the same in all maps.
    fn cell_size(&self) -> (f64, f64) {
        let cells = self.maps.iter().map(|(_, heat)| heat.min_cell_size());
        cells.fold((0.0, 0.0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
    }

    fn map_width(&self) -> f64 {
        let width = |heat: &HeatMap| {
            heat.row_label_width() + TICK_GAP + heat.columns.len() as f64 * self.cell_size().0 + 4.0
        };
        self.maps.iter().map(|(_, heat)| width(heat)).fold(0.0, f64::max)
    }

    /// Returns the number of maps in a row.
    fn maps_per_row(&self) -> usize {
        let max_width = MAX_CARD_WIDTH - 2.0 * MARGIN + Self::COLUMN_GAP;
        ((max_width / (self.map_width() + Self::COLUMN_GAP)) as usize)
            .clamp(1, self.maps.len().max(1))
    }

    /// Returns the heading of a map, such as `epsilon 3`.
    pub(super) fn heading(&self, value: &str) -> String {
        to_single_line(&format!("{} {value}", self.setting))
    }
}

impl Drawing for HeatMapSlices {
    fn width(&self) -> f64 {
        let across = self.maps_per_row() as f64;
        let maps = across * self.map_width() + (across - 1.0) * Self::COLUMN_GAP;
        (2.0 * MARGIN + maps).max(MIN_CARD_WIDTH)
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let (wide, cell) = (self.map_width(), self.cell_size());
        let mut top = page.top + 2.0;
        let mut bottom = top;
        for row in self.maps.chunks(self.maps_per_row()) {
            for (i, (value, heat)) in row.iter().enumerate() {
                let left = MARGIN + i as f64 * (wide + Self::COLUMN_GAP);
                let name =
                    font::truncate_to_width(&self.heading(value), SMALL_SIZE + 0.5, true, wide);
                let bold = text_style(SMALL_SIZE + 0.5, true, palette::INK, Align::Left);
                page.scene.text((left, top + 8.0), name, bold);
                let corner = (left, top + Self::HEAD);
                bottom = heat.draw_at(&mut page.scene, corner, left + wide, cell).max(bottom);
            }
            top = bottom + Self::ROW_GAP;
        }
        bottom
    }

    fn vega_lite(&self) -> Option<Value> {
        Some(super::vega::heat_slices(self))
    }
}

fn draw_cell(
    scene: &mut Scene,
    (x, y): (f64, f64),
    (wide, high): (f64, f64),
    (cell, ground): (&HeatMapCell, Rgb),
) {
    let area = Rect { left: x, top: y, right: x + wide, bottom: y + high }.grown(-1.0, -1.0);
    match cell.mark {
        CellMark::None => scene.fill(area, ground),
        _ => scene.framed_rect(area, ground, palette::MUTED),
    }
    let ink = palette::text_colour_on(ground);
    let middle = x + wide / 2.0;
    let second = if cell.sublabel.is_empty() { 0.0 } else { 8.0 };
    let bold = cell.mark != CellMark::None;
    let size = fit_font_size(&cell.label, LABEL_SIZE, bold, wide - 12.0);
    let at = (middle, y + high / 2.0 - second);
    scene.text(at, &cell.label, text_style(size, bold, ink, Align::Middle));
    let size = fit_font_size(&cell.sublabel, SMALL_SIZE - 1.0, false, wide - 8.0);
    let at = (middle, y + high / 2.0 + second);
    scene.text(at, &cell.sublabel, text_style(size, false, ink, Align::Middle));
    // A triangle, because some fonts lack arrows.
    let (tip, base) = match cell.mark {
        CellMark::None | CellMark::Framed => return,
        CellMark::Above => (-3.5, 3.0),
        CellMark::Below => (3.5, -3.0),
    };
    let (cx, cy) = (area.right - 9.0, area.top + 10.0);
    scene.polygon(vec![(cx, cy + tip), (cx + 4.0, cy + base), (cx - 4.0, cy + base)], ink);
}

/// Returns the font size at which a text fits, at least 7.
fn fit_font_size(text: &str, size: f64, bold: bool, max_width: f64) -> f64 {
    let wide = font::text_width(text, size, bold);
    if wide <= max_width { size } else { (size * max_width / wide).max(7.0) }
}
