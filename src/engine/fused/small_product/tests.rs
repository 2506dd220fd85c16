use pulp::{Arch, Scalar256b, WithSimd};

use super::*;
use crate::engine::fused::tests::random;

/// Products of every number of rows from 0 to 45, with one and two vectors of columns.
struct EveryNumberOfRows;

impl WithSimd for EveryNumberOfRows {
    type Output = ();

    fn with_simd<S: Simd>(self, simd: S) {
        for rows in 0..=45 {
            for width in [S::F32_LANES, 2 * S::F32_LANES] {
                for store in [WriteMode::Overwrite, WriteMode::Accumulate] {
                    assert_is_the_sum_over_terms(simd, rows, width, store);
                }
            }
        }
    }
}

fn assert_is_the_sum_over_terms<S: Simd>(simd: S, rows: usize, width: usize, store: WriteMode) {
    let (runs, terms) = (2, 3);
    let (row, apart, step) = (2, 2 * rows + 9, 4);
    let (left, right) = (random(2 * apart + 16, 1), random(runs * terms * (width + 1) + width, 2));
    let before = random((rows + 1) * (width + 3), 3);
    let mut found = before.clone();
    let size = ProductShape { rows, runs, terms, width };
    let a = LhsView { values: &left, row_stride: row, run_stride: apart, term_stride: step };
    let b = RhsView { values: &right, term_stride: width + 1 };
    multiply(simd, size, a, b, (&mut found, width + 3, store));
    for (at, (found, before)) in found.into_iter().zip(before).enumerate() {
        let (r, column) = (at / (width + 3), at % (width + 3));
        let position = format!("row {r} of {rows}, column {column} of {width}");
        if r >= rows || column >= width {
            assert_eq!(found, before, "written outside of the product: {position}");
            continue;
        }
        let kept = if matches!(store, WriteMode::Accumulate) { f64::from(before) } else { 0.0 };
        let terms = (0..runs * terms).map(|k| {
            let a = left[r * row + k / terms * apart + k % terms * step];
            f64::from(a) * f64::from(right[k * (width + 1) + column])
        });
        let wanted = terms.sum::<f64>() + kept;
        assert!((f64::from(found) - wanted).abs() < 1e-5, "{found} for {wanted}: {position}");
    }
}

#[test]
fn every_number_of_rows_with_the_vectors_of_this_processor() {
    Arch::new().dispatch(EveryNumberOfRows);
}

/// The smaller blocks, which the processor above has no use for if it has 32 vector registers.
#[test]
fn every_number_of_rows_with_few_registers() {
    EveryNumberOfRows.with_simd(Scalar256b);
}
