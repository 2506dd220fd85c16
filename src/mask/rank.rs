//! Dropping the smallest of many scores: exact counts, ties by index, one survivor per tensor.

/// Flags for each tensor: all kept but the `drop` smallest scores over all tensors. Coordinates
/// that `before` has dropped already go first; then by score, then by index (tensors one after
/// the other). The last coordinate of a tensor is never dropped: it is passed over, and the next
/// smallest score goes instead, as long as there is one. Scores that are not numbers count as the
/// smallest.
pub(super) fn keep_largest(
    scores: &[&[f64]],
    drop: usize,
    before: Option<&[Vec<bool>]>,
) -> Vec<Vec<bool>> {
    let stayed = |t: usize, i: usize| before.is_none_or(|kept| kept[t][i]);
    // Only the very last coordinate of a tensor in this order can be passed over.
    let last: Vec<Option<usize>> = scores
        .iter()
        .enumerate()
        .map(|(t, scores)| (0..scores.len()).max_by_key(|&i| (stayed(t, i), key(scores[i]), i)))
        .collect();
    let mut kept: Vec<Vec<bool>> = scores.iter().map(|scores| vec![true; scores.len()]).collect();
    let mut left = drop;
    for class in [false, true] {
        let among = |t: usize, i: usize| stayed(t, i) == class && last[t] != Some(i);
        left -= drop_smallest(&mut kept, scores, left, among);
    }
    kept
}

/// Drops up to `drop` of the coordinates that `among` names: the smallest scores, then the first
/// indices. Returns how many.
fn drop_smallest(
    kept: &mut [Vec<bool>],
    scores: &[&[f64]],
    drop: usize,
    among: impl Fn(usize, usize) -> bool,
) -> usize {
    // The keys alone say where to cut, in linear time: masks are made of many millions.
    let mut keys = Vec::new();
    for (t, scores) in scores.iter().enumerate() {
        let named = scores.iter().enumerate().filter(|&(i, _)| among(t, i));
        keys.extend(named.map(|(_, &score)| key(score)));
    }
    let drop = drop.min(keys.len());
    if drop == 0 {
        return 0;
    }
    let cut = *keys.select_nth_unstable(drop - 1).1;
    let mut ties = drop - keys[..drop].iter().filter(|&&key| key < cut).count();
    for (t, scores) in scores.iter().enumerate() {
        for (i, &score) in scores.iter().enumerate() {
            let key = key(score);
            if key > cut || !among(t, i) {
                continue;
            }
            if key == cut {
                if ties == 0 {
                    continue;
                }
                ties -= 1;
            }
            kept[t][i] = false;
        }
    }
    drop
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
                let score = if score.is_nan() { f64::NEG_INFINITY } else { score };
                order.push((before.is_none_or(|kept| kept[t][i]), score, t, i));
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
