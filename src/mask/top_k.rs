//! Dropping the smallest scores over all tensors: exact counts, ties by index, at least one kept
//! coordinate per tensor.

use rayon::prelude::*;

/// For each tensor, which coordinates remain when the `drop` smallest scores over all tensors are
/// dropped.
///
/// `before` holds the flags of an earlier call; coordinates that it dropped rank below all scores.
/// NaN ranks as the smallest score. Ties are dropped in index order, tensor by tensor. Every tensor
/// keeps its last coordinate in this order; the next smallest score is dropped in its place, if
/// there is one.
///
/// The cost is linear in the number of scores. Synflow calls this 100 times with millions of
/// scores, so the inner loops avoid unpredictable branches.
pub(super) fn keep_largest(
    scores: &[&[f64]],
    drop: usize,
    before: Option<&[Vec<bool>]>,
) -> Vec<Vec<bool>> {
    let rank = |t: usize| RankedTensor::new(scores[t], before.map(|kept| kept[t].as_slice()));
    let tensors: Vec<RankedTensor> = (0..scores.len()).into_par_iter().map(rank).collect();
    let droppable: usize = tensors.iter().map(RankedTensor::droppable).sum();
    let drop = drop.min(droppable);
    if drop == 0 {
        return scores.iter().map(|scores| vec![true; scores.len()]).collect();
    }
    // The threshold depends on the keys alone. Keys of coordinates dropped before are not copied.
    let mut keys = vec![0; droppable];
    let copied = tensors.iter().fold(0, |at, tensor| at + tensor.copy_keys(&mut keys[at..]));
    let before_count = droppable - copied;
    let threshold = match drop.checked_sub(before_count + 1) {
        Some(nth) => *keys[..copied].select_nth_unstable(nth).1,
        None => DROPPED_BEFORE,
    };
    let below = match threshold {
        DROPPED_BEFORE => 0,
        // After the selection, no key in front of the threshold is larger than it.
        _ => {
            let in_front = keys[..drop - before_count].iter();
            before_count + in_front.filter(|&&key| key < threshold).count()
        }
    };
    let mut ties = drop - below;
    tensors.iter().map(|tensor| tensor.keep_above(threshold, &mut ties)).collect()
}

/// The key of coordinates that were dropped before, below the key of every score.
const DROPPED_BEFORE: i64 = i64::MIN;

/// The sort keys of one tensor.
struct RankedTensor {
    keys: Vec<i64>,
    /// The coordinate that is dropped last in the order; it is always kept.
    last: usize,
}

impl RankedTensor {
    fn new(scores: &[f64], before: Option<&[bool]>) -> Self {
        let mut keys: Vec<i64> = scores.iter().map(|&score| key(score)).collect();
        for (key, &kept) in keys.iter_mut().zip(before.unwrap_or_default()) {
            *key = if kept { *key } else { DROPPED_BEFORE };
        }
        let largest = keys.iter().fold(DROPPED_BEFORE, |a, &b| a.max(b));
        let last = keys.iter().rposition(|&key| key == largest).unwrap_or(0);
        Self { keys, last }
    }

    /// The number of coordinates that can be dropped.
    fn droppable(&self) -> usize {
        self.keys.len().saturating_sub(1)
    }

    /// Copies the keys above [`DROPPED_BEFORE`] of coordinates that can be dropped; returns their
    /// number.
    fn copy_keys(&self, keys: &mut [i64]) -> usize {
        let mut at = 0;
        let (before, after) = self.keys.split_at(self.last);
        for part in [before, after.get(1..).unwrap_or_default()] {
            for &key in part {
                // Branchless: the next key overwrites one that is not counted.
                keys[at] = key;
                at += usize::from(key > DROPPED_BEFORE);
            }
        }
        at
    }

