//! Rows of text in a figure.

use crate::show::figure_card::{Drawing, FigureCard};
use crate::show::layout::{MARGIN, SMALL_SIZE, text_style};
use crate::show::palette::{self, Rgb};
use crate::show::scene::{Align, Rect};
use crate::show::{font, format};

const ROW: f64 = 18.0;
const GAP: f64 = 16.0;

/// Rows of text in columns. All columns but the last are as wide as their texts, up to a third of
/// the card; the last one takes what is left.
pub(in crate::show::figures) struct TextRows {
    pub width: f64,
    /// Name and alignment of each column.
    pub columns: Vec<(&'static str, Align)>,
    pub rows: Vec<Vec<(String, Rgb)>>,
}

impl Drawing for TextRows {
    fn width(&self) -> f64 {
        self.width
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let most = page.content_width() / 3.0;
        // Rounded up, so that a text fits into its own width.
        let width = |text: &str| font::text_width(text, SMALL_SIZE, false).ceil() + 1.0;
        let mut spans = Vec::new();
        let (mut left, end) = (MARGIN, MARGIN + page.content_width());
        for (c, (name, align)) in self.columns.iter().enumerate() {
            let texts = self.rows.iter().filter_map(|row| row.get(c));
            let widest = texts.map(|(text, _)| width(text)).fold(width(name), f64::max);
            let is_last = c + 1 == self.columns.len() && *align == Align::Left;
            let right = if is_last { end } else { (left + widest.min(most)).min(end) };
            spans.push((left, right));
            left = right + GAP;
        }
        let top = page.top + 6.0;
        let mut line = |y: f64, c: usize, text: &str, colour: Rgb| {
            let (left, right) = spans[c];
            let text = font::truncate_to_width(
                &format::to_single_line(text),
                SMALL_SIZE,
                false,
                right - left,
            );
            let align = self.columns[c].1;
            let x = if align == Align::Right { right } else { left };
            page.scene.text((x, y), text, text_style(SMALL_SIZE, false, colour, align));
        };
        for (c, (name, _)) in self.columns.iter().enumerate() {
            line(top, c, name, palette::MUTED);
        }
        for (r, row) in self.rows.iter().enumerate() {
            for (c, (text, colour)) in row.iter().enumerate().take(self.columns.len()) {
                line(top + ROW * (r + 1) as f64, c, text, *colour);
            }
        }
        let end = spans.last().map_or(end, |(_, right)| *right);
        let rules = (0..=self.rows.len()).map(|r| (top + ROW * (r as f64 + 0.5)).floor());
        let rules = rules.map(|y| Rect { left: MARGIN, top: y, right: end, bottom: y + 1.0 });
        page.scene.cells(rules.collect(), palette::GRID);
        top + ROW * (self.rows.len() as f64 + 0.5)
    }
}
