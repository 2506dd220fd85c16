//! Norms of rows, and whether their numbers are finite: pieces of rows first, then rows.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::squares::{ABOVE, BELOW, add, exponent, field, mantissa, norm, sort};
use super::{INFINITE, SIZE, UNITS, addresses, alloc, grid, matrix, units};

/// What a piece of a row leaves: its three sums of squares, and 1 if a number is not finite.
const PARTS: usize = 4;

/// Adds up what the units of each group hold; the first of each has the sums then.
#[cube]
fn merge(held: &mut Shared<[f32]>, #[comptime] group: usize) {
    let unit = UNIT_POS as usize;
    #[unroll]
    for halving in 0..comptime!(group.ilog2()) {
        let half = comptime!(group >> (halving + 1));
        sync_cube();
        if unit % group < half {
            #[unroll]
            for part in 0..PARTS {
                held[part * UNITS + unit] += held[part * UNITS + unit + half];
            }
        }
    }
    sync_cube();
}

/// The smaller one.
#[cube]
fn less(a: usize, b: usize) -> usize {
    select(a < b, a, b)
}

/// Each group of units reads one piece of one row and leaves its [`PARTS`].
#[cube(launch, address_type = "dynamic")]
fn measure(
    rows: &[u32],
    roots: &[u32],
    out: &mut [f32],
    columns: usize,
    pieces: usize,
    span: usize,
    #[comptime] group: usize,
    #[comptime] weighted: bool,
) {
    let unit = UNIT_POS as usize;
    let place = CUBE_POS * comptime!(UNITS / group) + unit / group;
    let here = place < out.len() / PARTS;
    let start = (place % pieces) * span;
    let end = select(here, less(start + span, columns), start);
    let row = (place / pieces) * columns;
    let mut sums = Array::<f32>::new(6usize);
    let mut bad = 0u32;
    let mut column = start + unit % group;
    while column < end {
        let size = rows[row + column] & SIZE;
        if weighted {
            let root = roots[column] & SIZE;
            // A weight of 0: the number does not count, whatever it is.
            if root != 0 {
                if field(size) == 255 || field(root) == 255 {
                    bad = 1u32;
                } else if size != 0 {
                    let e = exponent(size) + exponent(root);
                    if e > 128 {
                        bad = 1u32;
                    } else {
                        sort(&mut sums, mantissa(size) * mantissa(root), e);
                    }
                }
            }
        } else if field(size) == 255 {
            bad = 1u32;
        } else if field(size) >= comptime!((BELOW + 127) as u32)
            && field(size) < comptime!((ABOVE + 127) as u32)
        {
            add(&mut sums, 0usize, f32::reinterpret(size));
        } else if size != 0 {
            sort(&mut sums, mantissa(size), exponent(size));
        }
        column += group;
    }
    let mut held = Shared::<[f32]>::new_slice(comptime!(PARTS * UNITS));
    #[unroll]
    for part in 0..3usize {
        held[part * UNITS + unit] = sums[part] - sums[part + 3];
    }
    held[3 * UNITS + unit] = f32::cast_from(bad);
    merge(&mut held, group);
    if here && unit % group == 0 {
        #[unroll]
        for part in 0..PARTS {
            out[place * PARTS + part] = held[part * UNITS + unit];
        }
    }
}

/// Puts the pieces of each row together: its norm, or 1 if all its numbers are finite.
#[cube(launch, address_type = "dynamic")]
fn conclude(
    parts: &[f32],
    out: &mut [u32],
    pieces: usize,
    #[comptime] group: usize,
    #[comptime] flag: bool,
) {
    let unit = UNIT_POS as usize;
    let row = CUBE_POS * comptime!(UNITS / group) + unit / group;
    let here = row < out.len();
    let mut held = Shared::<[f32]>::new_slice(comptime!(PARTS * UNITS));
    let mut sums = Array::<f32>::new(PARTS);
    let mut piece = select(here, unit % group, pieces);
    while piece < pieces {
        #[unroll]
        for part in 0..PARTS {
            sums[part] += parts[(row * pieces + piece) * PARTS + part];
        }
        piece += group;
    }
    #[unroll]
    for part in 0..PARTS {
        held[part * UNITS + unit] = sums[part];
    }
    merge(&mut held, group);
    if here && unit % group == 0 {
        let bad = held[3 * UNITS + unit] > 0.0;
        if flag {
            out[row] = select(bad, 0u32, u32::reinterpret(1.0f32));
        } else {
            let size = norm(held[unit], held[UNITS + unit], held[2 * UNITS + unit]);
            out[row] = select(bad, INFINITE, size);
        }
    }
}

/// The L2 norm of each row, or with roots of weights.
pub(super) fn norms(rows: CubeTensor, roots: Option<CubeTensor>) -> CubeTensor {
    pass(rows, roots, false)
}

/// 1 for each row whose numbers are all finite, else 0.
pub(super) fn finite(rows: CubeTensor) -> CubeTensor {
    pass(rows, None, true)
}

fn pass(rows: CubeTensor, roots: Option<CubeTensor>, flag: bool) -> CubeTensor {
    /// Cubes that keep a GPU busy, and numbers that make a piece worth a cube.
    const BUSY: usize = 1024;
    const WORTH: usize = 4096;
    let [n, columns] = matrix(&rows);
    // A few numbers for each unit, but no more units than a cube has.
    let group = |numbers: usize| (numbers / 4).next_power_of_two().min(UNITS);
    let span = columns.div_ceil((BUSY / n).clamp(1, columns.div_ceil(WORTH)));
    let pieces = columns.div_ceil(span);
    let parts = alloc(&rows, [n, pieces, PARTS], DType::F32);
    let out = alloc(&rows, [n], DType::F32);
    let (weighted, width) = (roots.is_some(), addresses(&rows));
    let roots = roots.unwrap_or_else(|| rows.clone());
    measure::launch(
        &out.client,
        grid((n * pieces).div_ceil(UNITS / group(span))),
        units(),
        width,
        rows.into_buffer_arg(),
        roots.into_buffer_arg(),
        parts.clone().into_buffer_arg(),
        columns,
        pieces,
        span,
        group(span),
        weighted,
    );
    conclude::launch(
        &out.client,
        grid(n.div_ceil(UNITS / group(pieces))),
        units(),
        width,
        parts.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        pieces,
        group(pieces),
        flag,
    );
    out
}
