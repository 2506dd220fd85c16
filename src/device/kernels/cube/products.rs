//! Matrix products in f32.
//!
//! The products of the backend may round their inputs to 10 bits (TF32) on GPUs with tensor cores.
//! Here that would be wrong: the norm of an example is computed from the unrounded inputs.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{ABS_MASK, CUBE_UNITS, alloc, cube_shape, grid, index_type, matrix_dims, row_sums};

/// Number of rows and of columns of the output tile of a cube.
const TILE: usize = 64;
/// Number of rows and of columns of the outputs of a unit.
const UNIT_TILE: usize = 4;
/// Number of units along each side of a tile.
const TILE_UNITS: usize = TILE / UNIT_TILE;
/// Number of terms of the sum in shared memory at a time.
const TILE_DEPTH: usize = 16;
/// The minimal number of terms per cube.
const MIN_TERMS: usize = 256;
/// The number of cubes that keeps a GPU busy.
const TARGET_CUBES: usize = 512;

/// Computes out(r, c) = Σ a(r, k) b(k, c) over the terms k of this cube's split.
///
/// With `over_rows`, the sum is over the rows of both matrices: a(r, k) is element (k, r) of `a`
/// times the factor of row k, and a row of factor 0 contributes exactly 0.
#[cube(launch, address_type = "dynamic")]
fn multiply(
    a: &[f32],
    b: &[f32],
    factors: &[f32],
    out: &mut [f32],
    rows: usize,
    terms: usize,
    columns: usize,
    span: usize,
    #[comptime] over_rows: bool,
) {
    let unit = UNIT_POS as usize;
    let tiles_across = (columns + comptime!(TILE - 1)) / TILE;
    let tiles = tiles_across * ((rows + comptime!(TILE - 1)) / TILE);
    let split = CUBE_POS / tiles;
    let top = (CUBE_POS % tiles) / tiles_across * TILE;
    let left = (CUBE_POS % tiles) % tiles_across * TILE;
    // The grid may have more cubes than needed.
    let in_range = split * rows * columns < out.len();
    let start = split * span;
    let end = select(start + span < terms, start + span, terms);
    let mut tile_a = Shared::<[f32]>::new_slice(comptime!(TILE_DEPTH * TILE));
    let mut tile_b = Shared::<[f32]>::new_slice(comptime!(TILE_DEPTH * TILE));
    let mut sums = Array::<f32>::new(comptime!(UNIT_TILE * UNIT_TILE));
    let mut done = start;
    while done < end {
        #[unroll]
        for load in 0..comptime!(TILE_DEPTH * TILE / CUBE_UNITS) {
            let at = comptime!(load * CUBE_UNITS) + unit;
            let k = done + at / TILE;
            let row = top + at % TILE;
            let column = left + at % TILE;
            let mut value_a = 0.0f32;
            let mut value_b = 0.0f32;
            if k < end {
                if over_rows {
                    let factor = factors[k];
                    if u32::reinterpret(factor) & ABS_MASK != 0 {
                        if row < rows {
                            value_a = a[k * rows + row] * factor;
                        }
                        if column < columns {
                            value_b = b[k * columns + column];
                        }
                    }
                } else {
                    if row < rows {
                        value_a = a[row * terms + k];
                    }
                    if column < columns {
                        value_b = b[k * columns + column];
                    }
                }
            }
            tile_a[at] = value_a;
            tile_b[at] = value_b;
        }
        sync_cube();
        for k in 0..TILE_DEPTH {
            #[unroll]
            for i in 0..UNIT_TILE {
                let x = tile_a[k * TILE + (unit / TILE_UNITS) + comptime!(i * TILE_UNITS)];
                #[unroll]
                for j in 0..UNIT_TILE {
                    let y = tile_b[k * TILE + (unit % TILE_UNITS) + comptime!(j * TILE_UNITS)];
                    sums[comptime!(i * UNIT_TILE + j)] += x * y;
                }
            }
        }
        sync_cube();
        done += TILE_DEPTH;
    }
    #[unroll]
    for i in 0..UNIT_TILE {
        let row = top + unit / TILE_UNITS + comptime!(i * TILE_UNITS);
        #[unroll]
        for j in 0..UNIT_TILE {
            let column = left + unit % TILE_UNITS + comptime!(j * TILE_UNITS);
            if in_range && row < rows && column < columns {
                out[(split * rows + row) * columns + column] = sums[comptime!(i * UNIT_TILE + j)];
            }
        }
    }
}

/// See [`matmul`](super::super::matmul).
pub(super) fn matmul(a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let ([rows, terms], [_, columns]) = (matrix_dims(&a), matrix_dims(&b));
    launch(a, b, None, [rows, terms, columns])
}

/// See [`weighted_outer_sum`](super::super::weighted_outer_sum).
pub(super) fn weighted_outer_sum(a: CubeTensor, b: CubeTensor, factors: CubeTensor) -> CubeTensor {
    let ([terms, rows], [_, columns]) = (matrix_dims(&a), matrix_dims(&b));
    launch(a, b, Some(factors), [rows, terms, columns])
}

/// Launches the product. Long sums are split, depending on the shapes only, to occupy the whole
/// GPU.
fn launch(
    a: CubeTensor,
    b: CubeTensor,
    factors: Option<CubeTensor>,
    [rows, terms, columns]: [usize; 3],
) -> CubeTensor {
    let tiles = rows.div_ceil(TILE) * columns.div_ceil(TILE);
    let splits = (TARGET_CUBES / tiles).clamp(1, terms.div_ceil(MIN_TERMS).max(1));
    let span = terms.div_ceil(splits).next_multiple_of(TILE_DEPTH).max(TILE_DEPTH);
    let splits = terms.div_ceil(span).max(1);
    let out = alloc(&a, [splits, rows * columns], DType::F32);
    let over_rows = factors.is_some();
    let largest = if splits * rows * columns > a.meta.num_elements() { &out } else { &a };
    let largest = if b.meta.num_elements() > largest.meta.num_elements() { &b } else { largest };
    let addresses = index_type(largest);
    let factors = factors.unwrap_or_else(|| a.clone());
    multiply::launch(
        &out.client,
        grid(tiles * splits),
        cube_shape(),
        addresses,
        a.clone().into_buffer_arg(),
        b.into_buffer_arg(),
        factors.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows,
        terms,
        columns,
        span,
        over_rows,
    );
    row_sums::row_sum(out)
}
