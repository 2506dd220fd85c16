//! Upper and lower bounds on a composition, in both directions.

use super::builder::{BoundsBuilder, DirectionBounds};
use super::chernoff::ChernoffBound;
use super::coarse::Direction;
use super::components::NeighbourCase;
use super::tilted_sum::{BoundKind, Crossing, TiltedSum};

/// Bounds on a composition, in windows selected for deltas near a given one.
pub(super) struct CompositionBounds {
    upper: TiltedSum,
    lower: Option<TiltedSum>,
    /// Whether a finer grid would still have a reasonable size.
    pub can_be_refined: bool,
    add: AddDirectionBound,
}

/// Bound on direction `add`.
enum AddDirectionBound {
    /// Equal to direction `remove`.
    EqualToRemove,
    /// A Chernoff bound, below direction `remove` at the delta of the window. It is evaluated at
    /// each delta, because the worse direction depends on delta.
    Chernoff(ChernoffBound),
    Composed(TiltedSum),
}

impl CompositionBounds {
    /// Composes a case in windows near `delta`, on a grid `refinement` times finer than the
    /// default. `None` if the numbers do not fit.
    pub fn near_delta(delta: f64, case: &NeighbourCase, refinement: f64) -> Option<Self> {
        let task = BoundsBuilder::new(case, delta, refinement);
        let DirectionBounds { upper, lower, .. } = task.compose(Direction::Remove)?;
        let Crossing::At(epsilon) = upper.epsilon(delta, BoundKind::Upper) else { return None };
        let add = if case.is_symmetric() {
            AddDirectionBound::EqualToRemove
        } else {
            match task.chernoff_bound_add().filter(|bound| bound.epsilon(delta) <= epsilon) {
                Some(bound) => AddDirectionBound::Chernoff(bound),
                None => AddDirectionBound::Composed(task.compose(Direction::Add)?.upper),
            }
        };
        let can_be_refined = upper.mass.len() <= 1 << 17 && !case.is_approximated;
        Some(Self { upper, lower, can_be_refined, add })
    }

    /// Returns the lower and the upper bound on epsilon at `delta`.
    pub fn epsilon(&self, delta: f64) -> Option<(f64, f64)> {
        let (lower, remove) = TiltedSum::bounds(&self.upper, self.lower.as_ref(), delta)?;
        Some((lower, remove.max(self.add.epsilon(delta)?)))
    }

    /// Computes upper bounds on delta at increasing epsilons; 1 outside of the windows.
    pub fn deltas(&self, epsilons: &[f64]) -> Vec<f64> {
        let (mut deltas, add) = (self.upper.deltas_at(epsilons), self.add.deltas_at(epsilons));
        deltas.iter_mut().zip(add).for_each(|(delta, add)| *delta = delta.max(add));
        deltas
    }
}

impl AddDirectionBound {
    /// Computes an upper bound on epsilon; `None` if it is outside of the window.
    fn epsilon(&self, delta: f64) -> Option<f64> {
        match self {
            Self::EqualToRemove => Some(0.0),
            Self::Chernoff(bound) => Some(bound.epsilon(delta)),
            Self::Composed(composed) => match composed.epsilon(delta, BoundKind::Upper) {
                Crossing::At(epsilon) => Some(epsilon),
                Crossing::AboveWindow | Crossing::BelowWindow => None,
            },
        }
    }

    /// Computes upper bounds on delta at increasing epsilons.
    fn deltas_at(&self, epsilons: &[f64]) -> Vec<f64> {
        match self {
            Self::EqualToRemove => vec![0.0; epsilons.len()],
            Self::Chernoff(bound) => epsilons.iter().map(|&epsilon| bound.delta(epsilon)).collect(),
            Self::Composed(composed) => composed.deltas_at(epsilons),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chernoff::LossMoments;
    use super::super::compose::{Composition, LossWindow, Transform};
    use super::super::loss_distribution::LossDistribution;
    use super::*;
    use crate::noise_grid::Component;

    /// Returns a loss of `loss` with a given probability, otherwise 0.
    fn rare_loss(loss: i64, probability: f64) -> LossDistribution {
        let mut mass = vec![0.0; loss as usize * 10 + 1];
        mass[0] = 1.0 - probability;
        mass[loss as usize * 10] = probability;
        LossDistribution { step: 0.1, mass, ..LossDistribution::default() }
    }

    fn composed(losses: &LossDistribution) -> TiltedSum {
        let window = LossWindow {
            step: 0.1,
            theta: 3.0,
            low: -2.0,
            len: 128,
            theta_up: 20.0,
            theta_down: -20.0,
        };
        let transform = Transform::new(window);
        let mut sum = Composition::new(&transform);
        sum.add(&transform.spectrum(losses), 1.0);
        sum.finish()
    }

    /// In direction `remove` a small loss is likely, in direction `add` a large loss is rare: at
    /// delta = 1e-3 `remove` has the larger epsilon, at 1e-7 `add`.
    #[test]
    fn the_worse_direction_is_determined_at_every_delta() {
        let (remove, add) = (rare_loss(5, 1e-2), rare_loss(9, 1e-6));
        let once = Component { exact: 1.0, ..Component::default() };
        let bound = ChernoffBound::new(&LossMoments::new(std::slice::from_ref(&add)), &[once]);
        assert!(bound.epsilon(1e-3) < 4.8, "at 1e-3 adding need not be composed");
        for add in [AddDirectionBound::Chernoff(bound), AddDirectionBound::Composed(composed(&add))]
        {
            let (upper, lower) = (composed(&remove), None);
            let both = CompositionBounds { upper, lower, can_be_refined: false, add };
            let at = |delta: f64| both.epsilon(delta).unwrap().1;
            // 1e-2 (1 - e^(epsilon - 5)) = 1e-3, and 1e-6 (1 - e^(epsilon - 9)) = 1e-7.
            assert!((at(1e-3) - (5.0 + 0.9f64.ln())).abs() < 2e-2, "{}", at(1e-3));
            assert!(at(1e-7) >= 9.0 + 0.9f64.ln() - 1e-9, "{}", at(1e-7));
            let deltas = both.deltas(&[4.5, 7.0]);
            assert!((deltas[0] / (-1e-2 * (-0.5f64).exp_m1()) - 1.0).abs() < 2e-2, "{deltas:?}");
            assert!(deltas[1] >= -1e-6 * (-2f64).exp_m1() * (1.0 - 1e-9), "{deltas:?}");
        }
    }
}
