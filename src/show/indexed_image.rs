//! The colours of a picture as a palette, which makes PNG files a third as large.

use super::palette::Rgb;
use std::collections::HashMap;

/// Maximum difference of a channel between a pixel and its colour in the palette. Only blends at
/// the edges of lines and letters are changed: frequent colours are in the palette themselves.
const TOLERANCE: u8 = 16;
/// Number of pixels that a colour needs to be in the palette exactly.
const EXACT_MIN_PIXELS: usize = 64;

/// A palette of at most 256 colours and the index of each pixel.
pub(super) struct IndexedImage {
    pub palette: Vec<Rgb>,
    pub pixels: Vec<u8>,
}

impl IndexedImage {
    /// Returns the palette of a picture (red, green and blue for each pixel); `None` if it needs
    /// more than 256 colours, as photographs do.
    pub(super) fn quantise(rgb: &[u8]) -> Option<Self> {
        // Neighbours are mostly equal, so most pixels need no look-up.
        let runs = || rgb.as_chunks::<3>().0.chunk_by(|a, b| a == b);
        let mut counts: HashMap<[u8; 3], usize> = HashMap::new();
        for run in runs() {
            *counts.entry(run[0]).or_default() += run.len();
        }
        let mut index: HashMap<[u8; 3], u8> = HashMap::new();
        let (mut palette, mut pixels) = (Vec::new(), Vec::with_capacity(rgb.len() / 3));
        for run in runs() {
            let is_frequent = counts[&run[0]] >= EXACT_MIN_PIXELS;
            let colour = if is_frequent { run[0] } else { run[0].map(rounded) };
            let at = match index.get(&colour) {
                Some(at) => *at,
                None => {
                    let at = u8::try_from(palette.len()).ok()?;
                    palette.push((colour[0], colour[1], colour[2]));
                    index.insert(colour, at);
                    at
                }
            };
            pixels.extend(std::iter::repeat_n(at, run.len()));
        }
        Some(Self { palette, pixels })
    }
}

/// Returns the nearest multiple of twice the tolerance, or the largest value.
fn rounded(channel: u8) -> u8 {
    let step = 2 * u16::from(TOLERANCE);
    ((u16::from(channel) + u16::from(TOLERANCE)) / step * step).min(255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_colours_are_exact_and_rare_ones_close() {
        let mut rgb = [[255, 255, 255]; 1000].concat();
        rgb.extend([[254, 254, 254]; EXACT_MIN_PIXELS].concat());
        rgb.extend([[0, 0, 0]; 200].concat());
        // A ramp of single pixels, as at the edge of a letter.
        rgb.extend((0..=255u8).flat_map(|grey| [grey, grey, grey]));
        let indexed = IndexedImage::quantise(&rgb).expect("few colours");
        let colour_at = |at: usize| indexed.palette[usize::from(indexed.pixels[at])];
        assert_eq!(indexed.pixels.len(), rgb.len() / 3);
        assert_eq!(
            (colour_at(0), colour_at(1000), colour_at(1100)),
            ((255, 255, 255), (254, 254, 254), (0, 0, 0))
        );
        for (at, pixel) in rgb.chunks_exact(3).enumerate() {
            let (red, green, blue) = colour_at(at);
            for (value, kept) in pixel.iter().zip([red, green, blue]) {
                assert!(value.abs_diff(kept) <= TOLERANCE);
            }
        }
        assert!(indexed.palette.len() < 30, "{}", indexed.palette.len());
    }

    #[test]
    fn many_colours_have_no_palette_and_an_empty_image_has_an_empty_one() {
        let all =
            (0..729u16).flat_map(|i| [i % 9, i / 9 % 9, i / 81].map(|level| 28 * level as u8));
        assert!(IndexedImage::quantise(&all.collect::<Vec<_>>()).is_none());
        assert!(IndexedImage::quantise(&[]).is_some_and(|empty| empty.palette.is_empty()));
    }
}
