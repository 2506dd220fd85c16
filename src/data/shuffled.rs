//! Sampling of disjoint batches of fixed size.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;

use super::sampler::number_of;
use crate::{Error, Result};

/// Sampler of disjoint batches: every epoch shuffles the examples and cuts them into batches of
/// `batch_size`; the last batch of an epoch has what is left.
///
/// # Guarantee
/// This is the sampler of the event `ShuffledEpochs`: each example is in one batch per epoch, and
/// the assignment depends on the seed and the number of examples only. It holds for neighbours that
/// have the same number of examples (one zeroed out, or one replaced). It does not hold for one
/// example added or removed, which moves all that follow it to other places of the shuffle.
#[derive(Clone)]
pub(crate) struct ShuffledSampler {
    order: Vec<u32>,
    batch_size: usize,
    /// Position in `order` at which the next batch begins.
    next: usize,
    rng: ChaCha20Rng,
}

/// ChaCha stream of the shuffle, different from that of Poisson sampling.
const STREAM: u64 = u64::from_le_bytes(*b"shuffled");

impl ShuffledSampler {
    /// Creates a sampler over this many examples.
    ///
    /// # Errors
    /// `Setting` for no examples, or 2^32 or more, and for a batch size of 0 or above their number.
    pub(crate) fn new(examples: usize, batch_size: usize, seed: [u8; 32]) -> Result<Self> {
        let number = number_of(examples)?;
        if batch_size == 0 || batch_size > examples {
            let why = format!("there are {examples} examples");
            return Err(Error::setting("batch_size", batch_size, why)
                .fix(format!("use a batch size from 1 to {examples}")));
        }
        let mut rng = ChaCha20Rng::from_seed(seed);
        rng.set_stream(STREAM);
        Ok(Self { order: (0..number).collect(), batch_size, next: examples, rng })
    }

    /// Draws the next batch: the indices of its examples, ascending.
    pub(crate) fn next_batch(&mut self) -> Vec<u32> {
        if self.next >= self.order.len() {
            self.order.shuffle(&mut self.rng);
            self.next = 0;
        }
        let end = (self.next + self.batch_size).min(self.order.len());
        let mut batch = self.order[self.next..end].to_vec();
        self.next = end;
        batch.sort_unstable();
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    impl ShuffledSampler {
        /// Returns the number of batches in an epoch.
        pub(crate) fn steps_per_epoch(&self) -> u64 {
            self.order.len().div_ceil(self.batch_size) as u64
        }
    }

    #[test]
    fn every_example_is_in_one_batch_of_every_epoch() {
        for (examples, batch_size, batches) in [(10, 5, 2), (10, 4, 3), (7, 7, 1), (5, 1, 5)] {
            let mut sampler = ShuffledSampler::new(examples, batch_size, [3; 32]).unwrap();
            assert_eq!(sampler.steps_per_epoch(), batches as u64);
            for _ in 0..4 {
                let epoch: Vec<Vec<u32>> = (0..batches).map(|_| sampler.next_batch()).collect();
                let full = epoch.iter().take(batches - 1);
                assert!(full.into_iter().all(|batch| batch.len() == batch_size));
                assert!(epoch.iter().all(|batch| batch.is_sorted_by(|a, b| a < b)));
                let mut all = epoch.concat();
                all.sort_unstable();
                assert_eq!(all, (0..examples as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn epochs_are_shuffled_anew_and_uniformly() {
        let mut sampler = ShuffledSampler::new(6, 2, [5; 32]).unwrap();
        // How often two examples share a batch: in one of five epochs.
        let (epochs, mut together) = (20_000, 0);
        for _ in 0..epochs {
            let batches = [sampler.next_batch(), sampler.next_batch(), sampler.next_batch()];
            together += usize::from(batches.contains(&vec![0, 1]));
        }
        let expected = f64::from(epochs) / 5.0;
        let deviation = (together as f64 - expected) / (expected * 0.8).sqrt();
        assert!(deviation.abs() < 4.5, "{deviation}");
    }

    #[test]
    fn seeds_repeat_a_shuffle_and_impossible_sizes_are_refused() {
        let drawn = |seed| {
            let mut sampler = ShuffledSampler::new(20, 5, [seed; 32]).unwrap();
            (0..8).map(|_| sampler.next_batch()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        for (examples, batch_size) in [(0, 1), (5, 0), (5, 6)] {
            let error = ShuffledSampler::new(examples, batch_size, [0; 32]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Setting);
        }
    }
}
