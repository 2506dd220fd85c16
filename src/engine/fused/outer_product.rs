//! Weight gradients of matrix products: from the input `a`, `[positions, inputs]`, and the output
//! gradient `g`, `[positions, outputs]`, the gradient `aᵀ g`, its norm, and weighted sums of it.

use super::op::{NormMethod, resize_buffer};
use crate::nn::kernels::product::{LANES, MatrixView, WriteMode, dot, matmul, sum_lanes};

/// Returns the cheaper norm method of a linear layer, by the number of operations.
///
/// Forming the gradient costs little beyond the product that the sum needs anyway, except for two
/// passes over its `inputs x outputs` elements. A ghost norm needs products of size `positions²`.
/// One element of such a pass costs as much as a number of multiplications that depends on whether
/// the gradient fits into the L1 cache, the L2 cache or neither (measured roughly).
pub(super) fn choose_norm_method(positions: usize, inputs: usize, outputs: usize) -> NormMethod {
    let elements = inputs * outputs;
    let multiplications_per_element = match 4 * elements {
        0..0x10000 => 8,
        0x10000..0x80000 => 25,
        _ => 60,
    };
    if positions * positions * (inputs + outputs) < multiplications_per_element * elements {
        NormMethod::Ghost
    } else {
        NormMethod::Instantiated
    }
}

/// Returns whether a weighted sum of this many elements, over this many positions, takes mostly
/// the time of reading and writing the sum: it exceeds a worker's caches, and each element has few
/// terms.
pub(super) fn is_memory_bound_sum(positions: usize, elements: usize) -> bool {
    elements >= LARGE_SUM && positions < 512
}

/// Smallest number of elements of a sum that exceeds a worker's caches.
pub(super) const LARGE_SUM: usize = 1 << 18;

/// Computes the Gram matrix `a aᵀ`, `[positions, positions]`.
pub(super) fn gram_matrix<'a>(a: &[f32], positions: usize, out: &'a mut Vec<f32>) -> &'a [f32] {
    let out = resize_buffer(out, positions * positions);
    let a = MatrixView::new(a, positions, a.len() / positions);
    matmul(out, WriteMode::Overwrite, a, a.transposed());
    out
}

/// Error bound for the underflow in one f32 product: the smallest normal f32, times 256e4 so that a
/// square that passes [`is_reliable`] has a relative error of at most 1e-4 from underflow.
pub(super) const UNDERFLOW_ERROR: f64 = 256e4 * f32::MIN_POSITIVE as f64;

/// Computes `‖(aᵀ g)[:, o]‖²` for each output `o`, from the Gram matrix of `inputs` inputs:
/// `Σₜ g[t,o] (gram g)[t,o]` (Li et al., 2022). `aligned` receives the value it would have if no
/// terms cancelled, `(Σₜ |g[t,o]| ‖aₜ‖)²`, plus bounds on underflow; the rounding error is
/// relative to it.
pub(super) fn column_squared_norms(
    (gram, inputs): (&[f32], usize),
    g: &[f32],
    columns: &mut [f64],
    aligned: &mut [f64],
    scratch: &mut Vec<f32>,
) {
    let outputs = columns.len();
    let positions = g.len() / outputs;
    // Each element of the Gram matrix is a sum of `inputs` products.
    let underflow = inputs as f64 * UNDERFLOW_ERROR;
    let gram_g = resize_buffer(scratch, g.len());
    let matrix = MatrixView::new(gram, positions, positions);
    matmul(gram_g, WriteMode::Overwrite, matrix, MatrixView::new(g, positions, outputs));
    columns.fill(0.0);
    aligned.fill(0.0);
    for (t, (g, gram_g)) in g.chunks_exact(outputs).zip(gram_g.chunks_exact(outputs)).enumerate() {
        let length = (f64::from(gram[t * positions + t]) + underflow).sqrt();
        add_terms(g, gram_g, length, columns, aligned);
    }
    // Each element of `gram g` is a sum of `positions` products and is multiplied by g; the sum of
    // |g| is at most aligned / √underflow.
    let underflow_in_product = positions as f64 * UNDERFLOW_ERROR / underflow.sqrt();
    aligned.iter_mut().for_each(|a| *a *= *a + underflow_in_product);
}

