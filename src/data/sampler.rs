//! Poisson sampling of the batch of a step. Begin with `PoissonSampler`, which draws the batches of
//! a run from a seed that must be secret: the accountants take the sampling as random.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::digest::format_count;
use crate::{Error, Result};

/// Sampler of batches by Poisson sampling: in every step each example is in the batch with
/// probability `sampling_rate`, independently of all other examples and steps.
///
/// The size of a batch is random, with mean `sampling_rate * examples`. It may be zero: such a step
/// releases noise only.
///
/// # Guarantee
/// This is the sampler of the event `PoissonGaussian` (amplification by Poisson subsampling, for
/// neighbours that differ by one added or removed example). Assumptions: the seed is secret and
/// used for one run only, `examples` is public, and the batches are not published. Each draw
/// compares 64 fresh bits of a ChaCha20 key stream with `floor(sampling_rate * 2^64)`, so the true
/// probability is at most the stated one and at least the stated one less 2^-64: the accounting is
/// an upper bound. The privacy cost of a step does not depend on the draw. Its time does, because
/// it grows with the batch, and no epsilon covers times.
#[derive(Clone)]
pub struct PoissonSampler {
    examples: u32,
    sampling_rate: f64,
    /// Sampling rate times 2^64, the bound on the random numbers of sampled examples; `None` if
    /// every example is in every batch.
    threshold: Option<u64>,
    rng: ChaCha20Rng,
}

/// ChaCha stream of the sampler. Noise that is drawn from the same seed by mistake still uses a
/// different key stream.
const STREAM: u64 = u64::from_le_bytes(*b"poisson\0");

/// Converts the number of examples to a number of 32 bits, which is at least one.
pub(super) fn number_of(examples: usize) -> Result<u32> {
    let number = u32::try_from(examples).ok().filter(|&number| number > 0);
    let why = "there must be at least one, and fewer than 2^32";
    let refused = || Error::setting("examples", examples, why).fix("check the training part");
    number.ok_or_else(refused)
}

impl PoissonSampler {
    /// Creates a sampler over this many examples.
    ///
    /// # Errors
    /// No examples, or 2^32 or more; a sampling rate outside (0, 1].
    pub fn new(examples: usize, sampling_rate: f64, seed: [u8; 32]) -> Result<Self> {
        let number = number_of(examples)?;
        if !(sampling_rate > 0.0 && sampling_rate <= 1.0) {
            let why = "a probability above 0 and at most 1: expected batch size / examples";
            return Err(Error::setting("sampling_rate", sampling_rate, why)
                .fix(format!("use an expected batch size from 1 to {}", format_count(examples))));
        }
        // Scaling by a power of two is exact, and `as` rounds towards zero.
        let threshold = (sampling_rate < 1.0).then(|| (sampling_rate * 2f64.powi(64)) as u64);
        let mut rng = ChaCha20Rng::from_seed(seed);
        rng.set_stream(STREAM);
        Ok(Self { examples: number, sampling_rate, threshold, rng })
    }

    /// Draws the next batch: the indices of its examples, ascending.
    pub fn next_batch(&mut self) -> Vec<u32> {
        let Some(threshold) = self.threshold else {
            return (0..self.examples).collect();
        };
        (0..self.examples).filter(|_| self.rng.next_u64() < threshold).collect()
    }

    /// Returns the number of examples that are sampled from.
    pub fn examples(&self) -> usize {
        self.examples as usize
    }

    /// Returns the probability with which each example is in a batch.
    pub fn sampling_rate(&self) -> f64 {
        self.sampling_rate
    }

    /// Returns the expected size of a batch: the divisor of the noisy sum.
    pub fn expected_batch_size(&self) -> f64 {
        self.sampling_rate * f64::from(self.examples)
    }
}

#[cfg(test)]
mod tests {
    use rand::seq::SliceRandom;

    use super::*;
    use crate::ErrorKind;

    const EXAMPLES: usize = 500;
    const RATE: f64 = 0.05;
    const STEPS: usize = 4000;

    /// Compares batches with Poisson sampling at `RATE`. Each statistic is standardised (mean 0
    /// and variance 1, nearly normal for these sizes) and must lie within 4.5 standard deviations.
    fn verdict(mut batch: impl FnMut() -> Vec<u32>) -> Result<(), String> {
        let (n, t, q) = (EXAMPLES as f64, STEPS as f64, RATE);
        let batches: Vec<Vec<u32>> = (0..STEPS).map(|_| batch()).collect();
        let mut counts = vec![0.0; EXAMPLES];
        let mut repeats = 0.0;
        let mut neighbours = 0.0;
        for (i, batch) in batches.iter().enumerate() {
            assert!(batch.is_sorted_by(|a, b| a < b), "ascending, each example once");
            batch.iter().for_each(|&i| counts[i as usize] += 1.0);
            neighbours += batch.windows(2).filter(|w| w[0] + 1 == w[1]).count() as f64;
            if let Some(next) = batches.get(i + 1) {
                repeats += batch.iter().filter(|&i| next.binary_search(i).is_ok()).count() as f64;
            }
        }
        let sizes: Vec<f64> = batches.iter().map(|batch| batch.len() as f64).collect();
        let (mean, variance) = (n * q, n * q * (1.0 - q));
        let spread: f64 = sizes.iter().map(|s| (s - mean).powi(2)).sum();
        let unevenness: f64 = counts.iter().map(|c| (c - t * q).powi(2)).sum();
        // A sum of k products of two draws with probability q: mean k q^2; its variance is that
        // of independent products plus the covariance of pairs that share a draw.
        let pairs = |seen: f64, k: f64| {
            let variance = k * (q * q * (1.0 - q * q) + 2.0 * (q.powi(3) - q.powi(4)));
            (seen - k * q * q) / variance.sqrt()
        };
        let statistics = [
            ("mean size", (sizes.iter().sum::<f64>() - t * mean) / (t * variance).sqrt()),
            ("variance of sizes", (spread / variance - t) / (2.0 * t).sqrt()),
            ("chi-square of counts", (unevenness / (t * q * (1.0 - q)) - n) / (2.0 * n).sqrt()),
            ("repeats in the next step", pairs(repeats, (t - 1.0) * n)),
            ("neighbours together", pairs(neighbours, t * (n - 1.0))),
        ];
        match statistics.iter().find(|(_, z)| z.abs() > 4.5) {
            None => Ok(()),
            Some((name, z)) => Err(format!("{name}: {z:.1} standard deviations off")),
        }
    }

