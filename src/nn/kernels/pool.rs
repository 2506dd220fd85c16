//! Maximum pooling.

use super::{Window, vectorised};

/// The largest value under each window, for one channel after the other: `maps` holds any number
/// of maps of `window.size`, `out` as many of the output's size. NaN wins, as in Burn.
pub(super) fn forward(window: &Window, maps: &[f32], out: &mut [f32]) {
    each_row(window, maps.len(), |input, output, step, columns| {
        let out = &mut out[output..output + columns];
        for (first, offset) in offsets(window).enumerate().map(|(i, o)| (i == 0, o)) {
            let x = &maps[input + offset..];
            let pairs = out.iter_mut().zip(x.iter().step_by(step));
            match (first, step) {
                (true, _) => pairs.for_each(|(o, x)| *o = *x),
                (false, 1) => larger(&x[..columns], out),
                (false, _) => pairs.for_each(|(o, x)| *o = max(*o, *x)),
            }
        }
    });
}

/// Sends each gradient to the first place in its window that holds the maximum.
pub(super) fn backward(
    window: &Window,
    maps: &[f32],
    largest: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) {
    out.fill(0.0);
    let mut left = Vec::new();
    each_row(window, maps.len(), |input, output, step, columns| {
        let y = &largest[output..output + columns];
        left.clear();
        left.extend_from_slice(&gradient[output..output + columns]);
        for offset in offsets(window) {
            let (x, out) = (&maps[input + offset..], &mut out[input + offset..]);
            if step == 1 {
                give(&x[..columns], y, &mut left, &mut out[..columns]);
                continue;
            }
            let places = out.iter_mut().step_by(step).zip(x.iter().step_by(step));
            for ((out, x), (y, left)) in places.zip(y.iter().zip(&mut left)) {
                if x == y {
                    *out += std::mem::take(left);
                }
            }
        }
    });
}

/// Calls `row` for each row of each output map: where its first window and its first output
/// begin, how far windows are apart, and how many there are.
fn each_row(window: &Window, len: usize, mut row: impl FnMut(usize, usize, usize, usize)) {
    let Some([rows, columns]) = window.output() else { return };
    let [height, width] = window.size;
    for map in 0..len / (height * width) {
        for y in 0..rows {
            let input = (map * height + y * window.stride[0]) * width;
            row(input, (map * rows + y) * columns, window.stride[1], columns);
        }
    }
}

/// Places in a window relative to its corner.
fn offsets(window: &Window) -> impl Iterator<Item = usize> {
    let ([height, width], [_, line]) = (window.kernel, window.size);
    (0..height).flat_map(move |y| (0..width).map(move |x| y * line + x))
}

/// The larger of two; NaN wins, as in Burn.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

vectorised! {
    fn larger(x: &[f32], out: &mut [f32]) {
        for (o, &x) in out.iter_mut().zip(x) {
            *o = max(*o, x);
        }
    }
}

vectorised! {
    fn give(x: &[f32], y: &[f32], left: &mut [f32], out: &mut [f32]) {
        for (((o, left), &x), &y) in out.iter_mut().zip(left).zip(x).zip(y) {
            let given = if x == y { *left } else { 0.0 };
            *o += given;
            *left -= given;
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
    fn each_output_is_the_largest_under_its_window() {
        let mut out = [0.0; 6];
        forward(&WINDOW, &MAP, &mut out);
        assert_eq!(out, [5.0, 5.0, 7.0, 9.0, 5.0, 7.0]);
    }

    #[test]
    fn each_gradient_goes_to_one_place_the_first_of_equals() {
        let (mut largest, mut out) = ([0.0; 6], [1.0; 12]);
        forward(&WINDOW, &MAP, &mut largest);
        backward(&WINDOW, &MAP, &largest, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], &mut out);
        assert_eq!(out, [0.0, 3.0, 0.0, 0.0, 0.0, 16.0, 0.0, 36.0, 8.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn wide_steps_take_the_other_loop_and_agree() {
        let window = Window { stride: [1, 2], ..WINDOW };
        let (mut largest, mut out) = ([0.0; 4], [0.0; 12]);
        forward(&window, &MAP, &mut largest);
        assert_eq!(largest, [5.0, 7.0, 9.0, 7.0]);
        backward(&window, &MAP, &largest, &[1.0, 2.0, 4.0, 8.0], &mut out);
        assert_eq!(out, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 4.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn nan_is_not_overlooked() {
        for place in 0..4 {
            let mut map = [1.0; 4];
            map[place] = f32::NAN;
            let window = Window { size: [2, 2], ..WINDOW };
            let mut out = [0.0];
            forward(&window, &map, &mut out);
            assert!(out[0].is_nan(), "at {place}");
        }
    }
}
