//! The colours of a picture as a palette, which makes PNG files a third as large.

use super::palette::Rgb;
use std::collections::HashMap;

/// Maximum difference of a channel between a pixel and its colour in the palette. Only blends at
/// the edges of lines and letters are changed: frequent colours are in the palette themselves.
const TOLERANCE: u8 = 16;
/// Pixels that must have a colour before it is kept exactly.
const FREQUENT: usize = 64;

/// A palette of at most 256 colours and the index of each pixel.
pub(super) struct Indexed {
    pub palette: Vec<Rgb>,
    pub pixels: Vec<u8>,
}

impl Indexed {
    /// The palette of a picture (red, green and blue for each pixel); `None` if it needs more than
    /// 256 colours, as photographs do.
    pub(super) fn of(rgb: &[u8]) -> Option<Self> {
        let colours = || rgb.chunks_exact(3).map(|pixel| (pixel[0], pixel[1], pixel[2]));
        let mut counts: HashMap<Rgb, usize> = HashMap::new();
        let mut last: Option<(Rgb, usize)> = None;
        // Neighbours are mostly equal, so most pixels need no look-up.
        for colour in colours() {
            match &mut last {
                Some((same, count)) if *same == colour => *count += 1,
                _ => {
                    if let Some((before, count)) = last.replace((colour, 1)) {
                        *counts.entry(before).or_default() += count;
                    }
                }
            }
        }
        if let Some((colour, count)) = last {
            *counts.entry(colour).or_default() += count;
        }
        let mut order: Vec<(Rgb, usize)> = counts.into_iter().collect();
        order.sort_unstable_by_key(|&(colour, count)| (std::cmp::Reverse(count), colour));
        let mut palette = Palette::default();
        let mut index: HashMap<Rgb, u8> = HashMap::with_capacity(order.len());
        for (colour, count) in order {
            let at = match palette.nearest(colour) {
                Some(at) if count < FREQUENT => at,
                _ if palette.len < 256 => palette.push(colour),
                Some(at) => at,
                None => return None,
            };
            index.insert(colour, u8::try_from(at).ok()?);
        }
        let mut last = None;
        let pixels = colours().map(|colour| match last {
            Some((same, at)) if same == colour => at,
            _ => {
                let at = index[&colour];
                last = Some((colour, at));
                at
            }
        });
        Some(Self { pixels: pixels.collect(), palette: palette.colours() })
    }
}

/// Up to 256 colours, stored by channel so that a search compares many of them at once.
struct Palette {
    channels: [[u8; 256]; 3],
    len: usize,
}

impl Default for Palette {
    fn default() -> Self {
        Self { channels: [[0; 256]; 3], len: 0 }
    }
}

impl Palette {
    /// Adds a colour and returns its index. There must be fewer than 256.
    fn push(&mut self, colour: Rgb) -> usize {
        for (channel, value) in self.channels.iter_mut().zip([colour.0, colour.1, colour.2]) {
            channel[self.len] = value;
        }
        self.len += 1;
        self.len - 1
    }

    /// Returns the index of the nearest colour that differs by at most [`TOLERANCE`] in each
    /// channel; of equally near ones, the first.
    fn nearest(&self, colour: Rgb) -> Option<usize> {
        let mut apart = [0; 256];
        for (channel, value) in self.channels.iter().zip([colour.0, colour.1, colour.2]) {
            for (apart, other) in apart.iter_mut().zip(channel) {
                *apart = value.abs_diff(*other).max(*apart);
            }
        }
        let apart = &apart[..self.len];
        let least = apart.iter().copied().min().filter(|least| *least <= TOLERANCE)?;
        apart.iter().position(|apart| *apart == least)
    }

    fn colours(&self) -> Vec<Rgb> {
        let [red, green, blue] = &self.channels;
        (0..self.len).map(|at| (red[at], green[at], blue[at])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_colours_are_exact_and_rare_ones_close() {
        let mut rgb = [[255, 255, 255]; 1000].concat();
        rgb.extend([[254, 254, 254]; FREQUENT].concat());
        rgb.extend([[0, 0, 0]; 200].concat());
        // A ramp of single pixels, as at the edge of a letter.
        rgb.extend((0..=255u8).flat_map(|grey| [grey, grey, grey]));
        let indexed = Indexed::of(&rgb).expect("few colours");
        let of = |at: usize| indexed.palette[usize::from(indexed.pixels[at])];
        assert_eq!(indexed.pixels.len(), rgb.len() / 3);
        assert_eq!((of(0), of(1000), of(1100)), ((255, 255, 255), (254, 254, 254), (0, 0, 0)));
        for (at, pixel) in rgb.chunks_exact(3).enumerate() {
            let (red, green, blue) = of(at);
            for (value, kept) in pixel.iter().zip([red, green, blue]) {
                assert!(value.abs_diff(kept) <= TOLERANCE);
            }
        }
        assert!(indexed.palette.len() < 30, "{}", indexed.palette.len());
    }

    #[test]
    fn photographs_have_no_palette_and_nothing_has_an_empty_one() {
        let all =
            (0..729u16).flat_map(|i| [i % 9, i / 9 % 9, i / 81].map(|level| 28 * level as u8));
        assert!(Indexed::of(&all.collect::<Vec<_>>()).is_none());
        assert!(Indexed::of(&[]).is_some_and(|empty| empty.palette.is_empty()));
    }
}