    fn sampler(rate: f64, seed: u8) -> PoissonSampler {
        PoissonSampler::new(EXAMPLES, rate, [seed; 32]).unwrap()
    }

    #[test]
    fn batches_are_poisson_samples() {
        for seed in 1..4 {
            let mut sampler = sampler(RATE, seed);
            assert_eq!(verdict(|| sampler.next_batch()), Ok(()));
        }
    }

    #[track_caller]
    fn rejects(statistic: &str, batch: impl FnMut() -> Vec<u32>) {
        let reason = verdict(batch).expect_err("this sampler must be rejected");
        assert!(reason.starts_with(statistic), "{reason}");
    }

    #[test]
    fn a_sampling_rate_ten_percent_off_is_rejected() {
        let (mut low, mut high) = (sampler(RATE * 0.9, 1), sampler(RATE * 1.1, 1));
        rejects("mean size", || low.next_batch());
        rejects("mean size", || high.next_batch());
    }

    #[test]
    fn batches_of_fixed_size_from_shuffled_epochs_are_rejected() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let mut order: Vec<u32> = Vec::new();
        rejects("variance of sizes", || {
            if order.is_empty() {
                order = (0..EXAMPLES as u32).collect();
                order.shuffle(&mut rng);
            }
            let mut batch = order.split_off(order.len() - (EXAMPLES as f64 * RATE) as usize);
            batch.sort_unstable();
            batch
        });
    }

    #[test]
    fn draws_that_are_not_independent_are_rejected() {
        // Pairs of examples that only come together.
        let mut half = PoissonSampler::new(EXAMPLES / 2, RATE, [1; 32]).unwrap();
        rejects("variance of sizes", || {
            half.next_batch().iter().flat_map(|i| [2 * i, 2 * i + 1]).collect()
        });
        // The same batch in two steps running.
        let (mut inner, mut last) = (sampler(RATE, 2), None);
        let reason = verdict(|| match last.take() {
            Some(batch) => batch,
            None => last.insert(inner.next_batch()).clone(),
        });
        assert!(reason.is_err());
    }

    #[test]
    fn some_examples_more_often_than_others_are_rejected() {
        let (mut rare, mut frequent) = (sampler(RATE * 0.8, 1), sampler(RATE * 1.2, 2));
        rejects("chi-square of counts", || {
            let half = EXAMPLES as u32 / 2;
            let first = rare.next_batch().into_iter().filter(|&i| i < half);
            first.chain(frequent.next_batch().into_iter().filter(|&i| i >= half)).collect()
        });
    }

    #[test]
    fn a_rate_of_one_takes_all_and_a_tiny_one_hardly_any() {
        let all = PoissonSampler::new(5, 1.0, [0; 32]).unwrap().next_batch();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        let mut rare = PoissonSampler::new(100, 1e-9, [0; 32]).unwrap();
        assert!((0..100).all(|_| rare.next_batch().is_empty()));
    }

    #[test]
    fn the_same_seed_gives_the_same_batches_and_another_seed_others() {
        let (mut a, mut b, mut c) = (sampler(RATE, 7), sampler(RATE, 7), sampler(RATE, 8));
        let batches: Vec<_> = (0..3).map(|_| a.next_batch()).collect();
        assert_eq!(batches, (0..3).map(|_| b.next_batch()).collect::<Vec<_>>());
        assert_ne!(batches, (0..3).map(|_| c.next_batch()).collect::<Vec<_>>());
    }

    #[test]
    fn the_stream_of_sampling_is_not_the_plain_stream_of_its_seed() {
        let mut plain = ChaCha20Rng::from_seed([7; 32]);
        let mut sampling = sampler(RATE, 7).rng;
        assert_ne!(plain.next_u64(), sampling.next_u64());
    }

    #[test]
    fn impossible_settings_are_refused() {
        for rate in [0.0, -0.1, 1.0000001, f64::NAN, f64::INFINITY] {
            let error = PoissonSampler::new(10, rate, [0; 32]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Setting);
            assert!(error.to_string().starts_with("sampling_rate = "), "{error}");
        }
        for examples in [0, 1 << 32] {
            let error = PoissonSampler::new(examples, 0.1, [0; 32]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Setting);
        }
    }

    #[test]
    fn the_expected_batch_size_is_rate_times_examples() {
        let sampler = sampler(RATE, 1);
        assert_eq!((sampler.examples(), sampler.sampling_rate()), (EXAMPLES, RATE));
        assert!((sampler.expected_batch_size() - 25.0).abs() < 1e-12);
    }
}
