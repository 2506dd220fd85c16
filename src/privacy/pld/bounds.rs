//! Upper and lower bounds on a composition, in both directions.

use super::cells::{LossCells, balanced_offset};
use super::chernoff::ChernoffBound;
use super::coarse::{CoarseLosses, Direction, TiltedRange};
use super::components::{Component, MAX_MULTIPLIERS};
use super::compose::{Bound, Composition, Crossing, TiltedSum, Window};
use super::dominating_pair::DominatingPair;
use super::loss_distribution::{self, LossDistribution};
use rayon::prelude::*;
use realfft::RealFftPlanner;

/// Target relative error of epsilon on the first grid.
const TARGET_ERROR: f64 = 1e-4;

/// Maximum number of grid points of one window, or of one release.
const MAX_POINTS: f64 = (1 << 19) as f64;

/// Factor on the Chernoff-optimal tilt. The Chernoff bound exceeds epsilon; a smaller tilt moves
/// the window down and shortens its upper tail.
const TILT_FACTOR: f64 = 0.8;

/// Maximum number of grid points of all components together.
const MAX_TOTAL_POINTS: f64 = 2e8;

/// Maximum number of windows that are tried.
const MAX_WINDOWS: usize = 8;

/// Maximum fraction of delta that may come from errors; above it another window is tried.
const MAX_ERROR_FRACTION: f64 = 1e-4;

/// ln of the tilted mass beyond either end of the first window.
const LN_OUTSIDE: f64 = -25.0;

/// Bounds on a composition, in windows selected for deltas near a given one.
pub(super) struct CompositionBounds {
    upper: TiltedSum,
    lower: Option<TiltedSum>,
    /// Whether a finer grid would still have a reasonable size.
    pub can_be_refined: bool,
    add: Add,
}

/// What is known of direction `add`.
enum Add {
    /// Equal to direction `remove`.
    Same,
    /// A Chernoff bound, below direction `remove` at the delta of the window. It is evaluated at
    /// each delta, because the worse direction depends on delta.
    Bounded(ChernoffBound),
    Composed(TiltedSum),
}

impl CompositionBounds {
    /// Composes the components in windows near `delta`, on a grid `refinement` times finer than the
    /// default. `None` if the numbers do not fit.
    pub fn near_delta(delta: f64, components: &[Component], refinement: f64) -> Option<Self> {
        let releases: f64 = components.iter().map(|component| component.count).sum();
        let mass = (1e-4 * delta / releases).min(1e-16);
        let task = BoundsBuilder { components, releases, mass, delta, refinement };
        let (upper, lower) = task.compose(Direction::Remove)?;
        let Crossing::At(epsilon) = upper.epsilon(delta, Bound::Upper) else { return None };
        let add = match components.iter().all(Component::is_symmetric) {
            true => Add::Same,
            false => match task.bound_add().filter(|bound| bound.epsilon(delta) <= epsilon) {
                Some(bound) => Add::Bounded(bound),
                None => Add::Composed(task.compose(Direction::Add)?.0),
            },
        };
        let can_be_refined = upper.points() <= 1 << 17;
        Some(Self { upper, lower, can_be_refined, add })
    }

    /// Lower and upper bound on epsilon at `delta`.
    pub fn epsilon(&self, delta: f64) -> Option<(f64, f64)> {
        let Crossing::At(remove) = self.upper.epsilon(delta, Bound::Upper) else { return None };
        let upper = remove.max(self.add.epsilon(delta)?);
        let lower = match self.lower.as_ref().map(|lower| lower.epsilon(delta, Bound::Lower)) {
            Some(Crossing::At(epsilon)) => epsilon.min(upper),
            _ => 0.0,
        };
        Some((lower, upper))
    }

    /// Upper bounds on delta at increasing epsilons; 1 outside of the windows.
    pub fn deltas(&self, epsilons: &[f64]) -> Vec<f64> {
        let (mut deltas, add) = (self.upper.deltas_at(epsilons), self.add.deltas_at(epsilons));
        deltas.iter_mut().zip(add).for_each(|(delta, add)| *delta = delta.max(add));
        deltas
    }
}

impl Add {
    /// Upper bound on epsilon; `None` if it is outside of the window.
    fn epsilon(&self, delta: f64) -> Option<f64> {
        match self {
            Self::Same => Some(0.0),
            Self::Bounded(bound) => Some(bound.epsilon(delta)),
            Self::Composed(composed) => match composed.epsilon(delta, Bound::Upper) {
                Crossing::At(epsilon) => Some(epsilon),
                Crossing::AboveWindow | Crossing::BelowWindow => None,
            },
        }
    }

