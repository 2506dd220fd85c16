//! Products of matrices in f32.
//!
//! The backend's own products may round their factors to 10 bits (tf32) where a GPU has matrix
//! units for that. Here it would matter: an example's norm is taken of the factors as they are.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{SIZE, UNITS, addresses, alloc, grid, matrix, sums, units};

/// Rows and columns of the square that a cube makes; each unit makes a square of [`EACH`].
const SQUARE: usize = 64;
const EACH: usize = 4;
/// Units along a square's side.
const SIDE: usize = SQUARE / EACH;
/// Terms of the sum that lie in shared memory at a time.
const DEPTH: usize = 16;
/// The fewest terms that are worth a cube of their own, and how many cubes keep a GPU busy.
const FEWEST: usize = 256;
const ENOUGH: usize = 512;

/// out(r, c) = Σ a(r, k) b(k, c) over the terms of this cube's piece. Where the sum goes over the
/// rows of both, a(r, k) is element (k, r), times the factor of row k: a row of factor 0 adds exactly nothing.
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
    let across = (columns + comptime!(SQUARE - 1)) / SQUARE;
    let squares = across * ((rows + comptime!(SQUARE - 1)) / SQUARE);
    let piece = CUBE_POS / squares;
    let top = (CUBE_POS % squares) / across * SQUARE;
    let left = (CUBE_POS % squares) % across * SQUARE;
    // Cubes that the grid has too many of.
    let here = piece * rows * columns < out.len();
    let start = piece * span;
    let end = select(start + span < terms, start + span, terms);
    let mut of_a = Shared::<[f32]>::new_slice(comptime!(DEPTH * SQUARE));
    let mut of_b = Shared::<[f32]>::new_slice(comptime!(DEPTH * SQUARE));
    let mut sums = Array::<f32>::new(comptime!(EACH * EACH));
    let mut done = start;
    while done < end {
        #[unroll]
        for load in 0..comptime!(DEPTH * SQUARE / UNITS) {
            let at = comptime!(load * UNITS) + unit;
            let k = done + at / SQUARE;
            let row = top + at % SQUARE;
            let column = left + at % SQUARE;
            let mut left_factor = 0.0f32;
            let mut right_factor = 0.0f32;
            if k < end {
                if over_rows {
                    let factor = factors[k];
                    if u32::reinterpret(factor) & SIZE != 0 {
                        if row < rows {
                            left_factor = a[k * rows + row] * factor;
                        }
                        if column < columns {
                            right_factor = b[k * columns + column];
                        }
                    }
                } else {
                    if row < rows {
                        left_factor = a[row * terms + k];
                    }
                    if column < columns {
                        right_factor = b[k * columns + column];
                    }
                }
            }
            of_a[at] = left_factor;
            of_b[at] = right_factor;
        }
        sync_cube();
        for k in 0..DEPTH {
            #[unroll]
            for i in 0..EACH {
                let x = of_a[k * SQUARE + (unit / SIDE) + comptime!(i * SIDE)];
                #[unroll]
                for j in 0..EACH {
                    let y = of_b[k * SQUARE + (unit % SIDE) + comptime!(j * SIDE)];
                    sums[comptime!(i * EACH + j)] += x * y;
                }
            }
        }
        sync_cube();
        done += DEPTH;
    }
    #[unroll]
    for i in 0..EACH {
        let row = top + unit / SIDE + comptime!(i * SIDE);
        #[unroll]
        for j in 0..EACH {
            let column = left + unit % SIDE + comptime!(j * SIDE);
            if here && row < rows && column < columns {
                out[(piece * rows + row) * columns + column] = sums[comptime!(i * EACH + j)];
            }
        }
    }
}

/// a b.
pub(super) fn product(a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let ([rows, terms], [_, columns]) = (matrix(&a), matrix(&b));
    launch(a, b, None, [rows, terms, columns])
}

/// Σ factor · (row of a)ᵀ (row of b).
pub(super) fn outer_sum(a: CubeTensor, b: CubeTensor, factors: CubeTensor) -> CubeTensor {
    let ([terms, rows], [_, columns]) = (matrix(&a), matrix(&b));
    launch(a, b, Some(factors), [rows, terms, columns])
}

/// Long sums are cut into pieces, by the shapes alone, so that there are cubes for the whole GPU.
fn launch(
    a: CubeTensor,
    b: CubeTensor,
    factors: Option<CubeTensor>,
    [rows, terms, columns]: [usize; 3],
) -> CubeTensor {
    let squares = rows.div_ceil(SQUARE) * columns.div_ceil(SQUARE);
    let pieces = (ENOUGH / squares).clamp(1, terms.div_ceil(FEWEST).max(1));
    let span = terms.div_ceil(pieces).next_multiple_of(DEPTH).max(DEPTH);
    let pieces = terms.div_ceil(span).max(1);
    let out = alloc(&a, [pieces, rows * columns], DType::F32);
    let over_rows = factors.is_some();
    let wide = if pieces * rows * columns > a.meta.num_elements() { &out } else { &a };
    let wide = if b.meta.num_elements() > wide.meta.num_elements() { &b } else { wide };
    let (addresses, factors) = (addresses(wide), factors.unwrap_or_else(|| a.clone()));
    multiply::launch(
        &out.client,
        grid(squares * pieces),
        units(),
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
    sums::sum(out)
}
