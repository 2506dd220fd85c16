//! Gradients of matrix products: what is multiplied (`a`: `[positions, inputs]`), the gradient by
//! what comes out (`g`: `[positions, outputs]`), and from them the gradient by the matrix,
//! `aᵀ g`, its norm, and sums of it.

use super::op::{How, room};
use crate::nn::kernels::product::{Matrix, Store, dot, product};

/// The cheaper way to a norm. Forming the gradient costs little more than the product the sum
/// needs anyway, but two further passes over `inputs x outputs` numbers; without it, products of
/// `positions²` numbers are needed. How many multiplications a number in a pass is worth depends
/// on where the gradient lies: in the first cache, the second, or beyond (measured roughly).
pub(super) fn how(positions: usize, inputs: usize, outputs: usize) -> How {
    let numbers = inputs * outputs;
    let worth = match 4 * numbers {
        ..0x10000 => 8,
        0x10000..0x80000 => 25,
        _ => 60,
    };
    match positions * positions * (inputs + outputs) < worth * numbers {
        true => How::Ghost,
        false => How::Instance,
    }
}

/// `‖aᵀ g‖²` per output column: `Σₜ g[t,o] (a aᵀ g)[t,o]`, added to `columns`. Returns whether
/// that means anything: terms of either sign can cancel, and then what is left is rounding, in
/// which an example could hide a gradient far longer than its norm. With the sum at least 1/256 of
/// what it would be if all terms pointed the same way, the norm is good to about 1e-4 in the
/// worst case (and to 1e-6 in all that are not made up); else it has to be formed.
pub(super) fn ghost_columns(
    a: &[f32],
    g: &[f32],
    positions: usize,
    columns: &mut [f64],
    scratch: (&mut Vec<f32>, &mut Vec<f32>),
) -> bool {
    let (inputs, outputs) = (a.len() / positions, g.len() / positions);
    let gram = room(scratch.0, positions * positions);
    let a = Matrix::new(a, positions, inputs);
    product(gram, Store::Replace, a, a.transposed());
    let turned = room(scratch.1, positions * outputs);
    let matrix = Matrix::new(gram, positions, positions);
    product(turned, Store::Replace, matrix, Matrix::new(g, positions, outputs));
    let (mut all, mut aligned) = (0.0, 0.0);
    for (t, (g, turned)) in g.chunks_exact(outputs).zip(turned.chunks_exact(outputs)).enumerate() {
        let mut length = 0.0;
        for ((column, &g), &turned) in columns.iter_mut().zip(g).zip(turned) {
            let (g, share) = (f64::from(g), f64::from(g) * f64::from(turned));
            *column += share;
            all += share;
            length += g * g;
        }
        aligned += (length * f64::from(gram[t * positions + t])).sqrt();
    }
    all * 256.0 >= aligned * aligned
}

/// `‖aᵀ g‖²` of one position: the outer product of two vectors has the product of their norms.
/// In f64: a large input times a small gradient must not vanish in the square of either.
pub(super) fn ghost_vector(a: &[f32], g: &[f32]) -> f64 {
    let squares = |v: &[f32]| v.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
    squares(a) * squares(g)
}

/// Whether squares of these numbers are far from the ends of f32: all zero, or the largest
/// between 1e-12 and 1e12. If not, ghost norms could miss what a product of a huge and a tiny
/// number gives, and the gradient itself must be formed.
pub(super) fn ordinary(values: &[f32]) -> bool {
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

/// `Σ v²`, in f64 from block to block.
pub(super) fn squares(values: &[f32]) -> f64 {
    values.chunks(4096).map(|block| f64::from(dot(block, block))).sum()
}

/// `Σ w v²`.
pub(super) fn weighted_squares(values: &[f32], weights: Option<&[f32]>) -> f64 {
    let Some(weights) = weights else { return squares(values) };
    let blocks = values.chunks(4096).zip(weights.chunks(4096));
    blocks.map(|(v, w)| f64::from(dot3(v, w))).sum()
}

crate::nn::kernels::vectorised! {
    fn dot3(v: &[f32], w: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let (v_blocks, w_blocks) = (v.chunks_exact(16), w.chunks_exact(16));
        let tail = v_blocks.remainder().iter().zip(w_blocks.remainder());
        let tail: f32 = tail.map(|(v, w)| v * v * w).sum();
        for (v, w) in v_blocks.zip(w_blocks) {
            for ((lane, v), w) in lanes.iter_mut().zip(v).zip(w) {
                *lane += v * v * w;
            }
        }
        lanes.iter().sum::<f32>() + tail
    }
}

/// `sum += Σ over the rows of factor aᵀ g`; rows belong to examples of `positions` rows each.
pub(super) fn weighted(
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
            let scaled = room(scratch, g.len());
            let per = g.len() / factors.len();
            let pairs = scaled.chunks_exact_mut(per).zip(g.chunks_exact(per));
            for ((to, from), &factor) in pairs.zip(factors) {
                to.iter_mut().zip(from).for_each(|(t, f)| *t = factor * f);
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
