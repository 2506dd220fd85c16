//! f64 matrix products on slices, with the `gemm` crate.

use gemm::Parallelism;
use rayon::prelude::*;

/// A view of a row-major matrix or of its transpose.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    data: &'a [f64],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix of `data.len() / columns` rows.
    pub(super) fn new(data: &'a [f64], columns: usize) -> Self {
        let rows = data.len() / columns;
        assert_eq!(data.len(), rows * columns, "the slice has rows x columns values");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// `rows` rows from row `start` on.
    fn rows_from(self, start: usize, rows: usize) -> Self {
        assert!(start + rows <= self.rows, "a part has no further rows");
        Self { data: &self.data[start * self.row_stride..], rows, ..self }
    }

    /// The transpose, as a view of the same data.
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

/// Writes the matrix product `a b` to `out`, row-major, on all cores.
///
/// Threads split `out`, never a sum, so the result is the same for any number of threads.
pub(super) fn product(out: &mut [f64], a: Matrix, b: Matrix) {
    assert_eq!(a.columns, b.rows, "inner dimensions of a matrix product agree");
    assert_eq!(out.len(), a.rows * b.columns, "the output has rows x columns values");
    // `gemm` computes products with vectors and of few terms on one thread. These are the deepest
    // layers, where an image has few pixels and the weights are largest.
    let few_terms = a.columns <= 2;
    if out.is_empty() || !(few_terms || b.columns == 1) {
        return product_at_once(out, a, b, Parallelism::Rayon(0));
    }
    let rows = (BLOCK / if few_terms { b.columns } else { a.columns }).max(1);
    out.par_chunks_mut(rows * b.columns).enumerate().for_each(|(block, out)| {
        let a = a.rows_from(block * rows, out.len() / b.columns);
        product_at_once(out, a, b, Parallelism::None);
    });
}

/// The multiplications that one thread does at once where `gemm` uses a single thread.
const BLOCK: usize = 1 << 16;

fn product_at_once(out: &mut [f64], a: Matrix, b: Matrix, parallelism: Parallelism) {
    // SAFETY: `Matrix::new` and the assertions of the caller ensure that all indices of the three
    // strided accesses are in bounds; `out` is borrowed mutably, so it overlaps neither `a` nor
    // `b`.
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
            parallelism,
        );
    }
}
