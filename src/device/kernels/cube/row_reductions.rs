//! Norms and finiteness of rows, in two passes: splits of rows, then whole rows.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::scaled_squares::{
    LARGE_FROM, SMALL_BELOW, add_square, add_square_scaled, combined_norm, exponent,
    exponent_field, mantissa,
};
use super::{
    ABS_MASK, CUBE_UNITS, INFINITY_BITS, alloc, cube_shape, grid, index_type, matrix_dims,
};

/// Partial results per split of a row: three sums of squares, and a flag that is 1 if a value is
/// not finite.
const PARTIALS: usize = 4;

/// Adds the partial results of the units of each group; the first unit of a group gets the sums.
#[cube]
fn reduce_group(shared: &mut Shared<[f32]>, #[comptime] group: usize) {
    let unit = UNIT_POS as usize;
    #[unroll]
    for step in 0..comptime!(group.ilog2()) {
        let half = comptime!(group >> (step + 1));
        sync_cube();
        if unit % group < half {
            #[unroll]
            for part in 0..PARTIALS {
                shared[part * CUBE_UNITS + unit] += shared[part * CUBE_UNITS + unit + half];
            }
        }
    }
    sync_cube();
}

#[cube]
fn smaller(a: usize, b: usize) -> usize {
    select(a < b, a, b)
}

/// Computes the [`PARTIALS`] of one split of one row in each group of units.
#[cube(launch, address_type = "dynamic")]
fn measure_splits(
    rows: &[u32],
    roots: &[u32],
    out: &mut [f32],
    columns: usize,
    splits: usize,
    span: usize,
    #[comptime] group: usize,
    #[comptime] weighted: bool,
) {
    let unit = UNIT_POS as usize;
    let split = CUBE_POS * comptime!(CUBE_UNITS / group) + unit / group;
    let in_range = split < out.len() / PARTIALS;
    let start = (split % splits) * span;
    let end = select(in_range, smaller(start + span, columns), start);
    let row_start = (split / splits) * columns;
    let mut sums = Array::<f32>::new(6usize);
    let mut bad = 0u32;
    let mut column = start + unit % group;
    while column < end {
        let abs_bits = rows[row_start + column] & ABS_MASK;
        if weighted {
            let root = roots[column] & ABS_MASK;
            // A weight of 0 excludes a value, also if it is not finite.
            if root != 0 {
                if exponent_field(abs_bits) == 255 || exponent_field(root) == 255 {
                    bad = 1u32;
                } else if abs_bits != 0 {
                    let e = exponent(abs_bits) + exponent(root);
                    if e > 128 {
                        bad = 1u32;
                    } else {
                        add_square_scaled(&mut sums, mantissa(abs_bits) * mantissa(root), e);
                    }
                }
            }
        } else if exponent_field(abs_bits) == 255 {
            bad = 1u32;
        } else if exponent_field(abs_bits) >= comptime!((SMALL_BELOW + 127) as u32)
            && exponent_field(abs_bits) < comptime!((LARGE_FROM + 127) as u32)
        {
            add_square(&mut sums, 0usize, f32::reinterpret(abs_bits));
        } else if abs_bits != 0 {
            add_square_scaled(&mut sums, mantissa(abs_bits), exponent(abs_bits));
        }
        column += group;
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!(PARTIALS * CUBE_UNITS));
    #[unroll]
    for part in 0..3usize {
        shared[part * CUBE_UNITS + unit] = sums[part] - sums[part + 3];
    }
    shared[3 * CUBE_UNITS + unit] = f32::cast_from(bad);
    reduce_group(&mut shared, group);
    if in_range && unit % group == 0 {
        #[unroll]
        for part in 0..PARTIALS {
            out[split * PARTIALS + part] = shared[part * CUBE_UNITS + unit];
        }
    }
}

/// Combines the splits of one row in each group of units: its norm, or with `flag` 1 if it is
/// finite.
#[cube(launch, address_type = "dynamic")]
fn combine_splits(
    partials: &[f32],
    out: &mut [u32],
    splits: usize,
    #[comptime] group: usize,
    #[comptime] flag: bool,
) {
    let unit = UNIT_POS as usize;
    let row = CUBE_POS * comptime!(CUBE_UNITS / group) + unit / group;
    let in_range = row < out.len();
    let mut shared = Shared::<[f32]>::new_slice(comptime!(PARTIALS * CUBE_UNITS));
    let mut sums = Array::<f32>::new(PARTIALS);
    let mut split = select(in_range, unit % group, splits);
    while split < splits {
        #[unroll]
        for part in 0..PARTIALS {
            sums[part] += partials[(row * splits + split) * PARTIALS + part];
        }
        split += group;
    }
    #[unroll]
    for part in 0..PARTIALS {
        shared[part * CUBE_UNITS + unit] = sums[part];
    }
    reduce_group(&mut shared, group);
    if in_range && unit % group == 0 {
        let bad = shared[3 * CUBE_UNITS + unit] > 0.0;
        if flag {
            out[row] = select(bad, 0u32, u32::reinterpret(1.0f32));
        } else {
            let norm = combined_norm(
                shared[unit],
                shared[CUBE_UNITS + unit],
                shared[2 * CUBE_UNITS + unit],
            );
            out[row] = select(bad, INFINITY_BITS, norm);
        }
    }
}

/// See [`row_norms`](super::super::row_norms).
pub(super) fn row_norms(rows: CubeTensor, roots: Option<CubeTensor>) -> CubeTensor {
    reduce_rows(rows, roots, false)
}

/// See [`finite_rows`](super::super::finite_rows).
pub(super) fn finite_rows(rows: CubeTensor) -> CubeTensor {
    reduce_rows(rows, None, true)
}

/// Computes the norm of each row, or with `flag` whether it is finite.
fn reduce_rows(rows: CubeTensor, roots: Option<CubeTensor>, flag: bool) -> CubeTensor {
    /// The number of splits that keeps a GPU busy.
    const TARGET_SPLITS: usize = 1024;
    /// The minimal number of values per split of a long row.
    const MIN_VALUES: usize = 4096;
    let [n, columns] = matrix_dims(&rows);
    // About four values per unit, and at most as many units as a cube has.
    let group = |values: usize| (values / 4).next_power_of_two().min(CUBE_UNITS);
    let span = columns.div_ceil((TARGET_SPLITS / n).clamp(1, columns.div_ceil(MIN_VALUES)));
    let splits = columns.div_ceil(span);
    let partials = alloc(&rows, [n, splits, PARTIALS], DType::F32);
    let out = alloc(&rows, [n], DType::F32);
    let (weighted, addresses) = (roots.is_some(), index_type(&rows));
    let roots = roots.unwrap_or_else(|| rows.clone());
    measure_splits::launch(
        &out.client,
        grid((n * splits).div_ceil(CUBE_UNITS / group(span))),
        cube_shape(),
        addresses,
        rows.into_buffer_arg(),
        roots.into_buffer_arg(),
        partials.clone().into_buffer_arg(),
        columns,
        splits,
        span,
        group(span),
        weighted,
    );
    combine_splits::launch(
        &out.client,
        grid(n.div_ceil(CUBE_UNITS / group(splits))),
        cube_shape(),
        addresses,
        partials.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        splits,
        group(splits),
        flag,
    );
    out
}
