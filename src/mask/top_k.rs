//! Dropping the smallest scores over all tensors: exact counts, ties by index, at least one kept
//! coordinate per tensor.

use std::collections::HashMap;

use rayon::prelude::*;

/// Returns for each tensor the coordinates that remain when the `drop` smallest scores over all
/// tensors are dropped. See [`drop_smallest`] for the order.
pub(super) fn largest_masks(scores: &[&[f64]], drop: usize) -> Vec<Vec<bool>> {
    let mut kept: Vec<_> = scores.iter().map(|scores| vec![true; scores.len()]).collect();
    drop_smallest(scores, drop, &mut kept);
    kept
}

/// Drops coordinates of all tensors together, in the order of their scores from the smallest,
/// until `drop` are dropped. Coordinates that are not `kept` count as dropped and stay so.
///
/// NaN ranks as the smallest score. Ties are dropped in index order, tensor by tensor. Every tensor
/// keeps its last coordinate in this order; the next smallest score is dropped in its place, if
/// there is one.
///
/// The cost is linear in the number of scores: three passes, which write nothing but the flags.
/// Synflow calls this 100 times with millions of scores.
pub(super) fn drop_smallest(scores: &[&[f64]], drop: usize, kept: &mut [Vec<bool>]) {
    let tensors = || scores.par_iter().zip(&*kept).enumerate().with_max_len(1);
    let add = |count: ScoreHistogram, (t, (scores, kept)): (usize, (&&[f64], &Vec<bool>))| {
        count.with_tensor(t, scores, kept)
    };
    let ScoreHistogram { bins, last } =
        tensors().fold(ScoreHistogram::new, add).reduce(ScoreHistogram::new, ScoreHistogram::merge);
    let candidates: usize = bins.iter().map(|&count| count as usize).sum();
    let all: usize = scores.iter().map(|scores| scores.len()).sum();
    let dropped = all - candidates - last.len();
    let to_drop = drop.saturating_sub(dropped).min(candidates);
    if to_drop == 0 {
        return;
    }
    let last: HashMap<usize, usize> = last.into_iter().collect();
    let is_last = |t: usize, i: usize| last.get(&t) == Some(&i);

    // The bin of the last coordinate to drop, and what has to be dropped of that bin.
    let (mut bin, mut rest) = (0, to_drop);
    while rest > bins[bin] as usize {
        rest -= bins[bin] as usize;
        bin += 1;
    }
    let keys_in_bin = tensors().map(|(t, (scores, kept))| -> Vec<i64> {
        let keys = scores.iter().map(|&score| key(score)).enumerate().zip(kept);
        let in_bin = keys.filter(|((_, key), kept)| bin_of(*key) == bin && **kept);
        in_bin.filter(|&((i, _), _)| !is_last(t, i)).map(|((_, key), _)| key).collect()
    });
    let mut keys = keys_in_bin.collect::<Vec<_>>().concat();
    let (smaller, &mut threshold, _) = keys.select_nth_unstable(rest - 1);
    let ties = rest - smaller.iter().filter(|&&key| key < threshold).count();

    let tensors = scores.par_iter().zip(&mut *kept).enumerate().with_max_len(1);
    let equal = tensors.map(|(t, (scores, kept))| -> Vec<(usize, usize)> {
        let mut equal = Vec::new();
        for (i, (kept, &score)) in kept.iter_mut().zip(*scores).enumerate() {
            let key = key(score);
            if key == threshold && *kept && !is_last(t, i) {
                equal.push((t, i));
            }
            *kept &= key >= threshold;
        }
        if let Some(&last) = last.get(&t) {
            kept[last] = true;
        }
        equal
    });
    for (t, i) in equal.collect::<Vec<_>>().into_iter().flatten().take(ties) {
        kept[t][i] = false;
    }
}

/// Number of bits of a score in a bin, its sign, its exponent and four more bits: 16 bins for each
/// power of two.
const BIN_BITS: u32 = 16;

/// Histogram of the scores of the candidates.
struct ScoreHistogram {
    bins: Vec<u32>,
    /// Tensor and index of the coordinates that rank last in their tensor, so are never dropped.
    /// They are not counted.
    last: Vec<(usize, usize)>,
}

impl ScoreHistogram {
    fn new() -> Self {
        Self { bins: vec![0; 1 << BIN_BITS], last: Vec::new() }
    }

