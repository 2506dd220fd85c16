//! Matrix products and vector operations on slices; products use the `gemm` crate.

use std::ops::AddAssign;

use gemm::Parallelism;
use rayon::prelude::*;

use super::vectorised;

/// The numbers of a product: f32 or f64.
pub(crate) trait Real: Copy + AddAssign + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

/// A strided view of a slice as a matrix.
#[derive(Clone, Copy)]
pub(crate) struct MatrixView<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> MatrixView<'a, T> {
    /// Creates a view of the whole slice as a row-major `[rows, columns]` matrix.
    pub(crate) fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix covers its slice exactly");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Creates a view as a `[rows, columns]` matrix whose rows begin every `stride` values.
    pub(crate) fn strided(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + columns <= data.len(), "a matrix in its slice");
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// Returns the transpose as a view of the same slice.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Returns a view of `rows` rows from row `start` on.
    fn rows_from(self, start: usize, rows: usize) -> Self {
        assert!(start + rows <= self.rows, "a part has no further rows");
        Self { data: &self.data[start * self.row_stride..], rows, ..self }
    }
}

/// Mode of writing a result: overwrite the output, or add to it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WriteMode {
    /// Overwrite: `out = a b`
    Overwrite,
    /// Accumulate: `out = out + a b`
    Accumulate,
}

/// Computes the matrix product of `a` and `b` into the row-major `out`, on the calling thread.
pub(crate) fn matmul<T: Real>(out: &mut [T], store: WriteMode, a: MatrixView<T>, b: MatrixView<T>) {
    assert_eq!(out.len(), a.rows * b.columns, "a product covers its slice exactly");
    matmul_strided(out, b.columns, store, a, b);
}

/// Computes the matrix product of `a` and `b` into rows of `out` that begin every `stride` values,
/// on the calling thread.
pub(crate) fn matmul_strided<T: Real>(
    out: &mut [T],
    stride: usize,
    store: WriteMode,
    a: MatrixView<T>,
    b: MatrixView<T>,
) {
    product_with(Parallelism::None, out, stride, store, a, b);
}

/// Multiplications that one thread does at once where `gemm` uses a single thread.
const BLOCK: usize = 1 << 16;

/// Computes the matrix product of `a` and `b` into the row-major `out`, on all cores.
///
/// Threads split `out`, never a sum, so the result is the same for any number of threads.
pub(crate) fn parallel_product<T: Real>(out: &mut [T], a: MatrixView<T>, b: MatrixView<T>) {
    assert_eq!(out.len(), a.rows * b.columns, "a product covers its slice exactly");
    // `gemm` computes products with vectors and of few terms on one thread. In a network these are
    // the deepest layers, where an image has few pixels and the weights are largest.
    let few_terms = a.columns <= 2;
    if out.is_empty() || !(few_terms || b.columns == 1) {
        return product_with(Parallelism::Rayon(0), out, b.columns, WriteMode::Overwrite, a, b);
    }
    let rows = (BLOCK / if few_terms { b.columns } else { a.columns }).max(1);
    out.par_chunks_mut(rows * b.columns).enumerate().for_each(|(block, out)| {
        matmul(out, WriteMode::Overwrite, a.rows_from(block * rows, out.len() / b.columns), b);
    });
}

