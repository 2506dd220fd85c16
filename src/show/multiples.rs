//! Small multiples: panels of one kind in rows, each with a header.

use super::figure_card::FigureCard;
use super::font;
use super::layout::{MARGIN, SMALL_SIZE, muted, text_style, tiny};
use super::palette;
use super::scene::{Align, Rect, Scene};

const ACROSS: f64 = 24.0;
const BETWEEN: f64 = 16.0;
/// Height of a line of a header.
const LINE: f64 = 15.0;

/// Returns the width of the card for this many panels, and the number of panels in a row.
pub(super) fn columns(panels: usize) -> (f64, usize) {
    match panels {
        0 | 1 => (480.0, 1),
        2 | 4 => (640.0, 2),
        _ => (800.0, 3),
    }
}

/// Returns the width of each of this many panels on a card of this width.
fn width_on(card: f64, columns: usize) -> f64 {
    let gaps = ACROSS * (columns as f64 - 1.0);
    ((card - 2.0 * MARGIN - gaps) / columns as f64).floor()
}

/// Returns the width of each of this many panels.
pub(super) fn panel_width(panels: usize) -> f64 {
    let (card, columns) = columns(panels);
    width_on(card, columns)
}

/// Returns the areas of panels of these heights below the header of a page, and the lower edge of
/// the last row. The panels of a row have the same height.
pub(super) fn areas(page: &FigureCard, columns: usize, heights: &[f64]) -> (Vec<Rect>, f64) {
    let wide = width_on(page.scene.width, columns);
    let (mut areas, mut bottom, mut top) = (Vec::new(), page.top, page.top + 2.0);
    for row in heights.chunks(columns) {
        bottom = top + row.iter().copied().fold(0.0, f64::max);
        for column in 0..row.len() {
            let left = MARGIN + column as f64 * (wide + ACROSS);
            areas.push(Rect { left, top, right: left + wide, bottom });
        }
        top = bottom + BETWEEN;
    }
    (areas, bottom)
}

/// Header of a panel.
pub(super) struct PanelHead {
    pub title: String,
    /// Size of what the panel shows, at the right of the title.
    pub size: String,
    /// Lines below the title.
    pub remarks: Vec<String>,
}

impl PanelHead {
    /// Returns the height, with the distance to the plot.
    pub(super) fn height(&self) -> f64 {
        22.0 + LINE * self.remarks.len() as f64
    }

    /// Draws the header at the upper edge of a panel.
    pub(super) fn draw(&self, scene: &mut Scene, area: Rect) {
        let y = area.top + 7.0;
        let max_width = area.width() - font::text_width(&self.size, SMALL_SIZE, false) - 10.0;
        let title = font::truncate_to_width(&self.title, SMALL_SIZE + 0.5, true, max_width);
        let bold = text_style(SMALL_SIZE + 0.5, true, palette::INK, Align::Left);
        scene.text((area.left, y), title, bold);
        scene.text((area.right, y), &self.size, muted(Align::Right));
        for (i, remark) in self.remarks.iter().enumerate() {
            let remark = font::truncate_to_width(remark, SMALL_SIZE - 1.0, false, area.width());
            let at = (area.left, y + LINE * (i + 1) as f64);
            scene.text(at, remark, tiny(Align::Left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure_card::FigureHeader;
    use super::*;

    #[test]
    fn panels_fill_rows_from_left_to_right() {
        let page = FigureCard::new(360.0, &FigureHeader::new("t"));
        let (areas, end) = areas(&page, 2, &[50.0, 70.0, 30.0]);
        let tops = [0, 1, 2].map(|i| areas[i].top - areas[0].top);
        assert_eq!(tops, [0.0, 0.0, 86.0]);
        assert_eq!([0, 1].map(|i| areas[i].left), [MARGIN, MARGIN + 150.0 + ACROSS]);
        assert_eq!((areas[0].right, areas[0].bottom), (MARGIN + 150.0, areas[0].top + 70.0));
        assert_eq!(end, areas[2].top + 30.0);
    }
}