    /// Keeps keys above the threshold, and of those equal to it all but the first `ties`. Reduces
    /// `ties` by the number of dropped coordinates.
    fn keep_above(&self, threshold: i64, ties: &mut usize) -> Vec<bool> {
        let mut kept: Vec<bool> = self.keys.iter().map(|&key| key > threshold).collect();
        for (i, &key) in self.keys.iter().enumerate() {
            if key == threshold && i != self.last {
                kept[i] = *ties == 0;
                *ties -= usize::from(*ties > 0);
            }
        }
        if let Some(last) = kept.get_mut(self.last) {
            *last = true;
        }
        kept
    }
}

/// An integer that is monotonic in the score, with NaN as the smallest. Integers compare faster
/// than floats and are totally ordered.
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
        let kept = keep_largest(&[&[3.0, 1.0], &[1.0, 0.5, 9.0]], 2, None);
        assert_eq!(kept, [vec![true, false], vec![true, false, true]]);
        let kept = keep_largest(&[&[1.0, 1.0], &[1.0, 1.0]], 1, None);
        assert_eq!(kept, [vec![false, true], vec![true, true]]);
    }

    #[test]
    fn each_tensor_keeps_one_coordinate_and_the_count_stays_exact() {
        let kept = keep_largest(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 3, None);
        assert_eq!(kept, [vec![false, true], vec![false, false, true]]);
        let all = keep_largest(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 5, None);
        assert_eq!(all.iter().flatten().filter(|&&kept| kept).count(), 2);
    }

    #[test]
    fn coordinates_dropped_before_stay_dropped() {
        let before = [vec![true, false], vec![true, true, true]];
        let kept = keep_largest(&[&[1.0, 9.0], &[2.0, 3.0, 4.0]], 2, Some(&before));
        assert_eq!(kept, [vec![true, false], vec![false, true, true]]);
    }

    #[test]
    fn nan_scores_are_dropped_first() {
        let kept = keep_largest(&[&[f64::NAN, -1.0, 2.0]], 1, None);
        assert_eq!(kept, [vec![false, true, true]]);
    }

    /// The specification: sorts all coordinates and drops them one by one.
    fn keep_largest_by_sorting(
        scores: &[&[f64]],
        drop: usize,
        before: Option<&[Vec<bool>]>,
    ) -> Vec<Vec<bool>> {
        let mut order = Vec::new();
        for (t, scores) in scores.iter().enumerate() {
            for (i, &score) in scores.iter().enumerate() {
                let kept_before = before.is_none_or(|kept| kept[t][i]);
                let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
                order.push((kept_before, if kept_before { score } else { 0.0 }, t, i));
            }
        }
        // A stable sort keeps ties in index order.
        order.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap());
        let mut kept: Vec<Vec<bool>> = scores.iter().map(|s| vec![true; s.len()]).collect();
        let mut drop = drop;
        for (_, _, t, i) in order {
            if drop > 0 && kept[t].iter().filter(|&&kept| kept).count() > 1 {
                (kept[t][i], drop) = (false, drop - 1);
            }
        }
        kept
    }

    #[test]
    fn selection_by_keys_equals_sorting() {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(4);
        const VALUES: [f64; 8] =
            [0.0, -0.0, 1.0, 2.5, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for case in 0..2000 {
            let sizes: Vec<usize> =
                (0..rng.random_range(1..4)).map(|_| rng.random_range(1..7)).collect();
            let scores: Vec<Vec<f64>> = sizes
                .iter()
                .map(|&n| (0..n).map(|_| VALUES[rng.random_range(0..VALUES.len())]).collect())
                .collect();
            let scores: Vec<&[f64]> = scores.iter().map(Vec::as_slice).collect();
            let before: Vec<Vec<bool>> =
                sizes.iter().map(|&n| (0..n).map(|_| rng.random()).collect()).collect();
            let before = (case % 3 > 0).then_some(before.as_slice());
            for drop in 0..=sizes.iter().sum::<usize>() + 1 {
                let fast = keep_largest(&scores, drop, before);
                assert_eq!(
                    fast,
                    keep_largest_by_sorting(&scores, drop, before),
                    "{scores:?} {before:?} {drop}"
                );
            }
        }
    }
}
