//! Products of f64 matrices on plain slices, by the `gemm` crate.

use gemm::Parallelism;

/// A row-major matrix, or the transpose of one.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    data: &'a [f64],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `data.len() / columns` rows, one after the other.
    pub(super) fn new(data: &'a [f64], columns: usize) -> Self {
        let rows = data.len() / columns;
        assert_eq!(data.len(), rows * columns, "a matrix covers its slice exactly");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The transpose; no number moves.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// `out = a b`, row-major, on all cores. Threads share out parts of `out`, never of a sum, so
/// their number doesn't change a bit.
pub(super) fn product(out: &mut [f64], a: Matrix, b: Matrix) {
    assert_eq!(a.columns, b.rows, "inner dimensions of a product");
    assert_eq!(out.len(), a.rows * b.columns, "a product covers its slice exactly");
    // SAFETY: `Matrix::new` and the assertions above make every index that the three strided
    // walks can reach lie inside its slice; `out` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            b.columns as isize,
            false,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::Rayon(0),
        );
    }
}
