//! Mean, spread, and the size of a difference that is only noise.

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation, with n - 1 as divisor; `None` for fewer than two values.
pub(super) fn std(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    Some((squares(values, mean) / (values.len() - 1) as f64).sqrt())
}

/// The standard deviation that all groups are taken to share, and its degrees of freedom; `None`
/// if no group has two values.
pub(super) fn pooled_std(groups: &[Vec<f64>]) -> Option<(f64, usize)> {
    let freedom: usize = groups.iter().map(|group| group.len().saturating_sub(1)).sum();
    let sum: f64 = groups.iter().filter_map(|group| Some(squares(group, mean(group)?))).sum();
    (freedom > 0).then(|| ((sum / freedom as f64).sqrt(), freedom))
}

/// About two standard errors of the difference of two means over `seeds` runs each.
pub(super) fn threshold(pooled_std: f64, seeds: u64) -> f64 {
    2.0 * pooled_std * (2.0 / seeds as f64).sqrt()
}

fn squares(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_that_of_a_sample() {
        assert_eq!((mean(&[]), std(&[]), std(&[0.5])), (None, None, None));
        assert_eq!(mean(&[0.25, 0.75]), Some(0.5));
        let sd = std(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12, "n - 1 is the divisor, not n: {sd}");
    }

    #[test]
    fn groups_are_pooled_by_their_degrees_of_freedom() {
        // Variances 2 (1 degree) and 1 (2 degrees); a group of one says nothing.
        let groups = [vec![0.0, 2.0], vec![5.0, 6.0, 7.0], vec![100.0]];
        let (pooled, freedom) = pooled_std(&groups).unwrap();
        assert_eq!(freedom, 3);
        assert!((pooled - (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(pooled_std(&[vec![1.0], vec![2.0]]), None);
        assert!((threshold(0.01, 2) - 0.02).abs() < 1e-15);
        assert!((threshold(0.01, 8) - 0.01).abs() < 1e-15);
    }
}