fn product_with<T: Real>(
    parallelism: Parallelism,
    out: &mut [T],
    stride: usize,
    store: WriteMode,
    a: MatrixView<T>,
    b: MatrixView<T>,
) {
    assert_eq!(a.columns, b.rows, "inner dimensions of a product");
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    assert!(b.columns <= stride, "rows that do not overlap");
    assert!((a.rows - 1) * stride + b.columns <= out.len(), "a product in its slice");
    if a.columns == 0 {
        if store == WriteMode::Overwrite {
            out.chunks_mut(stride).take(a.rows).for_each(|row| row[..b.columns].fill(T::ZERO));
        }
        return;
    }
    // SAFETY: the assertions of `MatrixView`'s constructors and those above keep every index of the
    // three strided matrices within its slice. `out` is borrowed mutably, so it overlaps neither
    // `a` nor `b`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            stride as isize,
            store == WriteMode::Accumulate,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Transposes `from`, a row-major matrix of `rows` rows: `store` writes each value to its element
/// of `to`. Blocks of rows use whole cache lines on both sides.
#[inline(always)]
pub(crate) fn transpose(from: &[f32], rows: usize, to: &mut [f32], store: impl Fn(&mut f32, f32)) {
    if rows == 1 {
        return to.iter_mut().zip(from).for_each(|(to, from)| store(to, *from));
    }
    let columns = from.len() / rows;
    for block in (0..rows).step_by(16) {
        let end = rows.min(block + 16);
        for (column, to) in to.chunks_exact_mut(rows).enumerate() {
            let from = from[block * columns + column..].iter().step_by(columns);
            to[block..end].iter_mut().zip(from).for_each(|(to, from)| store(to, *from));
        }
    }
}

/// Number of independent partial sums in a reduction: four 512-bit registers of f32, so that no
/// addition waits for the previous one.
pub(crate) const LANES: usize = 64;

/// Computes the sum of all lanes, whole registers first.
#[inline(always)]
pub(crate) fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    for half in [LANES / 2, LANES / 4] {
        let (front, back) = lanes.split_at_mut(half);
        front.iter_mut().zip(back).for_each(|(a, b)| *a += *b);
    }
    lanes[..LANES / 4].iter().sum()
}

vectorised! {
    /// Computes the dot product, summed in [`LANES`] lanes so that the compiler can use vector
    /// registers.
    pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        let (a_blocks, a_tail) = a.as_chunks::<LANES>();
        let (b_blocks, b_tail) = b.as_chunks::<LANES>();
        let tail: f32 = a_tail.iter().zip(b_tail).map(|(x, y)| x * y).sum();
        for (x, y) in a_blocks.iter().zip(b_blocks) {
            for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
                *lane += x * y;
            }
        }
        sum_lanes(lanes) + tail
    }
}

vectorised! {
    /// Computes `out = out + factor x`
    pub(crate) fn add_scaled(out: &mut [f32], factor: f32, x: &[f32]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o += factor * v;
        }
    }
}

vectorised! {
    /// Computes the sum of the values.
    pub(crate) fn sum(values: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let blocks = values.chunks_exact(16);
        let tail: f32 = blocks.remainder().iter().sum();
        for block in blocks {
            for (lane, v) in lanes.iter_mut().zip(block) {
                *lane += v;
            }
        }
        lanes.iter().sum::<f32>() + tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_with_a_transposed_matrix_is_replaced_or_added() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 x 3
        let b = [1.0, 0.0, 2.0, 1.0, 3.0, 1.0]; // 2 x 3
        let mut out = [10.0; 4];
        matmul(
            &mut out,
            WriteMode::Overwrite,
            MatrixView::new(&a, 2, 3),
            MatrixView::new(&b, 2, 3).transposed(),
        );
        assert_eq!(out, [7.0, 10.0, 16.0, 25.0]);
        matmul(
            &mut out,
            WriteMode::Accumulate,
            MatrixView::new(&a, 2, 3),
            MatrixView::new(&b, 2, 3).transposed(),
        );
        assert_eq!(out, [14.0, 20.0, 32.0, 50.0]);
    }

    #[test]
    fn an_empty_inner_dimension_gives_zeros() {
        let mut out = [3.0; 4];
        matmul(
            &mut out,
            WriteMode::Overwrite,
            MatrixView::new(&[], 2, 0),
            MatrixView::new(&[], 0, 2),
        );
        assert_eq!(out, [0.0; 4]);
    }

    #[test]
    fn the_dot_product_includes_the_tail() {
        let a: Vec<f32> = (0..137).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &a), (0..137).map(|i| (i * i) as f32).sum::<f32>());
    }
}
