//! Synthetic batches, the same every time.

use std::f64::consts::TAU;

use epsilab::Result;
use epsilab::engine::Batch;

use super::zoo::{Entry, Features};

/// Number of batches that are kept in memory and used in turn.
pub const POOL_SIZE: usize = 4;

/// The batches, of `examples` examples each.
pub fn pool(entry: &Entry, examples: usize) -> Result<Vec<Batch>> {
    let mut random = SplitMix(0);
    let size = examples * entry.shape.iter().product::<usize>();
    let batch = |_| {
        let features = (0..size).map(|_| match entry.features {
            Features::Pixels => random.normal() as f32,
            Features::Tokens(vocabulary) => random.below(vocabulary) as f32,
        });
        let features = features.collect();
        let labels = (0..examples).map(|_| random.below(entry.classes)).collect();
        Batch::new(features, entry.shape, labels)
    };
    (0..POOL_SIZE).map(batch).collect()
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::super::zoo::{ZOO, find};
    use super::*;

    #[test]
    fn pixels_are_standard_normal_and_labels_cover_the_classes() {
        let pool = pool(find("papernot_cnn").unwrap(), 64).unwrap();
        assert_eq!(pool.len(), POOL_SIZE);
        let all: Vec<f64> = pool
            .iter()
            .flat_map(|batch| (0..batch.len()).flat_map(|i| batch.features(i)))
            .map(|&x| f64::from(x))
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        for class in 0..10 {
            assert!(pool.iter().any(|batch| batch.labels().contains(&class)), "{class}");
        }
        assert_ne!(pool[0], pool[1]);
    }

    #[test]
    fn every_model_takes_its_data() {
        for entry in ZOO {
            let model = entry.model().unwrap();
            assert_eq!(model.input_shape(), entry.shape, "{}", entry.name);
            let batches = pool(entry, 2).unwrap();
            if let Features::Tokens(vocabulary) = entry.features {
                let whole = |x: &f32| x.fract() == 0.0 && *x >= 0.0 && *x < vocabulary as f32;
                assert!(batches[0].features(0).iter().all(whole));
            }
        }
    }
}