    /// Adds the kept coordinates of tensor `t`.
    fn with_tensor(mut self, t: usize, scores: &[f64], kept: &[bool]) -> Self {
        let mut last = None;
        for (i, (&score, &kept)) in scores.iter().zip(kept).enumerate() {
            let key = key(score);
            // Branchless: flags are unpredictable.
            self.bins[bin_of(key)] += u32::from(kept);
            if kept && last.is_none_or(|(_, largest)| key >= largest) {
                last = Some((i, key));
            }
        }
        if let Some((i, key)) = last {
            self.bins[bin_of(key)] -= 1;
            self.last.push((t, i));
        }
        self
    }

    fn merge(mut self, other: Self) -> Self {
        self.bins.iter_mut().zip(other.bins).for_each(|(count, other)| *count += other);
        self.last.extend(other.last);
        self
    }
}

/// Returns the bin of a key; monotonic.
fn bin_of(key: i64) -> usize {
    ((key as u64 ^ (1 << 63)) >> (64 - BIN_BITS)) as usize
}

/// Returns an integer that is monotonic in the score, with NaN as the smallest. Integers compare
/// faster than floats and are totally ordered.
fn key(score: f64) -> i64 {
    // Adding 0 turns -0 into 0, so that the two tie.
    let score = if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 };
    let bits = score.to_bits() as i64;
    // The bits of negative floats are in reverse order.
    bits ^ ((bits >> 63) & i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_scores_are_dropped_and_ties_by_index() {
        let kept = largest_masks(&[&[3.0, 1.0], &[1.0, 0.5, 9.0]], 2);
        assert_eq!(kept, [vec![true, false], vec![true, false, true]]);
        let kept = largest_masks(&[&[1.0, 1.0], &[1.0, 1.0]], 1);
        assert_eq!(kept, [vec![false, true], vec![true, true]]);
    }

    #[test]
    fn each_tensor_keeps_one_coordinate_and_the_count_stays_exact() {
        let kept = largest_masks(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 3);
        assert_eq!(kept, [vec![false, true], vec![false, false, true]]);
        let all = largest_masks(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 5);
        assert_eq!(all.iter().flatten().filter(|&&kept| kept).count(), 2);
    }

    #[test]
    fn coordinates_dropped_before_stay_dropped() {
        let mut kept = [vec![true, false], vec![true, true, true]];
        drop_smallest(&[&[1.0, 9.0], &[2.0, 3.0, 4.0]], 2, &mut kept);
        assert_eq!(kept, [vec![true, false], vec![false, true, true]]);
    }

    #[test]
    fn nan_scores_are_dropped_first() {
        let kept = largest_masks(&[&[f64::NAN, -1.0, 2.0]], 1);
        assert_eq!(kept, [vec![false, true, true]]);
    }

    /// Drops scores by the specification: sorts all kept coordinates and drops them one by one.
    fn drop_by_sorting(scores: &[&[f64]], drop: usize, kept: &mut [Vec<bool>]) {
        let mut order = Vec::new();
        for (t, scores) in scores.iter().enumerate() {
            for (i, &score) in scores.iter().enumerate().filter(|&(i, _)| kept[t][i]) {
                order.push((if score.is_nan() { f64::NEG_INFINITY } else { score }, t, i));
            }
        }
        // A stable sort keeps ties in index order.
        order.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap());
        for (_, t, i) in order {
            let dropped = kept.iter().flatten().filter(|&&kept| !kept).count();
            if dropped < drop && kept[t].iter().filter(|&&kept| kept).count() > 1 {
                kept[t][i] = false;
            }
        }
    }

    #[test]
    fn selection_by_bins_equals_sorting() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(4);
        // Three of them are in one bin.
        const VALUES: [f64; 10] = [
            0.0,
            -0.0,
            1.0,
            1.001,
            1.0 + f64::EPSILON,
            2.5,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        for case in 0..2000 {
            let sizes: Vec<usize> =
                (0..rng.random_range(1..4)).map(|_| rng.random_range(1..7)).collect();
            let scores: Vec<Vec<f64>> = sizes
                .iter()
                .map(|&n| (0..n).map(|_| VALUES[rng.random_range(0..VALUES.len())]).collect())
                .collect();
            let scores: Vec<&[f64]> = scores.iter().map(Vec::as_slice).collect();
            let flags = |&n: &usize| (0..n).map(|_| case % 3 == 0 || rng.random()).collect();
            let before: Vec<Vec<bool>> = sizes.iter().map(flags).collect();
            for drop in 0..=sizes.iter().sum::<usize>() + 1 {
                let (mut fast, mut sorted) = (before.clone(), before.clone());
                drop_smallest(&scores, drop, &mut fast);
                drop_by_sorting(&scores, drop, &mut sorted);
                assert_eq!(fast, sorted, "{scores:?} {before:?} {drop}");
            }
        }
    }
}
