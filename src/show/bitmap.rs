//! Small pictures in figures: examples and filters.

use super::palette::{self, Rgb};

/// A picture of coloured pixels, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bitmap {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<Rgb>,
}

/// Number of levels of a colour channel. More are not told apart and compress worse.
const LEVELS: f32 = 63.0;

impl Bitmap {
    /// Returns the picture of an image `[channels, height, width]`: one channel as grey, three as
    /// red, green and blue. `low` and `high` are the values of black and white.
    pub(super) fn from_image(values: &[f32], shape: [usize; 3], (low, high): (f32, f32)) -> Self {
        let [channels, height, width] = shape;
        let plane = height * width;
        let level = |value: f32| {
            let share = if high > low { (value - low) / (high - low) } else { 0.0 };
            let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
            ((share * LEVELS).round() / LEVELS * 255.0).round() as u8
        };
        let at = |channel: usize, i: usize| level(values[channel * plane + i]);
        let pixel = |i: usize| match channels {
            3 => (at(0, i), at(1, i), at(2, i)),
            _ => (at(0, i), at(0, i), at(0, i)),
        };
        Self { width, height, pixels: (0..plane).map(pixel).collect() }
    }

    /// Returns the picture of values with a sign, blue for -`largest` and orange for `largest`.
    pub(super) fn from_signed(values: &[f32], [height, width]: [usize; 2], largest: f32) -> Self {
        let colour = |&value: &f32| palette::diverging(f64::from(value) / f64::from(largest));
        Self { width, height, pixels: values.iter().map(colour).collect() }
    }

    /// Returns the picture as a PNG file.
    pub(super) fn encode_png(&self) -> Vec<u8> {
        let is_grey = self.pixels.iter().all(|&(r, g, b)| r == g && g == b);
        let (kind, bytes): (_, Vec<u8>) = if is_grey {
            (png::ColorType::Grayscale, self.pixels.iter().map(|pixel| pixel.0).collect())
        } else {
            let bytes = self.pixels.iter().flat_map(|&(r, g, b)| [r, g, b]).collect();
            (png::ColorType::Rgb, bytes)
        };
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(kind);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&bytes));
        debug_assert!(written.is_ok(), "writing to memory");
        file
    }
}

/// Returns the lowest and the highest of the values.
pub(super) fn range<'a>(values: impl Iterator<Item = &'a f32>) -> (f32, f32) {
    let none = (f32::INFINITY, f32::NEG_INFINITY);
    values.fold(none, |(low, high), &value| (low.min(value), high.max(value)))
}

/// Reduces an image `[channels, height, width]` by a whole factor, so that no side is longer than
/// `most`: each value becomes the mean of a square of values.
pub(super) fn downsample(
    values: Vec<f32>,
    shape: [usize; 3],
    most: usize,
) -> (Vec<f32>, [usize; 3]) {
    let [channels, height, width] = shape;
    let factor = height.max(width).div_ceil(most.max(1));
    if factor <= 1 {
        return (values, shape);
    }
    let (rows, columns) = (height.div_ceil(factor), width.div_ceil(factor));
    let mut small = Vec::with_capacity(channels * rows * columns);
    for channel in 0..channels {
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            // The last square of a row or column may be smaller.
            let (bottom, right) = (height.min((y + 1) * factor), width.min((x + 1) * factor));
            let (mut sum, mut count) = (0.0, 0);
            for row in y * factor..bottom {
                let start = (channel * height + row) * width;
                let line = &values[start + x * factor..start + right];
                sum += line.iter().sum::<f32>();
                count += line.len();
            }
            small.push(sum / count as f32);
        }
    }
    (small, [channels, rows, columns])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(file: &[u8]) -> (png::ColorType, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        (info.color_type, bytes)
    }

    #[test]
    fn pixels_are_where_they_are_in_the_image() {
        let grey = Bitmap::from_image(&[-1.0, 0.0, 1.0, 3.0], [1, 2, 2], (-1.0, 1.0));
        assert_eq!(
            decoded(&grey.encode_png()),
            (png::ColorType::Grayscale, vec![0, 130, 255, 255])
        );
        let values = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let colour = Bitmap::from_image(&values, [3, 1, 2], (0.0, 1.0));
        assert_eq!(
            decoded(&colour.encode_png()),
            (png::ColorType::Rgb, vec![255, 0, 0, 0, 0, 255])
        );
        let flat = Bitmap::from_image(&[f32::NAN, 2.0], [1, 1, 2], (2.0, 2.0));
        assert_eq!(flat.pixels, [(0, 0, 0); 2]);
    }

    #[test]
    fn large_images_are_averaged_and_small_ones_are_left_alone() {
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        assert_eq!(downsample(values.clone(), [1, 3, 4], 4), (values.clone(), [1, 3, 4]));
        // Squares of 2: rows 0 and 1, then row 2 alone.
        let (small, shape) = downsample(values.clone(), [1, 3, 4], 2);
        assert_eq!((small, shape), (vec![2.5, 4.5, 8.5, 10.5], [1, 2, 2]));
        assert_eq!(downsample(values, [3, 2, 2], 1).0, [1.5, 5.5, 9.5]);
    }

    #[test]
    fn signs_have_different_colours() {
        let bitmap = Bitmap::from_signed(&[-2.0, 0.0, 2.0], [1, 3], 2.0);
        let [low, zero, high] = [-1.0, 0.0, 1.0].map(palette::diverging);
        assert_eq!(bitmap.pixels, [low, zero, high]);
    }
}
