//! Means and standard deviations over seeds, and the comparison of two means.

/// Number of standard errors from which a difference is marked.
pub(super) const MARK_THRESHOLD: f64 = 2.0;

/// Mean and sum of squared deviations over the seeds of one setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::show::figures) struct SeedStats {
    pub count: usize,
    pub mean: f64,
    /// Σ (x - mean)².
    sum_of_squares: f64,
}

impl SeedStats {
    pub(in crate::show::figures) fn from_values(values: &[f64]) -> Self {
        let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let squares = values.iter().map(|v| (v - mean).powi(2)).sum();
        Self { count: values.len(), mean, sum_of_squares: squares }
    }

    /// Returns the sample standard deviation (divisor n - 1); `None` for fewer than two seeds.
    pub(in crate::show::figures) fn deviation(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.sum_of_squares / (self.count - 1) as f64).sqrt())
    }
}

/// Variance of a single seed, pooled over the cases of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PooledVariance {
    variance: f64,
    /// Degrees of freedom: the sum of (seeds - 1) over the cases.
    pub(crate) degrees_of_freedom: usize,
}

impl PooledVariance {
    /// Returns the pooled standard deviation.
    pub(crate) fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Returns the smallest difference of two means of `seeds` seeds that can be marked.
    /// [`standard_errors_above`] may require a larger one.
    pub(crate) fn min_marked_difference(&self, seeds: u64) -> f64 {
        MARK_THRESHOLD * self.deviation() * (2.0 / seeds as f64).sqrt()
    }
}

/// Returns the pooled variance of one seed: Σ squares / Σ (n - 1).
pub(super) fn pool_variance<'a>(
    cells: impl IntoIterator<Item = &'a SeedStats>,
) -> Option<PooledVariance> {
    let (mut squares, mut freedom) = (0.0, 0);
    for cell in cells.into_iter().filter(|cell| cell.count > 1) {
        squares += cell.sum_of_squares;
        freedom += cell.count - 1;
    }
    (freedom > 0)
        .then(|| PooledVariance { variance: squares / freedom as f64, degrees_of_freedom: freedom })
}

/// Returns the difference of the means of `cell` and `base` in standard errors. The variance of a
/// seed is that of the whole grid or that of these two cases, whichever is larger: three seeds
/// often agree by chance, and a case in which training fails varies more than the others.
pub(super) fn standard_errors_above(
    cell: &SeedStats,
    base: &SeedStats,
    all: &[SeedStats],
) -> Option<f64> {
    if cell.count == 0 || base.count == 0 {
        return None;
    }
    let pooled = pool_variance([cell, base]).map_or(0.0, |noise| noise.variance);
    let variance = pool_variance(all)?.variance.max(pooled);
    let error = (variance * (1.0 / cell.count as f64 + 1.0 / base.count as f64)).sqrt();
    let difference = cell.mean - base.mean;
    Some(if error > 0.0 {
        difference / error
    } else if difference == 0.0 {
        0.0
    } else {
        // Without variation every difference is significant.
        difference.signum() * f64::INFINITY
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations_are_those_of_the_seeds() {
        let seeds = SeedStats::from_values(&[0.9, 0.92, 0.94, f64::NAN]);
        assert_eq!(seeds.count, 3);
        assert!((seeds.mean - 0.92).abs() < 1e-12);
        assert!((seeds.deviation().unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(
            (SeedStats::from_values(&[0.5]).deviation(), SeedStats::from_values(&[]).count),
            (None, 0)
        );
        let deviation =
            SeedStats::from_values(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).deviation().unwrap();
        assert!((deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12, "n - 1 is the divisor, not n");
    }

    #[test]
    fn cells_are_pooled_by_their_degrees_of_freedom_and_marks_need_the_threshold() {
        // Variances 2 (1 degree) and 1 (2 degrees); a case of one seed says nothing.
        let cells = [&[0.0, 2.0][..], &[5.0, 6.0, 7.0], &[100.0]].map(SeedStats::from_values);
        let noise = pool_variance(&cells).unwrap();
        assert_eq!(noise.degrees_of_freedom, 3);
        assert!((noise.deviation() - (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            pool_variance(&[SeedStats::from_values(&[1.0]), SeedStats::from_values(&[2.0])]),
            None
        );
        assert!((noise.min_marked_difference(8) - noise.deviation()).abs() < 1e-12);
        // Two cases that spread as the map does are marked from the threshold on.
        let base = SeedStats::from_values(&[0.90, 0.92]);
        let threshold = pool_variance([&base]).unwrap().min_marked_difference(2);
        for (factor, marked) in [(0.99, false), (1.01, true)] {
            let cell =
                SeedStats::from_values(&[0.90 + factor * threshold, 0.92 + factor * threshold]);
            let errors = standard_errors_above(&cell, &base, &[base, cell]).unwrap();
            assert_eq!(errors > MARK_THRESHOLD, marked, "{errors}");
        }
    }

    #[test]
    fn a_difference_is_measured_in_standard_errors() {
        let base = SeedStats::from_values(&[0.90, 0.92, 0.94]);
        let cell = SeedStats::from_values(&[0.96, 0.98, 1.00]);
        // Standard error 0.02 √(2/3).
        let expected = 0.06 / (0.02 * (2.0f64 / 3.0).sqrt());
        assert!(
            (standard_errors_above(&cell, &base, &[base, cell]).unwrap() - expected).abs() < 1e-9
        );
        // Two cases that agree by luck are not believed: the grid says how seeds vary.
        let (best, other) =
            (SeedStats::from_values(&[0.5, 0.5]), SeedStats::from_values(&[0.51, 0.51]));
        assert!(standard_errors_above(&other, &best, &[best, other, base, cell]).unwrap() < 1.0);
        assert_eq!(standard_errors_above(&other, &best, &[best, other]), Some(f64::INFINITY));
        assert_eq!(
            standard_errors_above(
                &SeedStats::from_values(&[0.5]),
                &SeedStats::from_values(&[0.6]),
                &[]
            ),
            None,
            "nothing to go by"
        );
    }
}
