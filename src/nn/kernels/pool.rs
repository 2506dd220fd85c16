//! Max pooling.

use super::{Window, vectorised};

/// Computes max pooling of `maps`, any number of feature maps of `window.size`, into as many maps
/// of the output's size. NaN propagates, as in Burn.
pub(super) fn forward(window: &Window, maps: &[f32], out: &mut [f32]) {
    let taps = window.taps();
    for_each_output_row(window, maps.len(), |input, output, stride, columns| {
        let out = &mut out[output..output + columns];
        for (i, tap) in taps.iter().enumerate() {
            let x = &maps[input + tap..];
            let pairs = out.iter_mut().zip(x.iter().step_by(stride));
            match (i == 0, stride) {
                (true, _) => pairs.for_each(|(o, x)| *o = *x),
                (false, 1) => max_in_place(&x[..columns], out),
                (false, _) => pairs.for_each(|(o, x)| *o = max(*o, *x)),
            }
        }
    });
}

/// Computes the input gradient of max pooling: each output gradient goes to the first position in
/// its window with the maximum. `maxima` is the output of [`forward`].
pub(super) fn backward(
    window: &Window,
    maps: &[f32],
    maxima: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) {
    out.fill(0.0);
    let taps = window.taps();
    // Gradients of one output row that are not assigned to an input yet.
    let mut pending = Vec::new();
    for_each_output_row(window, maps.len(), |input, output, stride, columns| {
        let y = &maxima[output..output + columns];
        pending.clear();
        pending.extend_from_slice(&gradient[output..output + columns]);
        for tap in &taps {
            let (x, out) = (&maps[input + tap..], &mut out[input + tap..]);
            if stride == 1 {
                move_to_maxima(&x[..columns], y, &mut pending, &mut out[..columns]);
                continue;
            }
            let inputs = out.iter_mut().step_by(stride).zip(x.iter().step_by(stride));
            for ((out, x), (y, pending)) in inputs.zip(y.iter().zip(&mut pending)) {
                if x == y {
                    *out += std::mem::take(pending);
                }
            }
        }
    });
}

/// Calls `row` for each row of each output map with the index of the row's first input, the index
/// of its first output, the horizontal stride and the number of outputs.
fn for_each_output_row(
    window: &Window,
    len: usize,
    mut row: impl FnMut(usize, usize, usize, usize),
) {
    let Some([rows, columns]) = window.output() else { return };
    let [height, width] = window.size;
    for map in 0..len / (height * width) {
        for y in 0..rows {
            let input = (map * height + y * window.stride[0]) * width;
            row(input, (map * rows + y) * columns, window.stride[1], columns);
        }
    }
}

/// Returns the larger of two values. NaN propagates, as in Burn.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

vectorised! {
    fn max_in_place(x: &[f32], out: &mut [f32]) {
        for (o, &x) in out.iter_mut().zip(x) {
            *o = max(*o, x);
        }
    }
}

vectorised! {
    /// Moves each pending gradient to its input if that equals the window's maximum.
    fn move_to_maxima(x: &[f32], y: &[f32], pending: &mut [f32], out: &mut [f32]) {
        for (((o, pending), &x), &y) in out.iter_mut().zip(pending).zip(x).zip(y) {
            let moved = if x == y { *pending } else { 0.0 };
            *o += moved;
            *pending -= moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        channels: 1,
        size: [3, 4],
        kernel: [2, 2],
        stride: [1, 1],
        padding: [0, 0],
        dilation: [1, 1],
    };
    #[rustfmt::skip]
    const MAP: [f32; 12] = [
        1.0, 5.0, 2.0, 2.0,
        0.0, 5.0, 1.0, 7.0,
        9.0, 3.0, 4.0, 6.0,
    ];

    #[test]
    fn each_output_is_the_maximum_of_its_window() {
        let mut out = [0.0; 6];
        forward(&WINDOW, &MAP, &mut out);
        assert_eq!(out, [5.0, 5.0, 7.0, 9.0, 5.0, 7.0]);
    }

    #[test]
    fn each_gradient_goes_to_the_first_maximum_of_its_window() {
        let (mut maxima, mut out) = ([0.0; 6], [1.0; 12]);
        forward(&WINDOW, &MAP, &mut maxima);
        backward(&WINDOW, &MAP, &maxima, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], &mut out);
        assert_eq!(out, [0.0, 3.0, 0.0, 0.0, 0.0, 16.0, 0.0, 36.0, 8.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_stride_above_one_is_pooled_and_differentiated() {
        let window = Window { stride: [1, 2], ..WINDOW };
        let (mut maxima, mut out) = ([0.0; 4], [0.0; 12]);
        forward(&window, &MAP, &mut maxima);
        assert_eq!(maxima, [5.0, 7.0, 9.0, 7.0]);
        backward(&window, &MAP, &maxima, &[1.0, 2.0, 4.0, 8.0], &mut out);
        assert_eq!(out, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 4.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn nan_propagates_from_every_position() {
        for position in 0..4 {
            let mut map = [1.0; 4];
            map[position] = f32::NAN;
            let window = Window { size: [2, 2], ..WINDOW };
            let mut out = [0.0];
            forward(&window, &map, &mut out);
            assert!(out[0].is_nan(), "NaN at {position}");
        }
    }
}
