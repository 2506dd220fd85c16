//! Rows times their factors, and the sum of such rows.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{SIZE, UNITS, addresses, alloc, grid, matrix, units};

/// Rows that one unit adds. The sum is a tree with so many branches, whatever the columns: its
/// order depends on the number of rows alone.
const BRANCHES: usize = 64;

/// Chosen by bits: a compiler that knows no infinity could multiply with 0 instead.
#[cube(launch, address_type = "dynamic")]
fn scale(rows: &[f32], factors: &[f32], out: &mut [u32], columns: usize) {
    if ABSOLUTE_POS < out.len() {
        let factor = factors[ABSOLUTE_POS / columns];
        let product = u32::reinterpret(rows[ABSOLUTE_POS] * factor);
        out[ABSOLUTE_POS] = select(u32::reinterpret(factor) & SIZE == 0, 0u32, product);
    }
}

/// Each unit adds one column of up to [`BRANCHES`] rows and keeps what its additions round away
/// (Kahan 1965) to the end.
#[cube(launch, address_type = "dynamic")]
fn gather(
    rows: &[f32],
    factors: &[f32],
    out: &mut [f32],
    n: usize,
    columns: usize,
    #[comptime] weighted: bool,
) {
    if ABSOLUTE_POS < out.len() {
        let column = ABSOLUTE_POS % columns;
        let start = (ABSOLUTE_POS / columns) * BRANCHES;
        let end = select(start + BRANCHES < n, start + BRANCHES, n);
        let mut sum = 0.0f32;
        let mut lost = 0.0f32;
        for row in start..end {
            let factor = if weighted { factors[row] } else { 1.0f32.runtime() };
            if u32::reinterpret(factor) & SIZE != 0 {
                let term = factor * rows[row * columns + column] - lost;
                let next = sum + term;
                lost = (next - sum) - term;
                sum = next;
            }
        }
        out[ABSOLUTE_POS] = sum - lost;
    }
}

/// Each row times its factor; exactly zero where the factor is.
pub(super) fn scaled(rows: CubeTensor, factors: CubeTensor) -> CubeTensor {
    let [n, columns] = matrix(&rows);
    let out = alloc(&rows, [n, columns], DType::F32);
    scale::launch(
        &out.client,
        grid((n * columns).div_ceil(UNITS)),
        units(),
        addresses(&rows),
        rows.into_buffer_arg(),
        factors.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        columns,
    );
    out
}

/// Σ factor · row.
pub(super) fn accumulated(rows: CubeTensor, factors: CubeTensor) -> CubeTensor {
    sum(gathered(rows, Some(factors)))
}

/// Σ row, flat.
pub(super) fn sum(mut rows: CubeTensor) -> CubeTensor {
    while matrix(&rows)[0] > 1 {
        rows = gathered(rows, None);
    }
    let [_, columns] = matrix(&rows);
    let (client, device) = (rows.client, rows.device);
    CubeTensor::new_contiguous(client, device, [columns].into(), rows.handle, DType::F32)
}

/// One sum for each branch.
fn gathered(rows: CubeTensor, factors: Option<CubeTensor>) -> CubeTensor {
    let [n, columns] = matrix(&rows);
    let sums = n.div_ceil(BRANCHES);
    let out = alloc(&rows, [sums, columns], DType::F32);
    let weighted = factors.is_some();
    let factors = factors.unwrap_or_else(|| rows.clone());
    gather::launch(
        &out.client,
        grid((sums * columns).div_ceil(UNITS)),
        units(),
        addresses(&rows),
        rows.into_buffer_arg(),
        factors.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        n,
        columns,
        weighted,
    );
    out
}
