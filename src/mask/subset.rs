//! Subsets of exact size of a tensor's coordinates: uniformly random, or the largest values.
//!
//! Both run in every training step with gradient dropping, so they are linear and vectorise.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;

/// Coordinates per parallel chunk. Each chunk has a ChaCha20 stream of its own.
const CHUNK: usize = 1 << 15;

/// Draws a uniformly random 0/1 vector of length `n` with exactly `drop` zeros.
///
/// The result depends on `key` only, not on the number of threads.
///
/// Each coordinate is first dropped independently, with a probability of 8 bits near `drop / n`.
/// Given the number of dropped coordinates, all subsets of that size are equally likely; this stays
/// true while uniformly chosen coordinates are added or removed until the number is exact. The cost
/// is one random byte per coordinate and about √n + n/512 corrections.
pub(super) fn random_subset(n: usize, drop: usize, key: [u8; 32]) -> Vec<f32> {
    let drop = drop.min(n);
    let mut kept = vec![1.0; n];
    let threshold = (256.0 * drop as f64 / n.max(1) as f64).round() as u16;
    let sample = |(chunk, kept): (usize, &mut [f32])| {
        let mut rng = ChaCha20Rng::from_seed(key);
        // Stream 0 is for the corrections.
        rng.set_stream(1 + chunk as u64);
        let mut bytes = [0; 4096];
        let mut count = 0;
        for kept in kept.chunks_mut(bytes.len()) {
            let bytes = &mut bytes[..kept.len()];
            rng.fill_bytes(bytes);
            count += keep_above(bytes, threshold, kept);
        }
        count
    };
    let mut count: usize = if n > CHUNK {
        kept.par_chunks_mut(CHUNK).enumerate().map(sample).sum()
    } else {
        kept.chunks_mut(CHUNK).enumerate().map(sample).sum()
    };
    let mut rng = ChaCha20Rng::from_seed(key);
    while count != n - drop {
        let (from, to) = if count > n - drop { (1.0, 0.0) } else { (0.0, 1.0) };
        let flag = &mut kept[rng.random_range(0..n)];
        if *flag == from {
            *flag = to;
            count = if to == 0.0 { count - 1 } else { count + 1 };
        }
    }
    kept
}

/// Writes 1 where a byte is at least `threshold` and 0 elsewhere; returns the number of ones.
fn keep_above(bytes: &[u8], threshold: u16, kept: &mut [f32]) -> usize {
    let mut count = 0;
    for (kept, &byte) in kept.iter_mut().zip(bytes) {
        let keep = u16::from(byte) >= threshold;
        *kept = if keep { 1.0 } else { 0.0 };
        count += u32::from(keep);
    }
    count as usize
}

/// Returns a 0/1 vector with zeros at the `drop` smallest absolute values and ones elsewhere.
///
/// Ties are dropped in index order; NaN counts as the smallest value.
///
/// A histogram over the leading bits finds the bin that holds the threshold; only the values of
/// that bin are ordered.
pub(super) fn largest_mask(values: &[f32], drop: usize) -> Vec<f32> {
    let drop = drop.min(values.len());
    // Two histograms, so that neighbouring values in one bin do not depend on each other.
    let (mut counts, mut odd_counts) = (vec![0u32; BINS], vec![0u32; BINS]);
    let (pairs, last) = values.as_chunks::<2>();
    for [a, b] in pairs {
        counts[bin(sort_key(*a))] += 1;
        odd_counts[bin(sort_key(*b))] += 1;
    }
    last.iter().for_each(|&value| counts[bin(sort_key(value))] += 1);
    counts.iter_mut().zip(odd_counts).for_each(|(count, odd)| *count += odd);
    let (mut threshold_bin, mut remaining) = (0, drop);
    while remaining > 0 && remaining > counts[threshold_bin] as usize {
        remaining -= counts[threshold_bin] as usize;
        threshold_bin += 1;
    }
    let threshold = (threshold_bin as u32) << BIN_BITS;
    let mut kept: Vec<f32> =
        values.iter().map(|&value| if sort_key(value) < threshold { 0.0 } else { 1.0 }).collect();
    if remaining > 0 {
        let in_bin = values.iter().enumerate().filter(|(_, v)| bin(sort_key(**v)) == threshold_bin);
        let mut candidates: Vec<(u32, usize)> = in_bin.map(|(i, &v)| (sort_key(v), i)).collect();
        candidates.select_nth_unstable(remaining - 1);
        candidates[..remaining].iter().for_each(|&(_, i)| kept[i] = 0.0);
    }
    kept
}

