//! Products of matrices that lie in the caches: a few rows times one or two vectors of columns at a
//! time, with all sums in registers.

use std::hint::black_box;

use pulp::Simd;

use crate::nn::kernels::product::WriteMode;

/// Left matrix of a product. Its terms come in runs: row `r`, term `k` of run `q` is at
/// `r * row_stride + q * run_stride + k * term_stride`.
#[derive(Clone, Copy)]
pub(super) struct LhsView<'a> {
    pub(super) values: &'a [f32],
    pub(super) row_stride: usize,
    pub(super) run_stride: usize,
    pub(super) term_stride: usize,
}

/// Right matrix of a product: the columns of a term, counted over all runs, begin `term_stride`
/// after those of the term before.
#[derive(Clone, Copy)]
pub(super) struct RhsView<'a> {
    pub(super) values: &'a [f32],
    pub(super) term_stride: usize,
}

/// Shape of a product: numbers of rows, of runs, of terms of a run, and of columns, which are one
/// or two vectors.
#[derive(Clone, Copy)]
pub(super) struct ProductShape {
    pub(super) rows: usize,
    pub(super) runs: usize,
    pub(super) terms: usize,
    pub(super) width: usize,
}

/// Rows whose sums, of two vectors each, fit into the registers.
const MAX_ROWS: usize = 14;
const MAX_ROWS_FEW_REGISTERS: usize = 6;

/// Computes the product into rows of `out` that begin every `step` values.
///
/// Each sum is taken over the terms in order, so a row does not depend on the others.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    size: ProductShape,
    a: LhsView<'_>,
    b: RhsView<'_>,
    (out, step, store): (&mut [f32], usize, WriteMode),
) {
    if size.width == S::F32_LANES {
        all_rows::<S, 1>(simd, size, a, b, (out, step, store))
    } else {
        all_rows::<S, 2>(simd, size, a, b, (out, step, store))
    }
}

#[inline(always)]
fn all_rows<S: Simd, const VECTORS: usize>(
    simd: S,
    ProductShape { rows, runs, terms, .. }: ProductShape,
    a: LhsView<'_>,
    b: RhsView<'_>,
    (out, step, store): (&mut [f32], usize, WriteMode),
) {
    let many_registers = S::REGISTER_COUNT >= 32;
    let most = if many_registers { MAX_ROWS } else { MAX_ROWS_FEW_REGISTERS };
    let mut row = 0;
    // Blocks of nearly equal numbers of rows: with few rows each addition waits for the one before.
    for blocks in (1..=rows.div_ceil(most)).rev() {
        let count = (rows - row).div_ceil(blocks);
        // A number of values that the compiler does not know to be the same for all blocks.
        // Otherwise it computes the addresses of the rows of every kind of block ahead of this
        // loop, and most products have only a few blocks of one kind.
        let a = LhsView {
            values: &a.values[row * a.row_stride..],
            row_stride: black_box(a.row_stride),
            ..a
        };
        let out = (&mut out[row * step..], step, store);
        macro_rules! block {
            ($($count:literal $block:ident)*) => {
                match count {
                    $($count => $block::<S, VECTORS>(simd, [runs, terms], a, b, out),)*
                    _ => unreachable!("a block has between one row and {most}"),
                }
            };
        }
        if many_registers {
            block!(1 rows_1 2 rows_2 3 rows_3 4 rows_4 5 rows_5 6 rows_6 7 rows_7 8 rows_8 9 rows_9
                10 rows_10 11 rows_11 12 rows_12 13 rows_13 14 rows_14);
        } else {
            block!(1 rows_1 2 rows_2 3 rows_3 4 rows_4 5 rows_5 6 rows_6);
        }
        row += count;
    }
}

/// Defines a product of a constant number of rows. The rows are written out: as a loop the compiler
/// may keep it, and the sums in memory.
macro_rules! rows {
    ($name:ident, $count:literal: $($row:literal)*) => {
        #[inline(always)]
        fn $name<S: Simd, const VECTORS: usize>(
            simd: S,
            [runs, terms]: [usize; 2],
            a: LhsView<'_>,
            b: RhsView<'_>,
            (out, step, store): (&mut [f32], usize, WriteMode),
        ) {
            let width = VECTORS * S::F32_LANES;
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; $count];
            if let (Some(last_run), Some(last)) = (runs.checked_sub(1), terms.checked_sub(1)) {
                let last_value = ($count - 1) * a.row_stride + last_run * a.run_stride + last * a.term_stride;
                assert!(last_value < a.values.len());
                assert!((last_run * terms + last) * b.term_stride + width <= b.values.len());
            }
            for run in 0..runs {
                for term in 0..terms {
                    let start = (run * terms + term) * b.term_stride;
                    // SAFETY: run and term are at most the last ones, so by the second assertion
                    // these columns lie in the slice.
                    let b = unsafe { b.values.get_unchecked(start..start + width) };
                    let b = S::as_simd_f32s(b).0;
                    $(
                        let at = $row * a.row_stride + run * a.run_stride + term * a.term_stride;
                        // SAFETY: this row is less than the count, so by the first assertion the
                        // value lies in the slice.
                        let value = unsafe { *a.values.get_unchecked(at) };
                        let value = simd.splat_f32s(value);
                        for (sum, b) in sums[$row].iter_mut().zip(b) {
                            *sum = simd.mul_add_f32s(value, *b, *sum);
                        }
                    )*
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                let out = S::as_mut_simd_f32s(&mut out[row * step..][..width]).0;
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = match store {
                        WriteMode::Overwrite => sum,
                        WriteMode::Accumulate => simd.add_f32s(*out, sum),
                    };
                }
            }
        }
    };
}

rows!(rows_1, 1: 0);
rows!(rows_2, 2: 0 1);
rows!(rows_3, 3: 0 1 2);
rows!(rows_4, 4: 0 1 2 3);
rows!(rows_5, 5: 0 1 2 3 4);
rows!(rows_6, 6: 0 1 2 3 4 5);
rows!(rows_7, 7: 0 1 2 3 4 5 6);
rows!(rows_8, 8: 0 1 2 3 4 5 6 7);
rows!(rows_9, 9: 0 1 2 3 4 5 6 7 8);
rows!(rows_10, 10: 0 1 2 3 4 5 6 7 8 9);
rows!(rows_11, 11: 0 1 2 3 4 5 6 7 8 9 10);
rows!(rows_12, 12: 0 1 2 3 4 5 6 7 8 9 10 11);
rows!(rows_13, 13: 0 1 2 3 4 5 6 7 8 9 10 11 12);
rows!(rows_14, 14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

#[cfg(test)]
mod tests;