crate::nn::kernels::vectorised! {
    /// Adds the terms of one position; see [`column_squared_norms`].
    fn add_terms(g: &[f32], gram_g: &[f32], length: f64, columns: &mut [f64], aligned: &mut [f64]) {
        let each = g.iter().zip(gram_g).zip(columns).zip(aligned);
        for (((&g, &gram_g), column), aligned) in each {
            *column += f64::from(g) * f64::from(gram_g);
            *aligned += f64::from(g).abs() * length;
        }
    }
}

/// Returns whether a squared norm from terms of both signs is accurate. If the terms cancel, the
/// rest is rounding error, in which a large gradient could hide. If at least 1/256 of the sum
/// without cancellation is left, the norm is accurate to about 1e-4.
pub(super) fn is_reliable(square: f64, aligned: f64) -> bool {
    square * 256.0 >= aligned
}

/// Computes `‖aᵀ g‖²` for one position: ‖a‖² ‖g‖² (Goodfellow, 2015). In f64, because a large
/// input times a small gradient must not underflow in the square of either.
pub(super) fn outer_product_squared_norm(a: &[f32], g: &[f32]) -> f64 {
    squared_norm_f64(a) * squared_norm_f64(g)
}

crate::nn::kernels::vectorised! {
    pub(super) fn squared_norm_f64(values: &[f32]) -> f64 {
        let mut lanes = [0.0f64; 16];
        let (blocks, tail) = values.as_chunks::<16>();
        for block in blocks {
            for (lane, &v) in lanes.iter_mut().zip(block) {
                *lane += f64::from(v) * f64::from(v);
            }
        }
        let tail: f64 = tail.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        lanes.iter().sum::<f64>() + tail
    }
}

/// Returns whether the squares of the largest values are far from the limits of f32: all values
/// are zero, or the largest is between 1e-12 and 1e12. Otherwise the product of a huge and a tiny
/// value could be lost in a ghost norm, and the gradient must be formed. Values far below the
/// largest may still be lost; callers account for these.
pub(super) fn is_mid_range(values: &[f32]) -> bool {
    let largest = largest(values);
    largest == 0.0 || (1e-12..1e12).contains(&largest)
}

crate::nn::kernels::vectorised! {
    fn largest(values: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let blocks = values.chunks_exact(16);
        let max = |m: f32, v: &f32| if v.abs() > m { v.abs() } else { m };
        let tail = blocks.remainder().iter().fold(0.0f32, max);
        for block in blocks {
            for (lane, v) in lanes.iter_mut().zip(block) {
                let v = v.abs();
                *lane = if v > *lane { v } else { *lane };
            }
        }
        lanes.iter().fold(tail, |m, &v| m.max(v))
    }
}

/// Number of values whose squares are summed in f32.
const F32_BLOCK: usize = 4096;

/// Returns whether an f32 sum of squares over a block is accurate. Underflow loses less than two
/// times the smallest normal f32 per term, in total up to 1e-34, and a gradient could hide in
/// that.
fn is_accurate_in_f32(square: f32) -> bool {
    (1e-28..=f32::MAX).contains(&square)
}

/// Computes `Σ v²`. In f32 within a block, or in f64 near the limits of f32; in f64 over the
/// blocks.
pub(super) fn squared_norm(values: &[f32]) -> f64 {
    let square = |block: &[f32]| match dot(block, block) {
        found if is_accurate_in_f32(found) => f64::from(found),
        _ => squared_norm_f64(block),
    };
    values.chunks(F32_BLOCK).map(square).sum()
}

/// Computes `Σ w v²` in the same way as [`squared_norm`].
pub(super) fn weighted_squared_norm(values: &[f32], weights: Option<&[f32]>) -> f64 {
    let Some(weights) = weights else { return squared_norm(values) };
    let square = |(v, w): (&[f32], &[f32])| match weighted_squared_norm_f32(v, w) {
        found if is_accurate_in_f32(found) => f64::from(found),
        _ => weighted_squared_norm_f64(v, w),
    };
    values.chunks(F32_BLOCK).zip(weights.chunks(F32_BLOCK)).map(square).sum()
}

