//! The linear maps of tiles. The matrices of 16 points are `[16, tiles, channels]`.
//!
//! There are no closures in the loops: the compiler does not have to inline them, and outside of
//! their function they would be compiled without its vector instructions.

#![expect(clippy::needless_range_loop, reason = "one index for many slices")]

use pulp::Simd;

use super::{POINTS, Winograd};
use crate::nn::kernels::product::WriteMode;

/// Computes `Bᵀ d`
#[inline(always)]
fn input_transform_1d<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Computes `Aᵀ m`
#[inline(always)]
fn output_transform_1d<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    let (sum, difference) = (simd.add_f32s(b, c), simd.sub_f32s(b, c));
    [simd.add_f32s(a, sum), simd.sub_f32s(difference, d)]
}

/// Computes `A g`
#[inline(always)]
fn gradient_transform_1d<S: Simd>(simd: S, [a, b]: [S::f32s; 2]) -> [S::f32s; 4] {
    [a, simd.add_f32s(a, b), simd.sub_f32s(a, b), simd.neg_f32s(b)]
}

/// Computes `Gᵀ u`
#[inline(always)]
fn kernel_gradient_transform_1d<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 3] {
    let half = simd.splat_f32s(0.5);
    let sum = simd.mul_f32s(half, simd.add_f32s(b, c));
    let difference = simd.mul_f32s(half, simd.sub_f32s(b, c));
    [simd.add_f32s(a, sum), difference, simd.add_f32s(sum, d)]
}

/// Computes `G w`
#[inline(always)]
fn kernel_transform_1d<S: Simd>(simd: S, [a, b, c]: [S::f32s; 3]) -> [S::f32s; 4] {
    let half = simd.splat_f32s(0.5);
    let (outer, middle) = (simd.mul_f32s(half, simd.add_f32s(a, c)), simd.mul_f32s(half, b));
    [a, simd.add_f32s(outer, middle), simd.sub_f32s(outer, middle), c]
}

/// A map of the four columns of a tile, and then of the rows that this makes.
macro_rules! columns_then_rows {
    ($map:ident, $simd:expr, [$a:expr, $b:expr, $c:expr, $d:expr], $($row:literal)*) => {{
        let (a, b, c, d) = ($map($simd, $a), $map($simd, $b), $map($simd, $c), $map($simd, $d));
        [$($map($simd, [a[$row], b[$row], c[$row], d[$row]])),*]
    }};
}

/// Writes 16 values to the points of `$to`.
macro_rules! write_points {
    ($to:ident[$at:expr] = $tile:expr) => {{
        let tile = $tile;
        write_points!($to, $at, tile, 0 1 2 3);
    }};
    ($to:ident, $at:expr, $tile:ident, $($row:literal)*) => {
        $(
            $to[4 * $row][$at] = $tile[$row][0];
            $to[4 * $row + 1][$at] = $tile[$row][1];
            $to[4 * $row + 2][$at] = $tile[$row][2];
            $to[4 * $row + 3][$at] = $tile[$row][3];
        )*
    };
}

/// Reads one column of the points of `$from`.
macro_rules! column {
    ($from:ident[$at:expr], $x:literal) => {
        [$from[$x][$at], $from[4 + $x][$at], $from[8 + $x][$at], $from[12 + $x][$at]]
    };
}

/// Returns the matrices of all points, as vectors.
#[inline(always)]
fn points<S: Simd>(all: &[f32]) -> [&[S::f32s]; POINTS] {
    let mut each = all.chunks_exact(all.len() / POINTS);
    [(); POINTS].map(|()| S::as_simd_f32s(each.next().unwrap_or_default()).0)
}

#[inline(always)]
fn points_mut<S: Simd>(all: &mut [f32]) -> [&mut [S::f32s]; POINTS] {
    let mut each = all.chunks_exact_mut(all.len() / POINTS);
    [(); POINTS].map(|()| S::as_mut_simd_f32s(each.next().unwrap_or_default()).0)
}

