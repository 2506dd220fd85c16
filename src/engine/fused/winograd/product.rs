//! Products of matrices that lie in the caches: a few rows times one or two vectors of columns at a
//! time, with all sums in registers.

use pulp::Simd;

/// The left matrix: row `r`, term `k` is at `r * row + k * step`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) values: &'a [f32],
    pub(super) row: usize,
    pub(super) step: usize,
}

/// The right matrix: the columns of term `k` begin at `k * step`.
#[derive(Clone, Copy)]
pub(super) struct Right<'a> {
    pub(super) values: &'a [f32],
    pub(super) step: usize,
}

/// Row-major product of `rows x terms` by `terms x width`, where the width is one or two vectors.
///
/// Each sum is taken over the terms in order, so a row does not depend on the others.
#[inline(always)]
pub(super) fn product<S: Simd>(
    simd: S,
    (rows, terms, width): (usize, usize, usize),
    a: Left<'_>,
    b: Right<'_>,
    out: &mut [f32],
) {
    match width == S::F32_LANES {
        true => all_rows::<S, 1>(simd, rows, terms, a, b, out),
        false => all_rows::<S, 2>(simd, rows, terms, a, b, out),
    }
}

#[inline(always)]
fn all_rows<S: Simd, const VECTORS: usize>(
    simd: S,
    rows: usize,
    terms: usize,
    a: Left<'_>,
    b: Right<'_>,
    out: &mut [f32],
) {
    let width = VECTORS * S::F32_LANES;
    let mut row = 0;
    macro_rules! blocks_of {
        ($count:literal, $block:ident) => {
            while rows - row >= $count {
                let a = Left { values: &a.values[row * a.row..], ..a };
                $block::<S, VECTORS>(simd, terms, a, b, &mut out[row * width..]);
                row += $count;
            }
        };
    }
    // As many rows as their sums fit into the registers.
    if S::REGISTER_COUNT >= 32 {
        blocks_of!(12, rows_12);
        blocks_of!(8, rows_8);
    } else {
        blocks_of!(6, rows_6);
    }
    blocks_of!(4, rows_4);
    blocks_of!(1, rows_1);
}

/// Defines a product of a constant number of rows. The rows are written out: as a loop the compiler
/// may keep it, and the sums in memory.
macro_rules! rows {
    ($name:ident, $count:literal: $($row:literal)*) => {
        #[inline(always)]
        fn $name<S: Simd, const VECTORS: usize>(
            simd: S,
            terms: usize,
            a: Left<'_>,
            b: Right<'_>,
            out: &mut [f32],
        ) {
            let width = VECTORS * S::F32_LANES;
            let Some(last) = terms.checked_sub(1) else { return out[..$count * width].fill(0.0) };
            assert!(($count - 1) * a.row + last * a.step < a.values.len());
            assert!(last * b.step + width <= b.values.len());
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; $count];
            for term in 0..terms {
                // SAFETY: `term` is at most `last`, so by the second assertion these columns lie in
                // the slice.
                let b = unsafe { b.values.get_unchecked(term * b.step..term * b.step + width) };
                let b = S::as_simd_f32s(b).0;
                $(
                    // SAFETY: this row is less than the count, so by the first assertion the value
                    // lies in the slice.
                    let value = unsafe { *a.values.get_unchecked($row * a.row + term * a.step) };
                    let value = simd.splat_f32s(value);
                    for (sum, b) in sums[$row].iter_mut().zip(b) {
                        *sum = simd.mul_add_f32s(value, *b, *sum);
                    }
                )*
            }
            for (out, sums) in out.chunks_exact_mut(width).zip(sums) {
                S::as_mut_simd_f32s(out).0.copy_from_slice(&sums);
            }
        }
    };
}

rows!(rows_12, 12: 0 1 2 3 4 5 6 7 8 9 10 11);
rows!(rows_8, 8: 0 1 2 3 4 5 6 7);
rows!(rows_6, 6: 0 1 2 3 4 5);
rows!(rows_4, 4: 0 1 2 3);
rows!(rows_1, 1: 0);