/// Number of low bits of a sort key that its bin ignores.
const BIN_BITS: u32 = 16;
const BINS: usize = 1 << (31 - BIN_BITS);

/// Returns an integer that is monotonic in the absolute value; 0 for NaN.
fn sort_key(value: f32) -> u32 {
    if value.is_nan() { 0 } else { (value.to_bits() & 0x7fff_ffff) + 1 }
}

fn bin(sort_key: u32) -> usize {
    (sort_key >> BIN_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::super::top_k;
    use super::*;

    fn dropped(kept: &[f32]) -> Vec<usize> {
        (0..kept.len()).filter(|&i| kept[i] == 0.0).collect()
    }

    #[test]
    fn random_subsets_have_the_exact_size_and_depend_on_the_key_only() {
        for n in [1, 2, 7, 255, 4097, 3 * CHUNK + 5] {
            for drop in [0, 1, n / 3, n / 2, n - 1, n] {
                let kept = random_subset(n, drop, [3; 32]);
                assert_eq!(dropped(&kept).len(), drop, "{drop} of {n}");
                assert!(kept.iter().all(|&k| k == 0.0 || k == 1.0));
                assert_eq!(kept, random_subset(n, drop, [3; 32]));
            }
        }
        assert_ne!(random_subset(100, 50, [3; 32]), random_subset(100, 50, [4; 32]));
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let n = 5 * CHUNK;
        let subset = one_thread.install(|| random_subset(n, n / 3, [3; 32]));
        assert_eq!(subset, random_subset(n, n / 3, [3; 32]));
        // The chunks are independent of each other.
        let chunks: Vec<&[f32]> = subset.chunks(CHUNK).collect();
        for (i, a) in chunks.iter().enumerate() {
            for b in &chunks[..i] {
                let both = a.iter().zip(*b).filter(|(a, b)| **a == 0.0 && **b == 0.0).count();
                assert!((both as f64 - CHUNK as f64 / 9.0).abs() < 6.0 * 60.0, "{both}");
            }
        }
    }

    /// Computes Pearson's chi-squared statistic of the counts of the ten subsets of 2 out of 5.
    fn chi_squared(sample: impl Fn(u32) -> Vec<usize>) -> f64 {
        let mut counts = std::collections::BTreeMap::new();
        let trials = 20_000;
        (0..trials).for_each(|i| *counts.entry(sample(i)).or_insert(0.0) += 1.0);
        let expected = f64::from(trials) / 10.0;
        let missing = (10.0 - counts.len() as f64) * expected;
        counts.values().map(|c: &f64| (c - expected).powi(2) / expected).sum::<f64>() + missing
    }

    fn key(i: u32) -> [u8; 32] {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&i.to_le_bytes());
        key
    }

    #[test]
    fn all_subsets_are_equally_likely_and_a_biased_correction_is_detected() {
        // Nine degrees of freedom: P(statistic > 33.7) = 1e-4.
        let statistic = chi_squared(|i| dropped(&random_subset(5, 2, key(i))));
        assert!(statistic < 33.7, "{statistic}");
        let biased = chi_squared(|i| {
            let mut kept = random_subset(5, 1, key(i));
            let first = kept.iter().position(|&k| k == 1.0).unwrap_or(0);
            kept[first] = 0.0;
            dropped(&kept)
        });
        assert!(biased > 100.0, "always dropping the first kept one must be detected: {biased}");
    }

    #[test]
    fn the_largest_mask_equals_a_full_sort() {
        let random = |i: usize| {
            let bits = (i as u32).wrapping_mul(0x9E37_79B9) ^ 0x5bd1_e995;
            (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let many: Vec<f32> = (0..5000).map(|i| random(i) * [1.0, 1e-3, 1e20][i % 3]).collect();
        let ties: Vec<f32> = (0..500).map(|i| [0.5, -0.5, 0.0, -0.0, 0.25][i % 5]).collect();
        let special = vec![f32::NAN, f32::INFINITY, -1.0, 0.0, f32::MIN_POSITIVE, 1e-45, -f32::NAN];
        for values in [many, ties, vec![0.0; 300], special] {
            let scores: Vec<f64> = values.iter().map(|&v| f64::from(v).abs()).collect();
            for drop in [0, 1, 2, values.len() / 3, values.len() / 2, values.len() - 1] {
                let expected = top_k::largest_masks(&[&scores], drop).remove(0);
                let expected: Vec<f32> = expected.into_iter().map(f32::from).collect();
                assert_eq!(largest_mask(&values, drop), expected, "{drop} of {}", values.len());
            }
        }
    }
}
