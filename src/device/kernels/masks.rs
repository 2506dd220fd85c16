//! Dropout masks: the same for every executor and on every device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The dropout masks of one layer in one step.
#[derive(Clone, Copy)]
pub struct Masks {
    seed: u64,
    layer: u64,
    /// Random words below this are dropped.
    pub(super) dropped: u32,
    /// What the others become, so that the mean is kept.
    pub(super) kept: f32,
}

impl Masks {
    pub(crate) fn new(seed: u64, layer: usize, rate: f64) -> Self {
        // 32 bits: the share of dropped values is right to 2e-10.
        let dropped = (rate * (u64::from(u32::MAX) + 1) as f64) as u32;
        Self { seed, layer: layer as u64, dropped, kept: (1.0 / (1.0 - rate)) as f32 }
    }

    /// The ChaCha8 key of one copy of one example, by words: each has a stream of its own.
    pub(super) fn key(&self, id: u32, copy: u32) -> [u32; 8] {
        let mut key = *b"........ dropout ......... masks";
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[16..24].copy_from_slice(&self.layer.to_le_bytes());
        let words = key.as_chunks::<4>().0;
        let mut words: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        (words[2], words[3]) = (id, copy);
        words
    }

    /// Fills `mask` with 0 (probability `rate`) and 1/(1 - `rate`). Each copy of each example (by its
    /// number in the data set) and each dropout layer has a stream of its own, so that neither
    /// chunks and threads nor the rest of the batch change anything.
    pub(crate) fn draw(&self, id: u32, copy: u32, mask: &mut [f32]) {
        let key = self.key(id, copy).map(u32::to_le_bytes);
        let mut rng = ChaCha8Rng::from_seed(std::array::from_fn(|i| key[i / 4][i % 4]));
        for value in mask {
            *value = if rng.next_u32() < self.dropped { 0.0 } else { self.kept };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(seed: u64, id: u32, copy: u32, layer: usize, rate: f64) -> Vec<f32> {
        let mut mask = vec![0.0; 10_000];
        Masks::new(seed, layer, rate).draw(id, copy, &mut mask);
        mask
    }

    #[test]
    fn the_right_share_is_dropped_and_the_mean_is_kept() {
        for rate in [0.1, 0.5, 0.9] {
            let mask = mask(1, 2, 0, 3, rate);
            let dropped = mask.iter().filter(|&&v| v == 0.0).count() as f64 / 10_000.0;
            let error = (rate * (1.0 - rate) / 10_000.0f64).sqrt();
            assert!((dropped - rate).abs() < 4.0 * error, "{dropped} of {rate}");
            let kept = (1.0 / (1.0 - rate)) as f32;
            assert!(mask.iter().all(|&v| v == 0.0 || v == kept));
        }
        assert!(mask(1, 2, 0, 3, 0.0).iter().all(|&v| v == 1.0));
    }

    #[test]
    fn seeds_examples_copies_and_layers_have_masks_of_their_own() {
        let one = mask(1, 2, 0, 3, 0.5);
        assert_eq!(one, mask(1, 2, 0, 3, 0.5));
        let others = [(2, 2, 0, 3), (1, 3, 0, 3), (1, 2, 1, 3), (1, 2, 0, 4), (1, 3, 0, 2)];
        for (seed, id, copy, layer) in others {
            let other = mask(seed, id, copy, layer, 0.5);
            let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!((4_700..5_300).contains(&same), "{same} of 10000 agree");
        }
    }
}
