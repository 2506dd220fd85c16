//! A grid of small pictures with lines of text below them.

use crate::show::bitmap::Bitmap;
use crate::show::figure_card::{Drawing, FigureCard};
use crate::show::layout::{MARGIN, SMALL_SIZE, text_style};
use crate::show::palette::Rgb;
use crate::show::scene::{Align, Rect};
use crate::show::{font, format};

const GAP: f64 = 8.0;
const LINE: f64 = 14.0;

/// A picture with lines of text below it.
pub(in crate::show::figures) struct PictureTile {
    pub picture: Bitmap,
    pub lines: Vec<(String, Rgb)>,
}

/// Pictures in rows. They are enlarged by a whole factor, so that their pixels are squares of one
/// size.
pub(in crate::show::figures) struct PictureGrid {
    pub width: f64,
    /// Number of pictures in a row.
    pub columns: usize,
    pub tiles: Vec<PictureTile>,
}

impl Drawing for PictureGrid {
    fn width(&self) -> f64 {
        self.width
    }

    fn draw(&self, page: &mut FigureCard) -> f64 {
        let (tiles, columns) = (&self.tiles, self.columns.max(1));
        let tile_width = ((page.content_width() + GAP) / columns as f64 - GAP).floor();
        let longest =
            |side: fn(&Bitmap) -> usize| tiles.iter().map(|tile| side(&tile.picture)).max();
        let (wide, high) = (longest(|p| p.width).unwrap_or(1), longest(|p| p.height).unwrap_or(1));
        let factor = (tile_width.min(80.0) / wide.max(high) as f64).floor().max(1.0);
        let lines = tiles.iter().map(|tile| tile.lines.len()).max().unwrap_or(0);
        let row = high as f64 * factor + lines as f64 * LINE + 2.0 * GAP;
        let top = page.top + 2.0;
        for (i, tile) in tiles.iter().enumerate() {
            let (r, c) = ((i / columns) as f64, (i % columns) as f64);
            let middle = MARGIN + c * (tile_width + GAP) + tile_width / 2.0;
            let y = top + r * row;
            let half = tile.picture.width as f64 * factor / 2.0;
            let bottom = y + tile.picture.height as f64 * factor;
            let left = (middle - half).round();
            let area = Rect { left, top: y, right: left + 2.0 * half, bottom };
            page.scene.picture(area, tile.picture.clone());
            for (l, (text, colour)) in tile.lines.iter().enumerate() {
                let text = font::truncate_to_width(
                    &format::to_single_line(text),
                    SMALL_SIZE,
                    false,
                    tile_width,
                );
                let at = (middle, y + high as f64 * factor + 9.0 + l as f64 * LINE);
                page.scene.text(at, text, text_style(SMALL_SIZE, false, *colour, Align::Middle));
            }
        }
        let rows = tiles.len().div_ceil(columns) as f64;
        top + rows * row - GAP
    }
}
