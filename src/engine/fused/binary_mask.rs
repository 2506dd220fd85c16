//! Sums over the selected inputs of each output, for weights that are all 0 or 1.
//!
//! A product with such weights needs no multiplications. The inputs are taken four at a time: all
//! 16 sums of a group's subsets are made once, and each output adds the one that it keeps. That is
//! one addition for four multiplications, whatever the fraction of kept inputs (the method of the
//! four Russians, Arlazarov et al., 1970).

use crate::nn::kernels::vectorised;

/// Rows that are summed together: two or more vector registers.
const LANES: usize = 32;

/// Inputs of a group, whose subsets are numbered by four bits.
const INPUTS_PER_TABLE: usize = 4;

/// Groups whose sums of subsets are in the L1 cache together.
const TABLES_PER_BLOCK: usize = 4;

/// Inputs of these groups.
const INPUTS_PER_BLOCK: usize = INPUTS_PER_TABLE * TABLES_PER_BLOCK;

type Row = [f32; LANES];

/// Binary mask: the selected inputs of each output, for weights that are all 0 or 1.
pub(super) struct BinaryMask {
    inputs: usize,
    outputs: usize,
    /// One bit per input, for each block of inputs and each output: `[blocks, outputs]`.
    subsets: Vec<u16>,
}

impl BinaryMask {
    /// Creates a mask from weights `[inputs, outputs]`; `None` unless they are all 0 or 1.
    pub(super) fn from_weights(weights: &[f32], outputs: usize) -> Option<Self> {
        if !are_flags(weights) {
            return None;
        }
        let inputs = weights.len() / outputs;
        let mut subsets = vec![0; inputs.div_ceil(INPUTS_PER_BLOCK) * outputs];
        let blocks =
            weights.chunks(INPUTS_PER_BLOCK * outputs).zip(subsets.chunks_exact_mut(outputs));
        for (weights, subsets) in blocks {
            for (bit, weights) in weights.chunks_exact(outputs).enumerate() {
                add_bit(weights, bit as u16, subsets);
            }
        }
        Some(Self { inputs, outputs, subsets })
    }

    /// Computes `square(x) weights` for the rows of `x`, `[rows, inputs]`, where `square` is
    /// applied to each value: `[rows, outputs]` into `sums`.
    pub(super) fn masked_sums(
        &self,
        x: &[f32],
        square: impl Fn(f32) -> f32,
        sums: &mut [f32],
        scratch: &mut BinaryMaskScratch,
    ) {
        let BinaryMaskScratch { lanes, totals } = scratch;
        lanes.clear();
        lanes.resize(self.inputs.next_multiple_of(INPUTS_PER_BLOCK), [0.0; LANES]);
        totals.resize(self.outputs, [0.0; LANES]);
        let blocks = x.chunks(LANES * self.inputs).zip(sums.chunks_mut(LANES * self.outputs));
        for (x, sums) in blocks {
            // A few values of all rows at a time use whole cache lines.
            for start in (0..self.inputs).step_by(INPUTS_PER_BLOCK) {
                let end = self.inputs.min(start + INPUTS_PER_BLOCK);
                for (lane, x) in x.chunks_exact(self.inputs).enumerate() {
                    for (to, x) in lanes[start..end].iter_mut().zip(&x[start..end]) {
                        to[lane] = square(*x);
                    }
                }
            }
            add_subsets(lanes, &self.subsets, totals);
            for start in (0..self.outputs).step_by(INPUTS_PER_BLOCK) {
                let end = self.outputs.min(start + INPUTS_PER_BLOCK);
                for (lane, sums) in sums.chunks_exact_mut(self.outputs).enumerate() {
                    for (sum, total) in sums[start..end].iter_mut().zip(&totals[start..end]) {
                        *sum = total[lane];
                    }
                }
            }
        }
    }
}

/// Buffers of [`BinaryMask::masked_sums`].
#[derive(Default)]
pub(super) struct BinaryMaskScratch {
    lanes: Vec<Row>,
    totals: Vec<Row>,
}

vectorised! {
    fn are_flags(weights: &[f32]) -> bool {
        weights.iter().fold(true, |all, &w| all & ((w == 0.0) | (w == 1.0)))
    }
}

vectorised! {
    fn add_bit(weights: &[f32], bit: u16, subsets: &mut [u16]) {
        for (subset, &w) in subsets.iter_mut().zip(weights) {
            *subset |= u16::from(w != 0.0) << bit;
        }
    }
}

vectorised! {
    /// Computes for each output the sum of the rows that its subsets select.
    fn add_subsets(rows: &[Row], subsets: &[u16], totals: &mut [Row]) {
        totals.fill([0.0; LANES]);
        let mut tables = [[[0.0f32; LANES]; 1 << INPUTS_PER_TABLE]; TABLES_PER_BLOCK];
        let blocks = rows.as_chunks::<INPUTS_PER_BLOCK>().0.iter().zip(subsets.chunks_exact(totals.len()));
        for (rows, subsets) in blocks {
            for (table, rows) in tables.iter_mut().zip(rows.as_chunks::<INPUTS_PER_TABLE>().0) {
                for (bit, row) in rows.iter().enumerate() {
                    let (without, with) = table.split_at_mut(1 << bit);
                    for (with, without) in with.iter_mut().zip(&*without) {
                        for l in 0..LANES {
                            with[l] = without[l] + row[l];
                        }
                    }
                }
            }
            for (total, &subset) in totals.iter_mut().zip(subsets) {
                let a = &tables[0][usize::from(subset & 15)];
                let b = &tables[1][usize::from(subset >> 4 & 15)];
                let c = &tables[2][usize::from(subset >> 8 & 15)];
                let d = &tables[3][usize::from(subset >> 12)];
                for l in 0..LANES {
                    total[l] += (a[l] + b[l]) + (c[l] + d[l]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn sums_are_those_of_a_product() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(8);
        for (rows, inputs, outputs) in [(1, 1, 1), (5, 16, 3), (32, 17, 16), (70, 100, 37)] {
            for density in [0.0, 0.1, 0.5, 1.0] {
                let keep = |_| f32::from(rng.random_bool(density));
                let weights: Vec<f32> = (0..inputs * outputs).map(keep).collect();
                let x: Vec<f32> = (0..rows * inputs).map(|_| rng.random()).collect();
                let mut sums = vec![f32::NAN; rows * outputs];
                let kept = BinaryMask::from_weights(&weights, outputs).unwrap();
                // The buffers are those of another call.
                let mut scratch = BinaryMaskScratch::default();
                kept.masked_sums(&x, |_| 9.0, &mut sums, &mut scratch);
                kept.masked_sums(&x, |x| x * x, &mut sums, &mut scratch);
                for (r, sums) in sums.chunks_exact(outputs).enumerate() {
                    for (o, &sum) in sums.iter().enumerate() {
                        let term = |i: usize| {
                            f64::from(x[r * inputs + i]).powi(2)
                                * f64::from(weights[i * outputs + o])
                        };
                        let exact: f64 = (0..inputs).map(term).sum();
                        assert!((f64::from(sum) - exact).abs() <= 1e-6 * exact, "{sum} {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn other_weights_are_refused() {
        assert!(BinaryMask::from_weights(&[0.0, 1.0, 0.5, 1.0], 2).is_none());
        assert!(BinaryMask::from_weights(&[0.0, f32::NAN], 2).is_none());
        assert!(BinaryMask::from_weights(&[-0.0, 1.0], 2).is_some());
    }
}
