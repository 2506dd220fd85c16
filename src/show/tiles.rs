//! Matrices of small tiles.

use super::figure_card::{Drawing, FigureCard};
use super::font;
use super::layout::{SMALL_SIZE, tiny};
use super::multiples::{PanelHead, areas, columns};
use super::palette::Rgb;
use super::scene::{Align, Rect, Scene};
use serde_json::Value;

/// Height of the labels of an axis.
const AXIS: f64 = 20.0;

/// An interval of coordinates, horizontal or vertical.
pub(super) type Interval = (f64, f64);

/// Panels of tiles. A level has a colour and a name, such as `kept`.
pub(super) struct Tiles {
    pub panels: Vec<TilePanel>,
    pub levels: Vec<(Rgb, String)>,
}

/// The tiles of one panel.
pub(super) struct TilePanel {
    pub head: PanelHead,
    /// Levels of the tiles, `levels[row][column]`, below 16. A level without a colour is left
    /// blank.
    pub levels: Vec<Vec<u8>>,
    /// Intervals of the columns and rows from the upper left corner of the tiles on.
    pub across: Vec<Interval>,
    pub down: Vec<Interval>,
    /// Lines of the tooltip: name, and a Vega expression of `datum.row` and `datum.column`.
    pub tooltip: Vec<(String, String)>,
    /// Labels below the first and the last column.
    pub ends: Option<[String; 2]>,
}

impl TilePanel {
    /// Returns the width and height of the tiles.
    pub(super) fn size(&self) -> (f64, f64) {
        let end = |intervals: &[Interval]| intervals.last().map_or(1.0, |interval| interval.1);
        (end(&self.across), end(&self.down))
    }

    fn height(&self) -> f64 {
        self.head.height() + self.size().1 + if self.ends.is_some() { AXIS } else { 0.0 }
    }

    fn draw(&self, scene: &mut Scene, area: Rect, colours: &[Rgb]) {
        self.head.draw(scene, area);
        let corner = (area.left.round(), (area.top + self.head.height() - 4.0).round());
        draw(scene, corner, &self.levels, colours, (&self.across, &self.down));
        let Some([first, last]) = &self.ends else { return };
        let (wide, high) = self.size();
        let y = corner.1 + high + 10.0;
        if font::text_width(first, SMALL_SIZE, false) + font::text_width(last, SMALL_SIZE, false)
            < wide
        {
            scene.text((corner.0 + wide, y), last, tiny(Align::Right));
        }
        scene.text((corner.0, y), first, tiny(Align::Left));
    }
}

impl Drawing for Tiles {
    fn width(&self) -> f64 {
        columns(self.panels.len()).0
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let heights: Vec<f64> = self.panels.iter().map(TilePanel::height).collect();
        let (areas, bottom) = areas(page, columns(self.panels.len()).1, &heights);
        let colours: Vec<Rgb> = self.levels.iter().map(|(colour, _)| *colour).collect();
        for (panel, area) in self.panels.iter().zip(areas) {
            panel.draw(&mut page.scene, area, &colours);
        }
        bottom
    }

    fn vega_lite(&self) -> Option<Value> {
        Some(super::vega::tiles(self))
    }
}

/// Draws `levels[row][column]` in `colours[level]` at the intervals of its column and row, counted
/// from the corner. Adjacent tiles of a row with the same colour become one box.
fn draw(
    scene: &mut Scene,
    (x, y): (f64, f64),
    levels: &[Vec<u8>],
    colours: &[Rgb],
    (across, down): (&[Interval], &[Interval]),
) {
    let mut areas: Vec<Vec<Rect>> = vec![Vec::new(); colours.len()];
    for (row, &(top, bottom)) in levels.iter().zip(down) {
        let mut columns = row.iter().zip(across).peekable();
        while let Some((level, &(left, mut right))) = columns.next() {
            while let Some((_, next)) = columns.next_if(|(l, next)| *l == level && next.0 == right)
            {
                right = next.1;
            }
            if let Some(areas) = areas.get_mut(usize::from(*level)) {
                let ((left, right), (top, bottom)) = ((x + left, x + right), (y + top, y + bottom));
                areas.push(Rect { left, top, right, bottom });
            }
        }
    }
    for (areas, colour) in areas.into_iter().zip(colours) {
        scene.cells(areas, *colour);
    }
}

/// Returns the intervals of `groups` groups of `each` cells of this size, with gaps between groups.
pub(super) fn grouped_intervals(cell: f64, groups: usize, each: usize, gap: f64) -> Vec<Interval> {
    let at = |g: usize, k: usize| (g * each + k) as f64 * cell + g as f64 * gap;
    (0..groups).flat_map(|g| (0..each).map(move |k| (at(g, k), at(g, k) + cell))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scene::Mark;
    use super::*;

    #[test]
    fn adjacent_tiles_of_one_colour_become_one_box() {
        let mut scene = Scene::new(10.0, 10.0);
        let across = grouped_intervals(1.0, 2, 2, 0.5);
        assert_eq!(across, [(0.0, 1.0), (1.0, 2.0), (2.5, 3.5), (3.5, 4.5)]);
        let levels = [vec![0, 0, 0, 1], vec![9, 1, 0, 9]];
        let colours = [(1, 1, 1), (2, 2, 2)];
        draw(&mut scene, (0.0, 0.0), &levels, &colours, (&across, &[(0.0, 1.0), (1.0, 2.0)]));
        let boxes: Vec<Vec<(f64, f64, f64)>> = scene
            .marks
            .iter()
            .map(|mark| match mark {
                Mark::Cells { areas, .. } => {
                    areas.iter().map(|a| (a.left, a.right, a.top)).collect()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(boxes[0], [(0.0, 2.0, 0.0), (2.5, 3.5, 0.0), (2.5, 3.5, 1.0)]);
        assert_eq!(boxes[1], [(3.5, 4.5, 0.0), (1.0, 2.0, 1.0)]);
    }
}
