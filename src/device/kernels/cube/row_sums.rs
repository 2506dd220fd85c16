//! Scaled rows and weighted sums of rows.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{ABS_MASK, CUBE_UNITS, alloc, cube_shape, grid, index_type, matrix_dims};

/// Rows that one unit adds: the fan-in of the summation tree. The order of summation depends on the
/// number of rows only.
const FAN_IN: usize = 64;

/// Scales one value in each unit.
///
/// The result is selected by bits: a compiler that ignores infinities could multiply by 0 instead.
#[cube(launch, address_type = "dynamic")]
fn scale(rows: &[f32], factors: &[f32], out: &mut [u32], columns: usize) {
    if ABSOLUTE_POS < out.len() {
        let factor = factors[ABSOLUTE_POS / columns];
        let product = u32::reinterpret(rows[ABSOLUTE_POS] * factor);
        out[ABSOLUTE_POS] = select(u32::reinterpret(factor) & ABS_MASK == 0, 0u32, product);
    }
}

/// Adds one column of up to [`FAN_IN`] rows in each unit, with compensated summation (Kahan,
/// 1965).
#[cube(launch, address_type = "dynamic")]
fn add_rows(
    rows: &[f32],
    factors: &[f32],
    out: &mut [f32],
    n: usize,
    columns: usize,
    #[comptime] weighted: bool,
) {
    if ABSOLUTE_POS < out.len() {
        let column = ABSOLUTE_POS % columns;
        let start = (ABSOLUTE_POS / columns) * FAN_IN;
        let end = select(start + FAN_IN < n, start + FAN_IN, n);
        let mut sum = 0.0f32;
        let mut compensation = 0.0f32;
        for row in start..end {
            let factor = if weighted { factors[row] } else { 1.0f32.runtime() };
            if u32::reinterpret(factor) & ABS_MASK != 0 {
                let term = factor * rows[row * columns + column] - compensation;
                let next = sum + term;
                compensation = (next - sum) - term;
                sum = next;
            }
        }
        out[ABSOLUTE_POS] = sum - compensation;
    }
}

/// See [`scale_rows`](super::super::scale_rows).
pub(super) fn scale_rows(rows: CubeTensor, factors: CubeTensor) -> CubeTensor {
    let [n, columns] = matrix_dims(&rows);
    let out = alloc(&rows, [n, columns], DType::F32);
    scale::launch(
        &out.client,
        grid((n * columns).div_ceil(CUBE_UNITS)),
        cube_shape(),
        index_type(&rows),
        rows.into_buffer_arg(),
        factors.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        columns,
    );
    out
}

/// See [`weighted_row_sum`](super::super::weighted_row_sum).
pub(super) fn weighted_row_sum(rows: CubeTensor, factors: CubeTensor) -> CubeTensor {
    row_sum(tree_level(rows, Some(factors)))
}

/// Computes the sum of all rows, flat.
pub(super) fn row_sum(mut rows: CubeTensor) -> CubeTensor {
    while matrix_dims(&rows)[0] > 1 {
        rows = tree_level(rows, None);
    }
    let [_, columns] = matrix_dims(&rows);
    let (client, device) = (rows.client, rows.device);
    CubeTensor::new_contiguous(client, device, [columns].into(), rows.handle, DType::F32)
}

/// Computes one level of the summation tree: the sums of [`FAN_IN`] rows each.
fn tree_level(rows: CubeTensor, factors: Option<CubeTensor>) -> CubeTensor {
    let [n, columns] = matrix_dims(&rows);
    let sums = n.div_ceil(FAN_IN);
    let out = alloc(&rows, [sums, columns], DType::F32);
    let weighted = factors.is_some();
    let factors = factors.unwrap_or_else(|| rows.clone());
    add_rows::launch(
        &out.client,
        grid((sums * columns).div_ceil(CUBE_UNITS)),
        cube_shape(),
        index_type(&rows),
        rows.into_buffer_arg(),
        factors.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        n,
        columns,
        weighted,
    );
    out
}
