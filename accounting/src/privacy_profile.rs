//! The privacy profile: the smallest proved delta as a function of epsilon.

use std::sync::Arc;

/// Upper bound on delta as a function of epsilon for a list of releases.
///
/// The profile is stored as points and interpolated linearly in e^epsilon. The interpolation is an
/// upper bound because the true delta is convex in e^epsilon (Doroshenko, Ghazi, Kamath, Kumar,
/// Manurangsi: Connect the Dots, 2022, section 3).
///
/// # Guarantee
/// For every epsilon >= 0 the releases are (epsilon,
/// [`delta`](PrivacyProfile::delta))-differentially private under the neighbouring relation of the
/// accountant that computed the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacyProfile {
    /// (epsilon, delta) pairs: epsilon strictly increasing from 0, delta non-increasing in [0, 1].
    points: Arc<[(f64, f64)]>,
}

impl PrivacyProfile {
    /// Creates the profile through upper bounds (epsilon, delta), with epsilon strictly increasing
    /// from 0.
    pub(crate) fn from_points(mut points: Vec<(f64, f64)>) -> Self {
        let mut smallest = 1.0_f64;
        for (_, delta) in &mut points {
            smallest = smallest.min(delta.max(0.0));
            *delta = smallest;
        }
        Self { points: points.into() }
    }

    /// Returns the points: epsilon increasing, delta non-increasing.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Computes the smallest proved delta at `epsilon`; 1 for a negative one.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let next = self.points.partition_point(|&(e, _)| e <= epsilon);
        let Some(&(e0, d0)) = next.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return 1.0;
        };
        let Some(&(e1, d1)) = self.points.get(next) else { return d0 };
        // (e^eps - e^e0) / (e^e1 - e^e0) without overflow.
        let fraction = (epsilon - e0).exp_m1() / (e1 - e0).exp_m1();
        if fraction.is_finite() { d0 + (d1 - d0) * fraction } else { d0 }
    }

    /// Computes the smallest proved epsilon at `delta`; `None` if every point has a larger delta.
    pub fn epsilon(&self, delta: f64) -> Option<f64> {
        let index = self.points.partition_point(|&(_, d)| d > delta);
        let &(e1, d1) = self.points.get(index)?;
        let Some(&(e0, d0)) = index.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return Some(e1);
        };
        let fraction = ((d0 - delta) / (d0 - d1)).clamp(0.0, 1.0);
        let step = (fraction * (e1 - e0).exp_m1()).ln_1p();
        Some(if step.is_finite() { (e0 + step).min(e1) } else { e1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_is_interpolated_linearly_in_e_to_the_epsilon() {
        let profile = PrivacyProfile::from_points(vec![(0.0, 0.5), (1.0, 0.1), (2.0, 0.2)]);
        assert_eq!((profile.delta(0.0), profile.delta(1.0)), (0.5, 0.1));
        // Delta is made non-increasing and stays constant beyond the last point.
        assert_eq!((profile.delta(2.0), profile.delta(9.0)), (0.1, 0.1));
        let half = (0.5 * (1.0 + 1f64.exp())).ln();
        assert!((profile.delta(half) - 0.3).abs() < 1e-12);
        assert!((profile.epsilon(0.3).unwrap() - half).abs() < 1e-12);
        assert_eq!(profile.epsilon(0.6), Some(0.0));
        assert_eq!(profile.epsilon(0.05), None);
    }

    #[test]
    fn huge_epsilons_do_not_overflow() {
        let profile = PrivacyProfile::from_points(vec![(0.0, 1.0), (2000.0, 0.5), (5000.0, 0.0)]);
        assert!(profile.delta(1000.0).is_finite());
        assert!(profile.epsilon(0.25).unwrap() <= 5000.0);
    }
}
