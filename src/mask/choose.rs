//! Choosing exactly so many coordinates of a tensor, fast enough for every step: a random subset,
//! or the smallest values.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;

/// Coordinates whose bytes come from one place of the stream.
const PIECE: usize = 1 << 15;

/// Ones for the coordinates that stay and zeros for `drop` others, each subset of that size with
/// the same probability. The choice depends on the key only, not on the number of threads.
///
/// Each coordinate first goes by a throw of its own. Given how many went, each subset of that
/// size is equally likely, whatever the probability of a throw; and stays so when random members
/// are added or taken out until the number is right. That takes a byte per coordinate and few
/// repairs (about √n, and n/512 more for a probability of only 8 bits).
pub(super) fn at_random(n: usize, drop: usize, key: [u8; 32]) -> Vec<f32> {
    let drop = drop.min(n);
    let mut kept = vec![1.0; n];
    let below = (256.0 * drop as f64 / n.max(1) as f64).round() as u16;
    let throw = |(piece, kept): (usize, &mut [f32])| {
        let mut rng = ChaCha20Rng::from_seed(key);
        // Stream 0 is for the repairs.
        rng.set_stream(1 + piece as u64);
        let mut bytes = [0; 4096];
        let mut left = 0;
        for kept in kept.chunks_mut(bytes.len()) {
            let bytes = &mut bytes[..kept.len()];
            rng.fill_bytes(bytes);
            left += keep(bytes, below, kept);
        }
        left
    };
    let mut left: usize = match n > PIECE {
        true => kept.par_chunks_mut(PIECE).enumerate().map(throw).sum(),
        false => kept.chunks_mut(PIECE).enumerate().map(throw).sum(),
    };
    let mut rng = ChaCha20Rng::from_seed(key);
    while left != n - drop {
        let (from, to) = if left > n - drop { (1.0, 0.0) } else { (0.0, 1.0) };
        let one = &mut kept[rng.random_range(0..n)];
        if *one == from {
            *one = to;
            left = if to == 0.0 { left - 1 } else { left + 1 };
        }
    }
    kept
}

/// Ones where a byte is not below; how many.
fn keep(bytes: &[u8], below: u16, kept: &mut [f32]) -> usize {
    let mut count = 0;
    for (kept, &byte) in kept.iter_mut().zip(bytes) {
        let stays = u16::from(byte) >= below;
        *kept = if stays { 1.0 } else { 0.0 };
        count += u32::from(stays);
    }
    count as usize
}

/// Ones for the coordinates that stay and zeros for the `drop` of the smallest absolute values,
/// ties broken by index. What is not a number counts as the smallest.
///
/// A histogram over the leading bits tells between which values the line runs; only those of one
/// bin have to be put in order.
pub(super) fn largest(values: &[f32], drop: usize) -> Vec<f32> {
    let drop = drop.min(values.len());
    // Two in turn: neighbours that fall into one bin needn't wait for each other.
    let (mut counts, mut others) = (vec![0u32; BINS], vec![0u32; BINS]);
    let (pairs, last) = values.as_chunks::<2>();
    for [a, b] in pairs {
        counts[bin(size(*a))] += 1;
        others[bin(size(*b))] += 1;
    }
    last.iter().for_each(|&value| counts[bin(size(value))] += 1);
    counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
    let (mut line, mut rest) = (0, drop);
    while rest > 0 && rest > counts[line] as usize {
        rest -= counts[line] as usize;
        line += 1;
    }
    let smallest = (line as u32) << BITS;
    let mut kept: Vec<f32> =
        values.iter().map(|&value| if size(value) < smallest { 0.0 } else { 1.0 }).collect();
    if rest > 0 {
        let on_the_line = values.iter().enumerate().filter(|(_, v)| bin(size(**v)) == line);
        let mut some: Vec<(u32, usize)> = on_the_line.map(|(i, &v)| (size(v), i)).collect();
        some.select_nth_unstable(rest - 1);
        some[..rest].iter().for_each(|&(_, i)| kept[i] = 0.0);
    }
    kept
}