    /// Upper bounds on delta at increasing epsilons.
    fn deltas_at(&self, epsilons: &[f64]) -> Vec<f64> {
        match self {
            Self::Same => vec![0.0; epsilons.len()],
            Self::Bounded(bound) => epsilons.iter().map(|&epsilon| bound.delta(epsilon)).collect(),
            Self::Composed(composed) => composed.deltas_at(epsilons),
        }
    }
}

impl Component {
    /// Whether both directions are equal.
    fn is_symmetric(&self) -> bool {
        self.pairs().all(DominatingPair::is_symmetric)
    }
}

/// The components to compose, and the precision.
struct BoundsBuilder<'a> {
    components: &'a [Component],
    releases: f64,
    /// Mass of one release that may be truncated at either end.
    mass: f64,
    delta: f64,
    refinement: f64,
}

impl BoundsBuilder<'_> {
    /// The composition in one direction: an upper bound, and for direction `remove` a lower bound.
    ///
    /// The Chernoff bound on epsilon selects the first window. It is good for many small losses and
    /// loose for few large ones; in that case the window is moved according to the result of the
    /// first.
    fn compose(&self, direction: Direction) -> Option<(TiltedSum, Option<TiltedSum>)> {
        let coarse = CoarseLosses::new(self.components, direction, self.mass);
        let (theta, mut epsilon) = coarse.tilt(self.delta);
        let mut ln_outside = LN_OUTSIDE;
        let mut range = coarse.tilted_range(TILT_FACTOR * theta, ln_outside);
        let mut best: Option<(f64, TiltedSum)> = None;
        let mut best_lower: Option<(f64, TiltedSum)> = None;
        for _ in 0..MAX_WINDOWS {
            let (composed, lower) = self.compose_in_window(&range, epsilon, direction)?;
            if let Crossing::At(found) = lower.epsilon(self.delta, Bound::Lower)
                && best_lower.as_ref().is_none_or(|(most, _)| found > *most)
            {
                best_lower = Some((found, lower));
            }
            match composed.epsilon(self.delta, Bound::Upper) {
                // No bound can be smaller.
                Crossing::At(0.0) => {
                    best = Some((0.0, composed));
                    break;
                }
                Crossing::At(found) => {
                    let (outside, rounding) = composed.error_fractions(found, self.delta);
                    let imprecise_guess = found < 0.3 * epsilon;
                    // Values far above the lower end of the window are precise.
                    let inside = found > range.low + 0.2 * (range.mean - range.low);
                    let good = inside && outside + rounding < MAX_ERROR_FRACTION;
                    // All windows give valid bounds. Stop when another one gains little.
                    let gained = best.as_ref().is_none_or(|(least, _)| found < 0.99 * least);
                    if best.as_ref().is_none_or(|(least, _)| found <= *least) {
                        best = Some((found, composed));
                    }
                    if (good && !imprecise_guess) || !gained {
                        break;
                    }
                    epsilon = found.max(1e-3 * epsilon);
                    if !good {
                        ln_outside -= (outside / MAX_ERROR_FRACTION).ln().max(0.0) + 3.0;
                        // A wider window, or a larger tilt.
                        let theta = match inside && rounding < 0.5 * MAX_ERROR_FRACTION {
                            true => range.theta,
                            false => coarse.tilt_towards(epsilon),
                        };
                        range = coarse.tilted_range(theta, ln_outside);
                    }
                }
                Crossing::BelowWindow => {
                    epsilon = range.low.max(1e-3 * epsilon);
                    range = coarse.tilted_range(
                        coarse.tilt_towards(epsilon).min(0.7 * range.theta),
                        ln_outside,
                    );
                }
                // The upper end of the window is not precise enough.
                Crossing::AboveWindow => {
                    ln_outside -= 20.0;
                    range = coarse.tilted_range(coarse.tilt_towards(epsilon), ln_outside);
                }
            };
        }
        Some((best?.1, best_lower.map(|(_, lower)| lower)))
    }

    fn compose_in_window(
        &self,
        range: &TiltedRange,
        epsilon: f64,
        direction: Direction,
    ) -> Option<(TiltedSum, TiltedSum)> {
        // Where multipliers were rounded to 0.1 %, a fine grid is wasted.
        let aim = match self.components.len() as f64 {
            components if components > MAX_MULTIPLIERS as f64 => {
                TARGET_ERROR * (components / 20.0).min(60.0)
            }
            components => TARGET_ERROR * (components / 64.0).max(1.0),
        };
        // Connecting the dots adds step^2 / 6 to the variance of each loss, and so about (theta +
        // 1) step^2 / 12 to its contribution to epsilon.
        let step =
            (12.0 * aim * epsilon / (self.releases * (range.theta + 1.0))).sqrt() / self.refinement;
        let widest = self
            .components
            .iter()
            .flat_map(Component::pairs)
            .map(|pair| pair.range(self.mass))
            .fold(range.high - range.low, f64::max);
        let step =
            step.max(widest / MAX_POINTS.min(MAX_TOTAL_POINTS / self.components.len() as f64));
        if !(step > 0.0 && step.is_finite()) {
            return None;
        }
        let window = Window {
            step,
            theta: range.theta,
            low: range.low,
            len: even_length(((range.high - range.low) / step).max(32.0) as usize + 3),
            theta_up: range.theta_up,
            theta_down: range.theta_down,
        };
        let start = Composition::new(window, &mut RealFftPlanner::new());
        let both = (start.clone(), start);
        let add = |mut both: (Composition, Composition), component: &Component| {
            let (upper, lower) = self.losses(component, step, direction);
            both.0.add(&upper, component.count);
            if let Some(lower) = lower {
                both.1.add(&lower, component.count_lower);
            }
            both
        };
        // A few components are faster on one core.
        let (upper, lower) = if self.components.len() < 8 {
            self.components.iter().fold(both, add)
        } else {
            self.components
                .par_chunks(self.components.len().div_ceil(16))
                .map(|chunk| chunk.iter().fold(both.clone(), add))
                .reduce_with(|mut a, b| {
                    a.0.merge(&b.0);
                    a.1.merge(&b.1);
                    a
                })?
        };
        Some((upper.finish(), lower.finish()))
    }

    /// Loss distributions of one release: an upper bound, and for direction `remove` a lower bound.
    fn losses(
        &self,
        component: &Component,
        step: f64,
        direction: Direction,
    ) -> (LossDistribution, Option<LossDistribution>) {
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (weight, pair) in &component.mixture {
            let Some(pair) = pair else {
                above.push((*weight, LossDistribution::no_release(step)));
                below.push((*weight, LossDistribution::no_release(step)));
                continue;
            };
            let cells = LossCells::new(pair, step, 0.0, self.mass);
            let (remove, add) = loss_distribution::upper_bound(&cells);
            if direction == Direction::Add {
                above.push((*weight, add));
                continue;
            }
            above.push((*weight, remove));
            // A mixture needs one common grid, so an offset is possible only for a single pair.
            let offset = match component.mixture.len() {
                1 => balanced_offset(pair, step, self.mass),
                _ => 0.0,
            };
            below.push(match offset {
                0.0 => (*weight, loss_distribution::lower_bound(&cells)),
                _ => (
                    *weight,
                    loss_distribution::lower_bound(&LossCells::new(pair, step, offset, self.mass)),
                ),
            });
        }
        let lower = (direction == Direction::Remove).then(|| LossDistribution::mixture_of(below));
        (LossDistribution::mixture_of(above), lower)
    }

    /// A Chernoff bound on direction `add`, which often shows that it need not be composed. A
    /// coarse grid suffices, because the result is an upper bound on any grid.
    fn bound_add(&self) -> Option<ChernoffBound> {
        let coarse = |component: &Component| {
            let range = component.pairs().map(|pair| pair.range(self.mass)).fold(0.0, f64::max);
            (component.count, self.losses(component, range / 2000.0, Direction::Add).0)
        };
        if self.components.len() > 64 {
            return None;
        }
        Some(ChernoffBound::new(&self.components.iter().map(coarse).collect::<Vec<_>>()))
    }
}