/// Writes one image with zeros around it,
/// `[2 rows of tiles + 2, 2 columns of tiles + 2, channels]`.
fn pad(plan: &Winograd, image: &[f32], to: &mut [f32]) {
    let (channels, [height, width], [top, left]) = (plan.input, plan.size, plan.padding);
    let columns = 2 * plan.grid()[1] + 2;
    for (y, row) in to.chunks_exact_mut(columns * channels).enumerate() {
        if y < top || y - top >= height {
            row.fill(0.0);
            continue;
        }
        let (before, rest) = row.split_at_mut(left * channels);
        let (pixels, after) = rest.split_at_mut(width * channels);
        before.fill(0.0);
        pixels.copy_from_slice(&image[(y - top) * width * channels..][..width * channels]);
        after.fill(0.0);
    }
}

/// Computes `Bᵀ d B` of the tiles from `first` on. `padded` is a buffer for one image.
#[inline(always)]
pub(super) fn input<S: Simd>(
    simd: S,
    plan: &Winograd,
    (images, padded): (&[f32], &mut [f32]),
    first: usize,
    to: &mut [f32],
) {
    let (channels, n) = (plan.input, plan.input / S::F32_LANES);
    let columns = 2 * plan.grid()[1] + 2;
    let mut to = points_mut::<S>(to);
    let mut current = None;
    for tile in 0..to[0].len() / n {
        let (image, top, left) = plan.tile_origin(first + tile);
        if current.replace(image) != Some(image) {
            let len = plan.image_len();
            pad(plan, &images[image * len..(image + 1) * len], padded);
        }
        // The four pixels of each row are adjacent.
        let [a, b, c, d] = [0, 1, 2, 3].map(|y| {
            let start = ((top + y) * columns + left) * channels;
            &S::as_simd_f32s(&padded[start..start + 4 * channels]).0[..4 * n]
        });
        let to = to.each_mut().map(|to| &mut to[tile * n..][..n]);
        for v in 0..n {
            let (p, q, r, s) = (v, n + v, 2 * n + v, 3 * n + v);
            let [p, q, r, s] = [
                [a[p], b[p], c[p], d[p]],
                [a[q], b[q], c[q], d[q]],
                [a[r], b[r], c[r], d[r]],
                [a[s], b[s], c[s], d[s]],
            ];
            write_points!(
                to[v] = columns_then_rows!(input_transform_1d, simd, [p, q, r, s], 0 1 2 3)
            );
        }
    }
}

/// Computes `G w Gᵀ` of the output channels of one input channel, into all points from `from` on.
#[inline(always)]
pub(super) fn kernel<S: Simd>(simd: S, taps: [&[S::f32s]; 9], from: usize, to: &mut [f32]) {
    let n = taps[0].len();
    let [a, b, c, d, e, f, g, h, i] = taps.map(|tap| &tap[..n]);
    let mut each = to.chunks_exact_mut(to.len() / POINTS);
    let to = [(); POINTS].map(|()| {
        let point = &mut each.next().unwrap_or_default()[from..from + n * S::F32_LANES];
        &mut S::as_mut_simd_f32s(point).0[..n]
    });
    for v in 0..n {
        let l = kernel_transform_1d(simd, [a[v], d[v], g[v]]);
        let m = kernel_transform_1d(simd, [b[v], e[v], h[v]]);
        let r = kernel_transform_1d(simd, [c[v], f[v], i[v]]);
        let rows = [
            kernel_transform_1d(simd, [l[0], m[0], r[0]]),
            kernel_transform_1d(simd, [l[1], m[1], r[1]]),
            kernel_transform_1d(simd, [l[2], m[2], r[2]]),
            kernel_transform_1d(simd, [l[3], m[3], r[3]]),
        ];
        write_points!(to[v] = rows);
    }
}

