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
    let dropped = |t: usize, i: usize| before.is_some_and(|kept| !kept[t][i]);
    let mut order: Vec<(bool, f64, usize, usize)> = Vec::new();
    for (t, scores) in scores.iter().enumerate() {
        for (i, &score) in scores.iter().enumerate() {
            // Plus zero: -0 and 0 are a tie.
            let score = if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 };
            order.push((!dropped(t, i), score, t, i));
        }
    }
    let by = |a: &(bool, f64, usize, usize), b: &(bool, f64, usize, usize)| {
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)).then(a.3.cmp(&b.3))
    };
    order.sort_unstable_by(by);
    let mut kept: Vec<Vec<bool>> = scores.iter().map(|scores| vec![true; scores.len()]).collect();
    let mut left: Vec<usize> = scores.iter().map(|scores| scores.len()).collect();
    let mut drop = drop;
    for (_, _, t, i) in order {
        if drop == 0 {
            break;
        }
        if left[t] > 1 {
            (kept[t][i], left[t], drop) = (false, left[t] - 1, drop - 1);
        }
    }
    kept
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
}
