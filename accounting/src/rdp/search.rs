//! Minimisation of a unimodal sequence.

/// Returns the index and value of the minimum of `value(0)`, …, `value(length - 1)`, a sequence
/// that first decreases and then increases.
///
/// The search starts at `guess` with steps that double, so it rarely evaluates the ends, which may
/// be slow. It then bisects the remaining interval. It stops early at a value of 0 or less, because
/// epsilon is clamped at 0. Infinite values count as part of the increasing end.
///
/// Epsilon as a function of the order alpha is unimodal. With m = alpha - 1 it is N(m) / m, where
/// N(m) = m R(alpha) + m ln(m / (m+1)) - ln(m+1) - ln delta is convex because m R(alpha) is convex
/// (van Erven, Harremoës: Rényi Divergence and Kullback-Leibler Divergence, 2014, Corollary 2). A
/// convex function divided by m has convex sublevel sets. If rounding, or an upper bound in place
/// of an exact divergence, breaks this property, the result is still one of the values and so a
/// valid bound.
pub(super) fn argmin(
    length: usize,
    guess: usize,
    mut value: impl FnMut(usize) -> f64,
) -> (usize, f64) {
    // Positions count from 1. The minimum lies strictly between `low` and `high`; 0 and `length +
    // 1` are sentinels.
    let (mut low, mut high) = (0, length + 1);
    let mut best = (guess + 1).clamp(1, length);
    let mut min_value = value(best - 1);
    let mut stride = 1;
    while min_value > 0.0 {
        let (left, right) = (best - low - 1, high - best - 1);
        let (left_is_open, right_is_open) = (low == 0, high == length + 1);
        let go_left = match (left, right) {
            (0, 0) => break,
            (0, _) => false,
            (_, 0) => true,
            _ => left_is_open || (!right_is_open && left > right),
        };
        let (unexplored, open) =
            if go_left { (left, left_is_open) } else { (right, right_is_open) };
        let step = if open { stride.min(unexplored) } else { unexplored.div_ceil(2) };
        stride *= 2;
        let probe = if go_left { best - step } else { best + step };
        let found = value(probe - 1);
        let better = found < min_value || (go_left && min_value == f64::INFINITY);
        match (better, go_left) {
            (true, true) => (high, best, min_value) = (best, probe, found),
            (true, false) => (low, best, min_value) = (best, probe, found),
            (false, true) => low = probe,
            (false, false) => high = probe,
        }
    }
    (best - 1, min_value)
}

/// Returns the index and value of the minimum of any sequence.
pub(super) fn scan(length: usize, value: impl FnMut(usize) -> f64) -> (usize, f64) {
    let values = (0..length).map(value).enumerate();
    values.fold((0, f64::INFINITY), |best, next| if next.1 < best.1 { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_found_from_every_guess() {
        for length in [1, 2, 3, 7, 176] {
            for lowest in 0..length {
                for guess in 0..=length {
                    let value = |i: usize| 1.0 + (i as f64 - lowest as f64).abs();
                    assert_eq!(argmin(length, guess, value), (lowest, 1.0));
                    // The increasing part may soon be infinite, and steeper than the decreasing
                    // part.
                    let wall = |i: usize| {
                        if i > lowest + 1 {
                            f64::INFINITY
                        } else {
                            1.0 + (lowest as f64 - i as f64).powi(2)
                        }
                    };
                    assert_eq!(argmin(length, guess, wall), (lowest, 1.0));
                }
            }
        }
    }

    #[test]
    fn few_values_are_evaluated_and_none_twice() {
        for (guess, most) in [(60, 12), (55, 16), (0, 20), (175, 20)] {
            let mut looked = Vec::new();
            let value = |i: usize| {
                looked.push(i);
                1.0 + (i as f64 - 60.0).powi(2)
            };
            assert_eq!(argmin(176, guess, value).0, 60);
            assert!(looked.len() <= most, "{} of 176 from {guess}", looked.len());
            let count = looked.len();
            looked.sort_unstable();
            looked.dedup();
            assert_eq!(looked.len(), count);
        }
    }

    #[test]
    fn all_infinite_terminates_and_a_value_below_zero_stops_at_once() {
        assert_eq!(argmin(9, 9, |_| f64::INFINITY).1, f64::INFINITY);
        let mut looked = 0;
        let free = argmin(9, 4, |_| {
            looked += 1;
            -1.0
        });
        assert_eq!((free, looked), ((4, -1.0), 1));
    }
}
