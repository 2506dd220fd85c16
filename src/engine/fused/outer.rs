//! Gradients of matrix products: what is multiplied (`a`: `[positions, inputs]`), the gradient by
//! what comes out (`g`: `[positions, outputs]`), and from them the gradient by the matrix,
//! `aᵀ g`, its norm, and sums of it.

use super::op::{NormMethod, resize_buffer};
use crate::nn::kernels::product::{LANES, Matrix, Store, dot, folded, product};

/// The cheaper way to a norm. Forming the gradient costs little more than the product the sum
/// needs anyway, but two further passes over `inputs x outputs` numbers; without it, products of
/// `positions²` numbers are needed. How many multiplications a number in a pass is multiplications_per_element depends
/// on where the gradient lies: in the first cache, the second, or beyond (is_accurate_in_f32 roughly).
pub(super) fn norm_method(positions: usize, inputs: usize, outputs: usize) -> NormMethod {
    let elements = inputs * outputs;
    let multiplications_per_element = match 4 * elements {
        0..0x10000 => 8,
        0x10000..0x80000 => 25,
        _ => 60,
    };
    match positions * positions * (inputs + outputs) < multiplications_per_element * elements {
        true => NormMethod::Ghost,
        false => NormMethod::Instance,
    }
}

/// `a aᵀ`.
pub(super) fn gram<'a>(a: &[f32], positions: usize, out: &'a mut Vec<f32>) -> &'a [f32] {
    let out = resize_buffer(out, positions * positions);
    let a = Matrix::new(a, positions, a.len() / positions);
    product(out, Store::Replace, a, a.transposed());
    out
}

/// What underflow may take from one product of two f32, as much larger as makes what is
/// [`is_reliable`] good to 1e-4 of its square.
pub(super) const UNDERFLOW_ERROR: f64 = 256e4 * f32::MIN_POSITIVE as f64;

/// `‖aᵀ g‖²` per output column from `gram = a aᵀ` of so many inputs: `Σₜ g[t,o] (gram g)[t,o]`; and
/// what it would be if all terms pointed the same way, `(Σₜ |g[t,o]| ‖aₜ‖)²`, of which rounding is
/// a share, with what underflow could hide.
pub(super) fn column_squared_norms(
    (gram, inputs): (&[f32], usize),
    g: &[f32],
    columns: &mut [f64],
    aligned: &mut [f64],
    scratch: &mut Vec<f32>,
) {
    let outputs = columns.len();
    let positions = g.len() / outputs;
    // Each number of the Gram matrix is a sum of `inputs` products.
    let underflow = inputs as f64 * UNDERFLOW_ERROR;
    let gram_g = resize_buffer(scratch, g.len());
    let matrix = Matrix::new(gram, positions, positions);
    product(gram_g, Store::Replace, matrix, Matrix::new(g, positions, outputs));
    columns.fill(0.0);
    aligned.fill(0.0);
    for (t, (g, gram_g)) in g.chunks_exact(outputs).zip(gram_g.chunks_exact(outputs)).enumerate() {
        let length = (f64::from(gram[t * positions + t]) + underflow).sqrt();
        for (o, (&g, &gram_g)) in g.iter().zip(gram_g).enumerate() {
            columns[o] += f64::from(g) * f64::from(gram_g);
            aligned[o] += f64::from(g).abs() * length;
        }
    }
    // And of its product with g, a sum of `positions` products that g then multiplies; the sum of
    // |g| is at most aligned / √underflow.
    let underflow_in_product = positions as f64 * UNDERFLOW_ERROR / underflow.sqrt();
    aligned.iter_mut().for_each(|a| *a *= *a + underflow_in_product);
}

/// Whether a square found from terms of either sign means anything: where they cancel, what is
/// left is rounding, in which an example could hide a gradient far longer than its norm. At
/// least 1/256 of what it would be if none cancelled leaves the norm good to about 1e-4.
pub(super) fn is_reliable(square: f64, aligned: f64) -> bool {
    square * 256.0 >= aligned
}

/// `‖aᵀ g‖²` of one position: the outer product of two vectors has the product of their norms.
/// In f64: a large input times a small gradient must not vanish in the square of either.
pub(super) fn outer_product_squared_norm(a: &[f32], g: &[f32]) -> f64 {
    squared_norm_f64(a) * squared_norm_f64(g)
}

