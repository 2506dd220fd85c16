//! The distribution of a sum of losses, and its epsilons and deltas.

/// The tilted distribution of a sum of losses. The mass at `loss` is e^(ln_scale - theta loss)
/// times the stored one.
pub(super) struct TiltedSum {
    pub step: f64,
    pub theta: f64,
    /// The loss of the first mass.
    pub low: f64,
    pub mass: Vec<f64>,
    pub ln_scale: f64,
    /// Bound on the rounding error of each stored mass.
    pub error: f64,
    /// Bound on the tilted mass outside of the window, which wrapped around into it.
    pub outside: f64,
    pub infinity: f64,
    /// Factor for the relative error of the computed moments.
    pub slack: f64,
}

/// The bound to compute: errors are added for `Upper` and subtracted for `Lower`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BoundKind {
    Upper,
    Lower,
}

impl TiltedSum {
    /// Computes the lower and the upper bound on epsilon at `delta`; `None` if it is outside of
    /// the window.
    pub fn bounds(upper: &Self, lower: Option<&Self>, delta: f64) -> Option<(f64, f64)> {
        let Crossing::At(upper) = upper.epsilon(delta, BoundKind::Upper) else { return None };
        let lower = match lower.map(|lower| lower.epsilon(delta, BoundKind::Lower)) {
            Some(Crossing::At(epsilon)) => epsilon.min(upper),
            _ => 0.0,
        };
        Some((lower, upper))
    }

    /// Computes delta at every grid point of the window, from its upper end downwards, as (loss,
    /// delta, slope). Up to the next grid point delta is `delta - slope (e^(eps - loss) - 1)`.
    pub fn deltas(&self, bound: BoundKind) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let decay = (-self.theta * self.step).exp();
        let decay_discounted = (-(self.theta + 1.0) * self.step).exp();
        let error = self.total_error();
        let (mut total_mass, mut discounted) = (0.0, 0.0);
        (0..self.mass.len()).rev().map(move |i| {
            // Sums over the losses above: of the masses, and of the masses times e^-(loss - this).
            let loss = self.low + i as f64 * self.step;
            total_mass = total_mass * decay + self.mass[i];
            discounted = discounted * decay_discounted + self.mass[i];
            let scale = (self.ln_scale - self.theta * loss).exp();
            let delta = match bound {
                BoundKind::Upper => {
                    (scale * (total_mass - discounted + error)) * self.slack + self.infinity
                }
                BoundKind::Lower => scale * (total_mass - discounted - error) / self.slack,
            };
            (loss, delta, scale * (discounted - self.mass[i]))
        })
    }

    /// Computes upper bounds on delta at increasing epsilons; 1 outside of the window.
    pub fn deltas_at(&self, epsilons: &[f64]) -> Vec<f64> {
        let mut deltas = vec![1.0; epsilons.len()];
        let mut next = epsilons.len();
        let mut end = f64::INFINITY;
        for (loss, delta_bound, slope) in self.deltas(BoundKind::Upper) {
            while let Some(i) = next.checked_sub(1).filter(|&i| epsilons[i] >= loss) {
                if epsilons[i] <= end {
                    deltas[i] =
                        (delta_bound - slope * (epsilons[i] - loss).exp_m1()).clamp(0.0, 1.0);
                }
                next = i;
            }
            end = loss;
        }
        deltas
    }

    /// Returns error bounds at `epsilon` as fractions of `delta`: from the mass outside of the
    /// window, and from rounding in the transform.
    pub fn error_fractions(&self, epsilon: f64, delta: f64) -> (f64, f64) {
        let scale = (self.ln_scale - self.theta * epsilon).exp() / delta;
        (self.outside * scale, (self.total_error() - self.outside) * scale)
    }

    /// Returns a bound on the error of a delta: `error` in each stored mass, weighted as in delta,
    /// and all mass from outside of the window at the worst place.
    fn total_error(&self) -> f64 {
        let decay = (-self.theta * self.step).exp();
        self.error * (self.mass.len() as f64).min(1.0 / (1.0 - decay).max(1e-300)) + self.outside
    }

    /// Returns the smallest epsilon >= 0 at which delta is at most `delta`, if it is in the
    /// window.
    pub fn epsilon(&self, delta: f64, bound: BoundKind) -> Crossing {
        let mut above: Option<f64> = None;
        for (loss, delta_bound, slope) in self.deltas(bound) {
            if delta_bound > delta || delta_bound.is_nan() {
                // here - slope (e^(eps - loss) - 1) = delta
                let epsilon = loss + ((delta_bound - delta) / slope).ln_1p();
                return match above {
                    None => Crossing::AboveWindow,
                    Some(end) if epsilon <= end => Crossing::At(epsilon.max(0.0)),
                    Some(end) => Crossing::At(end.max(0.0)),
                };
            }
            if loss <= 0.0 {
                return Crossing::At(0.0);
            }
            above = Some(loss);
        }
        Crossing::BelowWindow
    }
}

/// Position of an epsilon relative to a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crossing {
    At(f64),
    /// Below the window.
    BelowWindow,
    /// Above the window, or the values in the window are not precise enough to tell.
    AboveWindow,
}