/// The smallest even length of the form 2^a or 3 2^a that is at least `points`.
fn even_length(points: usize) -> usize {
    let power = points.next_power_of_two();
    if power / 4 * 3 >= points { power / 4 * 3 } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss of `loss` with a given probability, otherwise 0.
    fn rare(loss: i64, probability: f64) -> LossDistribution {
        let mut mass = vec![0.0; loss as usize * 10 + 1];
        (mass[0], mass[loss as usize * 10]) = (1.0 - probability, probability);
        LossDistribution { step: 0.1, mass, ..LossDistribution::default() }
    }

    fn composed(losses: &LossDistribution) -> TiltedSum {
        let window = Window {
            step: 0.1,
            theta: 3.0,
            low: -2.0,
            len: 128,
            theta_up: 20.0,
            theta_down: -20.0,
        };
        let mut sum = Composition::new(window, &mut RealFftPlanner::new());
        sum.add(losses, 1.0);
        sum.finish()
    }

    /// In direction `remove` a small loss is likely, in direction `add` a large loss is rare: at
    /// delta = 1e-3 `remove` has the larger epsilon, at 1e-7 `add`.
    #[test]
    fn the_worse_direction_is_determined_at_every_delta() {
        let (remove, add) = (rare(5, 1e-2), rare(9, 1e-6));
        let bound = ChernoffBound::new(&[(1.0, add.clone())]);
        assert!(bound.epsilon(1e-3) < 4.8, "at 1e-3 adding need not be composed");
        for add in [Add::Bounded(bound), Add::Composed(composed(&add))] {
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