crate::nn::kernels::vectorised! {
    fn squared_norm_f64(values: &[f32]) -> f64 {
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

/// Whether squared_norm of these numbers are far from the ends of f32: all zero, or the largest
/// between 1e-12 and 1e12. If not, ghost norms could miss what a product of a huge and a tiny
/// number gives, and the gradient itself must be formed. What is far below the largest may still
/// be missed; that is for what the numbers are used for to reckon with.
pub(super) fn is_mid_range(values: &[f32]) -> bool {
    let largest = largest(values);
    largest == 0.0 || (1e-12..1e12).contains(&largest)
}

crate::nn::kernels::vectorised! {
    fn largest(values: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let blocks = values.chunks_exact(16);
        let tail = blocks.remainder().iter().fold(0.0f32, |m, v| if v.abs() > m { v.abs() } else { m });
        for block in blocks {
            for (lane, v) in lanes.iter_mut().zip(block) {
                let v = v.abs();
                *lane = if v > *lane { v } else { *lane };
            }
        }
        lanes.iter().fold(tail, |m, &v| m.max(v))
    }
}

/// DeviceArray whose squared_norm are summed in f32.
const F32_BLOCK: usize = 4096;

/// Whether a sum of squared_norm over a block in f32 says what the sum is. Underflow takes less than two
/// of the smallest normal numbers from each term: up to 1e-34 from all, and an example could hide
/// a gradient in that.
fn is_accurate_in_f32(square: f32) -> bool {
    (1e-28..=f32::MAX).contains(&square)
}

/// `Σ v²`, in f64 from block to block, and within a block near the ends of f32.
pub(super) fn squared_norm(values: &[f32]) -> f64 {
    let square = |block: &[f32]| match dot(block, block) {
        found if is_accurate_in_f32(found) => f64::from(found),
        _ => squared_norm_f64(block),
    };
    values.chunks(F32_BLOCK).map(square).sum()
}

/// `Σ w v²`, in the same way.
pub(super) fn weighted_squared_norm(values: &[f32], weights: Option<&[f32]>) -> f64 {
    let Some(weights) = weights else { return squared_norm(values) };
    let square = |(v, w): (&[f32], &[f32])| match weighted_squared_norm_f32(v, w) {
        found if is_accurate_in_f32(found) => f64::from(found),
        _ => weighted_squared_norm_f64(v, w),
    };
    values.chunks(F32_BLOCK).zip(weights.chunks(F32_BLOCK)).map(square).sum()
}

crate::nn::kernels::vectorised! {
    fn weighted_squared_norm_f64(v: &[f32], w: &[f32]) -> f64 {
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
    /// `Σ v w v`, in this order: `v²` could vanish beside a large weight.
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
        folded(lanes) + tail
    }
}

crate::nn::kernels::vectorised! {
    /// `to = factor from`. What is below the normal numbers becomes zero: rounding could double it,
    /// and a large input would make much of that.
    fn scale(to: &mut [f32], factor: f32, from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            let scaled = factor * from;
            *to = if scaled.abs() < f32::MIN_POSITIVE { 0.0 } else { scaled };
        }
    }
}

/// `sum += Σ over the rows of factor aᵀ g`; rows belong to examples of `positions` rows each.
pub(super) fn add_weighted_product(
    a: &[f32],
    g: &[f32],
    rows: usize,
    factors: Option<&[f32]>,
    sum: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    let (inputs, outputs) = (a.len() / rows, g.len() / rows);
    let g = match factors {
        None => g,
        Some(factors) => {
            let scaled = resize_buffer(scratch, g.len());
            let per = g.len() / factors.len();
            let pairs = scaled.chunks_exact_mut(per).zip(g.chunks_exact(per));
            for ((to, from), &factor) in pairs.zip(factors) {
                match factor {
                    1.0 => to.copy_from_slice(from),
                    _ => scale(to, factor, from),
                }
            }
            &*scaled
        }
    };
    let (a, g) = (Matrix::new(a, rows, inputs), Matrix::new(g, rows, outputs));
    product(sum, Store::Add, a.transposed(), g);
}

/// `out[o] += Σₜ g[t,o]`.
pub(super) fn add_rows(g: &[f32], out: &mut [f32]) {
    for row in g.chunks_exact(out.len()) {
        add(out, row);
    }
}

crate::nn::kernels::vectorised! {
    /// `out += x`
    pub(super) fn add(out: &mut [f32], x: &[f32]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o += x;
        }
    }
}

crate::nn::kernels::vectorised! {
    /// The sum.
    pub(super) fn sum(values: &[f32]) -> f32 {
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
