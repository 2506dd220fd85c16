use super::super::tilted_sum::BoundKind;
use super::*;

/// Creates a two-sided loss of the given spread, on 64 grid points.
fn losses(spread: f64) -> LossDistribution {
    let mass: Vec<f64> =
        (0..64).map(|i| (-0.5 * ((f64::from(i) - 30.0) / spread).powi(2)).exp()).collect();
    let total: f64 = mass.iter().sum();
    let mass = mass.into_iter().map(|m| m / total * (1.0 - 1e-7)).collect();
    let first = -30;
    LossDistribution { step: 0.01, first, mass, infinity: 1e-7, ..LossDistribution::default() }
}

/// Mixtures one by one and together. Close losses take the series, distant ones do not.
#[test]
fn mixtures_together_are_the_mixtures_one_by_one() {
    let window = LossWindow {
        step: 0.01,
        theta: 2.0,
        low: -3.0,
        len: 1024,
        theta_up: 6.0,
        theta_down: -2.0,
    };
    let transform = Transform::new(window);
    let parts = [(0.1, 3.0), (0.5, 1.0), (0.97, 20.0), (1.0, 2.0), (0.3, 7.0)];
    for (one, other) in [(5.0, 4.5), (5.0, 2.0), (9.0, 1.0)] {
        let (one, other) = (losses(one), losses(other));
        let (first, second) = (transform.spectrum(&one), transform.spectrum(&other));
        let mut together = Composition::new(&transform);
        together.add_mixtures(&first, &second, &parts);
        let together = together.finish();
        let mut apart = Composition::new(&transform);
        for (share, count) in parts {
            let mixed = vec![(share, one.clone()), (1.0 - share, other.clone())];
            apart.add(&transform.spectrum(&LossDistribution::from_mixture(mixed)), count);
        }
        let apart = apart.finish();
        let mut mean = Composition::new(&transform);
        let count: f64 = parts.iter().map(|part| part.1).sum();
        let share = parts.iter().map(|part| part.0 * part.1).sum::<f64>() / count;
        mean.add_mixtures(&first, &second, &[(share, count)]);
        let mean = mean.finish();
        let mut differs = 0.0_f64;
        let sums = together.deltas(BoundKind::Upper).zip(apart.deltas(BoundKind::Upper));
        for ((a, b), c) in sums.zip(mean.deltas(BoundKind::Upper)) {
            if a.0 > -0.5 && a.0 < 1.0 {
                assert!((a.1 / b.1 - 1.0).abs() < 1e-9, "{a:?} {b:?}");
                differs = differs.max((c.1 / b.1 - 1.0).abs());
            }
        }
        // As many mixtures with their mean share are something else.
        assert!(differs > 1e-6, "{differs:e}");
    }
}