crate::nn::kernels::vectorised! {
    pub(super) fn weighted_squared_norm_f64(v: &[f32], w: &[f32]) -> f64 {
        let mut lanes = [0.0f64; 16];
        let (v_blocks, v_tail) = v.as_chunks::<16>();
        let (w_blocks, w_tail) = w.as_chunks::<16>();
        for (v, w) in v_blocks.iter().zip(w_blocks) {
            for ((lane, &v), &w) in lanes.iter_mut().zip(v).zip(w) {
                *lane += f64::from(v) * f64::from(v) * f64::from(w);
            }
        }
        let tail = v_tail.iter().zip(w_tail);
        let tail: f64 = tail.map(|(&v, &w)| f64::from(v) * f64::from(v) * f64::from(w)).sum();
        lanes.iter().sum::<f64>() + tail
    }
}

crate::nn::kernels::vectorised! {
    /// Computes `Σ v w v`. In this order, because `v²` could underflow where the weight is large.
    fn weighted_squared_norm_f32(v: &[f32], w: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        let (v_blocks, v_tail) = v.as_chunks::<LANES>();
        let (w_blocks, w_tail) = w.as_chunks::<LANES>();
        for (v, w) in v_blocks.iter().zip(w_blocks) {
            for ((lane, v), w) in lanes.iter_mut().zip(v).zip(w) {
                *lane += v * w * v;
            }
        }
        let tail: f32 = v_tail.iter().zip(w_tail).map(|(v, w)| v * w * v).sum();
        sum_lanes(lanes) + tail
    }
}

crate::nn::kernels::vectorised! {
    /// Computes `to = factor · from`, with subnormal results set to zero: rounding could double
    /// them, and a large input would amplify that.
    fn scale(to: &mut [f32], factor: f32, from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            let scaled = factor * from;
            *to = if scaled.abs() < f32::MIN_POSITIVE { 0.0 } else { scaled };
        }
    }
}

/// Computes `sum += Σ factor · aᵀ g` over rows; each factor belongs to the same number of
/// consecutive rows.
pub(super) fn add_weighted_product(
    a: &[f32],
    g: &[f32],
    rows: usize,
    factors: Option<&[f32]>,
    sum: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    let (inputs, outputs) = (a.len() / rows, g.len() / rows);
    let g = scale_by_factors(g, factors, scratch);
    let (a, g) = (MatrixView::new(a, rows, inputs), MatrixView::new(g, rows, outputs));
    matmul(sum, WriteMode::Accumulate, a.transposed(), g);
}

/// Computes `factor · g`; each factor belongs to the same number of consecutive rows.
pub(super) fn scale_by_factors<'a>(
    g: &'a [f32],
    factors: Option<&[f32]>,
    scratch: &'a mut Vec<f32>,
) -> &'a [f32] {
    let Some(factors) = factors else { return g };
    let scaled = resize_buffer(scratch, g.len());
    let per = g.len() / factors.len();
    let pairs = scaled.chunks_exact_mut(per).zip(g.chunks_exact(per));
    for ((to, from), &factor) in pairs.zip(factors) {
        match factor {
            1.0 => to.copy_from_slice(from),
            _ => scale(to, factor, from),
        }
    }
    scaled
}

crate::nn::kernels::vectorised! {
    /// Computes `out[o] += Σₜ g[t,o]`.
    pub(super) fn add_rows(g: &[f32], out: &mut [f32]) {
        for row in g.chunks_exact(out.len()) {
            for (o, g) in out.iter_mut().zip(row) {
                *o += g;
            }
        }
    }
}

/// Adds the gradient of a bias to the row of each example; there are no rows without a bias.
pub(super) fn add_bias_gradients(g: &[f32], examples: usize, rows: &mut [f32]) {
    if !rows.is_empty() {
        let (each, bias) = (g.len() / examples, rows.len() / examples);
        let rows = rows.chunks_exact_mut(bias).zip(g.chunks_exact(each));
        rows.for_each(|(bias, g)| add_rows(g, bias));
    }
}

crate::nn::kernels::vectorised! {
    /// Computes `out += x`
    pub(super) fn add(out: &mut [f32], x: &[f32]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o += x;
        }
    }
}
