//! Resizes images of any size to features of one shape.

use super::decode::Picture;

/// The shape and the scale of the features.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Channels, 1 or 3.
    pub(super) channels: usize,
    pub(super) side: usize,
    pub(super) mean: f32,
    pub(super) std: f32,
}

impl Form {
    pub(super) fn shape(&self) -> [usize; 3] {
        [self.channels, self.side, self.side]
    }
}

/// The source pixels of one target pixel along one axis, and their weights.
struct Window {
    first: usize,
    weights: Vec<f32>,
}

/// Resizes an image so that its shorter side has the target length, and crops it to its centre.
///
/// Each target pixel is a mean of source pixels with triangular weights that reach to the centres
/// of its neighbours (at least one source pixel): linear interpolation where the image is enlarged,
/// averaging where it is reduced. The two axes are resized one after the other.
pub(super) fn fit(picture: &Picture, form: &Form, into: &mut [f32]) {
    let side = form.side;
    let step = picture.width.min(picture.height) as f64 / side as f64;
    let columns = windows(picture.width, side, step);
    let rows = windows(picture.height, side, step);
    // Rows that no target row needs are skipped.
    let first = rows[0].first;
    let last = rows.iter().map(|row| row.first + row.weights.len()).max().unwrap_or(first);
    let line = side * form.channels;
    let mut narrowed = vec![0.0f32; (last - first) * line];
    for (y, out) in (first..last).zip(narrowed.chunks_exact_mut(line)) {
        let row = &picture.pixels[y * picture.width * picture.values..];
        for (out, window) in out.chunks_exact_mut(form.channels).zip(&columns) {
            for (i, &weight) in window.weights.iter().enumerate() {
                let at = (window.first + i) * picture.values;
                add(out, &row[at..at + picture.values], weight);
            }
        }
    }
    let scale = |x: f32| (x / 255.0 - form.mean) / form.std;
    for (y, window) in rows.iter().enumerate() {
        for x in 0..side {
            for channel in 0..form.channels {
                let at = |i: usize| (window.first - first + i) * line + x * form.channels + channel;
                let sum = |(i, &weight): (usize, &f32)| weight * narrowed[at(i)];
                let mean: f32 = window.weights.iter().enumerate().map(sum).sum();
                into[(channel * side + y) * side + x] = scale(mean);
            }
        }
    }
}

/// Adds a weighted pixel, converted to grey or to colour. Alpha is dropped.
fn add(out: &mut [f32], pixel: &[u8], weight: f32) {
    let value = |i: usize| f32::from(pixel[i]);
    let grey = pixel.len() <= 2;
    match out {
        [out] if grey => *out += weight * value(0),
        [out] => *out += weight * (0.299 * value(0) + 0.587 * value(1) + 0.114 * value(2)),
        _ => out.iter_mut().enumerate().for_each(|(i, out)| {
            *out += weight * value(if grey { 0 } else { i });
        }),
    }
}

/// The taps of the `side` target pixels at the centre of an axis of `length` source pixels, with
/// `step` source pixels per target pixel.
fn windows(length: usize, side: usize, step: f64) -> Vec<Window> {
    let start = (length as f64 - side as f64 * step) / 2.0;
    let reach = step.max(1.0);
    let window = |i: usize| {
        let middle = start + (i as f64 + 0.5) * step;
        let first = ((middle - reach).floor().max(0.0) as usize).min(length - 1);
        let last = ((middle + reach).ceil() as usize).clamp(first + 1, length);
        let weight = |j: usize| (1.0 - ((j as f64 + 0.5 - middle) / reach).abs()).max(0.0);
        let total: f64 = (first..last).map(weight).sum();
        Window { first, weights: (first..last).map(|j| (weight(j) / total) as f32).collect() }
    };
    (0..side).map(window).collect()
}