/// Computes `A g Aᵀ` of the tiles from `first` on, for output channels from `start` on. `zeros`
/// are as many as there are channels.
#[inline(always)]
pub(super) fn gradient<S: Simd>(
    simd: S,
    plan: &Winograd,
    (gradients, zeros): (&[f32], &[f32]),
    first: usize,
    (start, channels): (usize, usize),
    to: &mut [f32],
) {
    let ([height, width], n) = (plan.output, channels / S::F32_LANES);
    let mut to = points_mut::<S>(to);
    for tile in 0..to[0].len() / n {
        let (image, top, left) = plan.tile_origin(first + tile);
        // The last tiles of a row or column may reach beyond the output.
        let [a, b, c, d] = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(y, x)| {
            let at = ((image * height + top + y) * width + left + x) * plan.out + start;
            let is_inside = top + y < height && left + x < width;
            let pixel = if is_inside { &gradients[at..at + channels] } else { zeros };
            &S::as_simd_f32s(pixel).0[..n]
        });
        let to = to.each_mut().map(|to| &mut to[tile * n..][..n]);
        for v in 0..n {
            let l = gradient_transform_1d(simd, [a[v], c[v]]);
            let r = gradient_transform_1d(simd, [b[v], d[v]]);
            let rows = [
                gradient_transform_1d(simd, [l[0], r[0]]),
                gradient_transform_1d(simd, [l[1], r[1]]),
                gradient_transform_1d(simd, [l[2], r[2]]),
                gradient_transform_1d(simd, [l[3], r[3]]),
            ];
            write_points!(to[v] = rows);
        }
    }
}

/// Computes `Aᵀ m A` of the tiles from `first` on, for output channels from `start` on.
#[inline(always)]
pub(super) fn output<S: Simd>(
    simd: S,
    plan: &Winograd,
    products: &[f32],
    first: usize,
    (start, channels): (usize, usize),
    out: &mut [f32],
    store: WriteMode,
) {
    let ([height, width], n) = (plan.output, channels / S::F32_LANES);
    let products = points::<S>(products);
    for tile in 0..products[0].len() / n {
        let (image, top, left) = plan.tile_origin(first + tile);
        let m = products.map(|m| &m[tile * n..][..n]);
        for v in 0..n {
            let (p, q, r, s) =
                (column!(m[v], 0), column!(m[v], 1), column!(m[v], 2), column!(m[v], 3));
            let [[a, b], [c, d]] = columns_then_rows!(output_transform_1d, simd, [p, q, r, s], 0 1);
            for (y, x, value) in [(0, 0, a), (0, 1, b), (1, 0, c), (1, 1, d)] {
                if top + y < height && left + x < width {
                    let pixel = (image * height + top + y) * width + left + x;
                    let at = pixel * plan.out + start + v * S::F32_LANES;
                    write(simd, &mut out[at..at + S::F32_LANES], value, store);
                }
            }
        }
    }
}

/// Computes `Gᵀ u G` for input channels from `row` on, and output channels from `start` on.
#[inline(always)]
pub(super) fn kernel_gradient<S: Simd>(
    simd: S,
    plan: &Winograd,
    products: &[f32],
    row: usize,
    (start, channels): (usize, usize),
    out: &mut [f32],
    store: WriteMode,
) {
    let n = channels / S::F32_LANES;
    let products = points::<S>(products);
    let mut taps = out.chunks_exact_mut(plan.input * plan.out);
    let mut taps = [(); 9].map(|()| taps.next().unwrap_or_default());
    for r in 0..products[0].len() / n {
        let u = products.map(|u| &u[r * n..][..n]);
        let from = (row + r) * plan.out + start;
        let mut taps = taps.each_mut().map(|tap| &mut tap[from..from + channels]);
        for v in 0..n {
            let (p, q, r, s) =
                (column!(u[v], 0), column!(u[v], 1), column!(u[v], 2), column!(u[v], 3));
            let tile = columns_then_rows!(kernel_gradient_transform_1d, simd, [p, q, r, s], 0 1 2);
            let [[a, b, c], [d, e, f], [g, h, i]] = tile;
            let at = v * S::F32_LANES..(v + 1) * S::F32_LANES;
            for (tap, value) in taps.iter_mut().zip([a, b, c, d, e, f, g, h, i]) {
                write(simd, &mut tap[at.clone()], value, store);
            }
        }
    }
}

#[inline(always)]
fn write<S: Simd>(simd: S, to: &mut [f32], value: S::f32s, store: WriteMode) {
    if let [to] = S::as_mut_simd_f32s(to).0 {
        *to = match store {
            WriteMode::Overwrite => value,
            WriteMode::Accumulate => simd.add_f32s(*to, value),
        };
    }
}
