//! Dropping the smallest of many scores: exact counts, ties by index, one survivor per tensor.

use rayon::prelude::*;

/// Flags for each tensor: all kept but the `drop` smallest scores over all tensors. Coordinates
/// that `before` has dropped already count as smaller than any score; ties go by index (tensors
/// one after the other). The last coordinate of a tensor is never dropped: it is passed over, and
/// the next smallest score goes instead, as long as there is one. Scores that are not numbers
/// count as the smallest.
///
/// Linear in the number of scores: there may be many millions, a hundred times over. Loops over
/// them avoid branches, which no processor could foresee.
pub(super) fn keep_largest(
    scores: &[&[f64]],
    drop: usize,
    before: Option<&[Vec<bool>]>,
) -> Vec<Vec<bool>> {
    let one = |t: usize| Tensor::new(scores[t], before.map(|kept| kept[t].as_slice()));
    let tensors: Vec<Tensor> = (0..scores.len()).into_par_iter().map(one).collect();
    let free: usize = tensors.iter().map(Tensor::free).sum();
    let drop = drop.min(free);
    if drop == 0 {
        return scores.iter().map(|scores| vec![true; scores.len()]).collect();
    }
    // The keys alone say where to cut. Those that go first need not be looked at.
    let mut keys = vec![0; free];
    let filled = tensors.iter().fold(0, |at, tensor| at + tensor.fill(&mut keys[at..]));
    let first = free - filled;
    let cut = match drop.checked_sub(first + 1) {
        Some(nth) => *keys[..filled].select_nth_unstable(nth).1,
        None => FIRST,
    };
    let below = match cut {
        FIRST => 0,
        // Everything before the cut's place is no larger than it.
        _ => first + keys[..drop - first].iter().filter(|&&key| key < cut).count(),
    };
    let mut ties = drop - below;
    tensors.iter().map(|tensor| tensor.cut(cut, &mut ties)).collect()
}

/// What was dropped before: below the key of any score.
const FIRST: i64 = i64::MIN;

/// One tensor's part of the order.
struct Tensor {
    keys: Vec<i64>,
    /// The coordinate that would go last, the only one that can be passed over.
    last: usize,
}

impl Tensor {
    fn new(scores: &[f64], before: Option<&[bool]>) -> Self {
        let mut keys: Vec<i64> = scores.iter().map(|&score| key(score)).collect();
        for (key, &kept) in keys.iter_mut().zip(before.unwrap_or_default()) {
            *key = if kept { *key } else { FIRST };
        }
        let largest = keys.iter().fold(FIRST, |a, &b| a.max(b));
        let last = keys.iter().rposition(|&key| key == largest).unwrap_or(0);
        Self { keys, last }
    }

    /// How many coordinates may be dropped.
    fn free(&self) -> usize {
        self.keys.len().saturating_sub(1)
    }

    /// Writes the keys above `FIRST` that may be dropped; returns how many.
    fn fill(&self, keys: &mut [i64]) -> usize {
        let mut at = 0;
        let (before, after) = self.keys.split_at(self.last);
        for part in [before, after.get(1..).unwrap_or_default()] {
            for &key in part {
                // The next one overwrites what doesn't count.
                keys[at] = key;
                at += usize::from(key > FIRST);
            }
        }
        at
    }

    /// Keeps what lies above the cut, and of what lies on it all but the first `ties`.
    fn cut(&self, cut: i64, ties: &mut usize) -> Vec<bool> {
        let mut kept: Vec<bool> = self.keys.iter().map(|&key| key > cut).collect();
        for (i, &key) in self.keys.iter().enumerate() {
            if key == cut && i != self.last {
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

/// Whole numbers in the order of the scores, which compare faster and never fail to.
fn key(score: f64) -> i64 {
    // Plus zero: -0 and 0 are a tie.
    let score = if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 };
    let bits = score.to_bits() as i64;
    // Negative floats count backwards.
    bits ^ ((bits >> 63) & i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_go_first_and_ties_by_index() {
        let kept = keep_largest(&[&[3.0, 1.0], &[1.0, 0.5, 9.0]], 2, None);
        assert_eq!(kept, [vec![true, false], vec![true, false, true]]);
        let kept = keep_largest(&[&[1.0, 1.0], &[1.0, 1.0]], 1, None);
        assert_eq!(kept, [vec![false, true], vec![true, true]]);
    }

    #[test]
    fn each_tensor_keeps_one_and_the_count_is_made_up_elsewhere() {
        let kept = keep_largest(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 3, None);
        assert_eq!(kept, [vec![false, true], vec![false, false, true]]);
        let all = keep_largest(&[&[0.0, 0.1], &[5.0, 6.0, 7.0]], 5, None);
        assert_eq!(all.iter().flatten().filter(|&&kept| kept).count(), 2);
    }

    #[test]
    fn what_was_dropped_before_stays_dropped() {
        let before = [vec![true, false], vec![true, true, true]];
        let kept = keep_largest(&[&[1.0, 9.0], &[2.0, 3.0, 4.0]], 2, Some(&before));
        assert_eq!(kept, [vec![true, false], vec![false, true, true]]);
    }

    #[test]
    fn scores_that_are_no_numbers_go_first() {
        let kept = keep_largest(&[&[f64::NAN, -1.0, 2.0]], 1, None);
        assert_eq!(kept, [vec![false, true, true]]);
    }

    /// The rule word for word: everything in order, one after the other.
    fn one_by_one(scores: &[&[f64]], drop: usize, before: Option<&[Vec<bool>]>) -> Vec<Vec<bool>> {
        let mut order = Vec::new();
        for (t, scores) in scores.iter().enumerate() {
            for (i, &score) in scores.iter().enumerate() {
                let stayed = before.is_none_or(|kept| kept[t][i]);
                let known = if score.is_nan() { f64::NEG_INFINITY } else { score };
                order.push((stayed, if stayed { known } else { 0.0 }, t, i));
            }
        }
        // Stable, so that ties stay in the order of the indices.
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
    fn cutting_by_keys_is_going_one_by_one() {
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
                assert_eq!(fast, one_by_one(&scores, drop, before), "{scores:?} {before:?} {drop}");
            }
        }
    }
}
