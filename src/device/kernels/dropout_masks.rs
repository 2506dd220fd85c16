//! Dropout masks, the same in every executor and on every device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The dropout masks of one layer in one training step.
#[derive(Clone, Copy)]
pub struct DropoutMasks {
    seed: u64,
    layer: u64,
    /// Threshold of a 32-bit random integer, below which its value is dropped.
    pub(super) threshold: u32,
    /// Factor 1/(1 - rate) on values that are not dropped, which preserves the mean.
    pub(super) scale: f32,
}

impl DropoutMasks {
    /// Creates the masks of layer `layer` at this dropout rate, in [0, 1). `seed` is that of the
    /// step.
    pub(crate) fn new(seed: u64, layer: usize, rate: f64) -> Self {
        // With 32 bits, the dropout probability is exact to 2e-10.
        let threshold = (rate * (u64::from(u32::MAX) + 1) as f64) as u32;
        Self { seed, layer: layer as u64, threshold, scale: (1.0 / (1.0 - rate)) as f32 }
    }

    /// Returns the ChaCha8 key for one copy of one example, as little-endian integers. `example`
    /// is its index in the data set.
    pub(super) fn key(&self, example: u32, copy: u32) -> [u32; 8] {
        let mut key = *b"........ dropout ......... masks";
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[16..24].copy_from_slice(&self.layer.to_le_bytes());
        let bytes = key.as_chunks::<4>().0;
        let mut key: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(bytes[i]));
        key[2] = example;
        key[3] = copy;
        key
    }

    /// Fills `mask` with 0 (with probability `rate`) and 1/(1 - `rate`).
    ///
    /// Each copy of each example and each dropout layer has a random stream of its own, so the mask
    /// does not depend on chunks, threads or the rest of the batch.
    pub(crate) fn draw(&self, example: u32, copy: u32, mask: &mut [f32]) {
        let key = self.key(example, copy).map(u32::to_le_bytes);
        let mut rng = ChaCha8Rng::from_seed(std::array::from_fn(|i| key[i / 4][i % 4]));
        for value in mask {
            *value = if rng.next_u32() < self.threshold { 0.0 } else { self.scale };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(seed: u64, example: u32, copy: u32, layer: usize, rate: f64) -> Vec<f32> {
        let mut mask = vec![0.0; 10_000];
        DropoutMasks::new(seed, layer, rate).draw(example, copy, &mut mask);
        mask
    }

    #[test]
    fn masks_have_the_dropout_rate_and_preserve_the_mean() {
        for rate in [0.1, 0.5, 0.9] {
            let mask = mask(1, 2, 0, 3, rate);
            let dropped = mask.iter().filter(|&&v| v == 0.0).count() as f64 / 10_000.0;
            let standard_error = (rate * (1.0 - rate) / 10_000.0f64).sqrt();
            assert!((dropped - rate).abs() < 4.0 * standard_error, "{dropped} of {rate}");
            let kept = (1.0 / (1.0 - rate)) as f32;
            assert!(mask.iter().all(|&v| v == 0.0 || v == kept));
        }
        assert!(mask(1, 2, 0, 3, 0.0).iter().all(|&v| v == 1.0));
    }

    #[test]
    fn seeds_examples_copies_and_layers_have_independent_masks() {
        let one = mask(1, 2, 0, 3, 0.5);
        assert_eq!(one, mask(1, 2, 0, 3, 0.5));
        let others = [(2, 2, 0, 3), (1, 3, 0, 3), (1, 2, 1, 3), (1, 2, 0, 4), (1, 3, 0, 2)];
        for (seed, example, copy, layer) in others {
            let other = mask(seed, example, copy, layer, 0.5);
            let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!((4_700..5_300).contains(&same), "{same} of 10000 agree");
        }
    }
}