/// Bits that a bin doesn't look at, and the number of bins.
const BITS: u32 = 16;
const BINS: usize = 1 << (31 - BITS);

/// A number that grows with the absolute value; 0 for what is not a number.
fn size(value: f32) -> u32 {
    if value.is_nan() { 0 } else { (value.to_bits() & 0x7fff_ffff) + 1 }
}

fn bin(size: u32) -> usize {
    (size >> BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::super::top_k;
    use super::*;

    fn dropped(kept: &[f32]) -> Vec<usize> {
        (0..kept.len()).filter(|&i| kept[i] == 0.0).collect()
    }

    #[test]
    fn random_choices_have_the_exact_size_and_go_by_their_key() {
        for n in [1, 2, 7, 255, 4097, 3 * PIECE + 5] {
            for drop in [0, 1, n / 3, n / 2, n - 1, n] {
                let kept = at_random(n, drop, [3; 32]);
                assert_eq!(dropped(&kept).len(), drop, "{drop} of {n}");
                assert!(kept.iter().all(|&k| k == 0.0 || k == 1.0));
                assert_eq!(kept, at_random(n, drop, [3; 32]));
            }
        }
        assert_ne!(at_random(100, 50, [3; 32]), at_random(100, 50, [4; 32]));
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let n = 5 * PIECE;
        let alone = one.install(|| at_random(n, n / 3, [3; 32]));
        assert_eq!(alone, at_random(n, n / 3, [3; 32]));
        // Pieces don't repeat each other.
        let pieces: Vec<&[f32]> = alone.chunks(PIECE).collect();
        for (i, a) in pieces.iter().enumerate() {
            for b in &pieces[..i] {
                let both = a.iter().zip(*b).filter(|(a, b)| **a == 0.0 && **b == 0.0).count();
                assert!((both as f64 - PIECE as f64 / 9.0).abs() < 6.0 * 60.0, "{both}");
            }
        }
    }

    /// Pearson's statistic of how often each of the subsets of 2 of 5 was chosen.
    fn spread(choose: impl Fn(u32) -> Vec<usize>) -> f64 {
        let mut counts = std::collections::BTreeMap::new();
        let trials = 20_000;
        (0..trials).for_each(|i| *counts.entry(choose(i)).or_insert(0.0) += 1.0);
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
    fn every_subset_is_equally_likely_and_a_biased_repair_is_noticed() {
        // Nine degrees of freedom: beyond 33.7 with a probability of 1e-4.
        let found = spread(|i| dropped(&at_random(5, 2, key(i))));
        assert!(found < 33.7, "{found}");
        let biased = spread(|i| {
            let mut kept = at_random(5, 1, key(i));
            let first = kept.iter().position(|&k| k == 1.0).unwrap_or(0);
            kept[first] = 0.0;
            dropped(&kept)
        });
        assert!(biased > 100.0, "the first in place of a random one must be noticed: {biased}");
    }

    #[test]
    fn the_smallest_are_those_of_a_full_sort() {
        let random = |i: usize| {
            let bits = (i as u32).wrapping_mul(0x9E37_79B9) ^ 0x5bd1_e995;
            (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let many: Vec<f32> = (0..5000).map(|i| random(i) * [1.0, 1e-3, 1e20][i % 3]).collect();
        let ties: Vec<f32> = (0..500).map(|i| [0.5, -0.5, 0.0, -0.0, 0.25][i % 5]).collect();
        let odd = vec![f32::NAN, f32::INFINITY, -1.0, 0.0, f32::MIN_POSITIVE, 1e-45, -f32::NAN];
        for values in [many, ties, vec![0.0; 300], odd] {
            let scores: Vec<f64> = values.iter().map(|&v| f64::from(v).abs()).collect();
            for drop in [0, 1, 2, values.len() / 3, values.len() / 2, values.len() - 1] {
                let right = top_k::keep_largest(&[&scores], drop, None).remove(0);
                let right: Vec<f32> = right.into_iter().map(f32::from).collect();
                assert_eq!(largest(&values, drop), right, "{drop} of {}", values.len());
            }
        }
    }
}
