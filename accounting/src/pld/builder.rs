//! The choice of window and grid for a composition in one direction.

use super::chernoff::{ChernoffBound, LossMoments};
use super::coarse::{CoarseLosses, Direction, TiltedRange};
use super::components::{Mixture, NeighbourCase, pairs};
use super::loss_distribution::LossDistribution;
use super::node_losses::{NodeLosses, discretise};
use super::tilted_sum::{BoundKind, Crossing, TiltedSum};
use rayon::prelude::*;

/// Target relative error of epsilon on the first grid.
const TARGET_ERROR: f64 = 1e-4;

/// Maximum number of grid points of one window, or of one release.
const MAX_POINTS: f64 = (1 << 19) as f64;

/// Maximum number of grid points where all sampling rates are below [`RARE`]: many small losses
/// and few large ones need both a fine grid and a long one.
const MAX_RARE_POINTS: f64 = (1 << 21) as f64;

/// Sampling rate below which a step is rare.
const RARE: f64 = 1e-3;

/// Factor on the Chernoff-optimal tilt. The Chernoff bound exceeds epsilon; a smaller tilt moves
/// the window down and shortens its upper tail.
const TILT_FACTOR: f64 = 0.8;

/// Tilts that are tried where a grid would be too coarse, relative to the first.
const SMALLER_TILTS: [f64; 6] = [0.7, 0.5, 0.35, 0.25, 0.17, 0.12];

/// Maximum of ln of the factor from an error in the tilted sum to its fraction of delta.
const MAX_LN_SCALE: f64 = 8.0;

/// Maximum number of grid points of all nodes together.
const MAX_TOTAL_POINTS: f64 = 2e8;

/// With more nodes than this no Chernoff bound on direction `add` is tried.
const MAX_BOUNDED_NODES: usize = 128;

/// Maximum number of windows that are tried.
const MAX_WINDOWS: usize = 8;

/// Maximum fraction of delta that may come from errors; above it another window is tried.
const MAX_ERROR_FRACTION: f64 = 1e-4;

/// ln of the tilted mass beyond either end of the first window.
const LN_OUTSIDE: f64 = -25.0;

/// Inputs of a composition: the releases, the delta and the precision.
pub(super) struct BoundsBuilder<'a> {
    case: &'a NeighbourCase,
    releases: f64,
    /// Mass of one release that may be truncated at either end.
    tail: f64,
    pub delta: f64,
    refinement: f64,
}

/// A composition in one direction.
pub(super) struct DirectionBounds {
    pub upper: TiltedSum,
    /// Tilted sum for the lower bound, for direction `remove` only.
    pub lower: Option<TiltedSum>,
    /// The losses from which the upper bound was made.
    pub losses: NodeLosses,
}

impl<'a> BoundsBuilder<'a> {
    pub fn new(case: &'a NeighbourCase, delta: f64, refinement: f64) -> Self {
        let releases = case.releases();
        let tail = (1e-4 * delta / releases).min(1e-16);
        Self { case, releases, tail, delta, refinement }
    }

    /// Returns the composition in one direction.
    ///
    /// The Chernoff bound on epsilon selects the first window. It is good for many small losses and
    /// loose for few large ones; in that case the window is moved according to the result of the
    /// first.
    pub fn compose(&self, direction: Direction) -> Option<DirectionBounds> {
        let coarse = CoarseLosses::new(self.case, direction, self.tail);
        let (theta, mut epsilon) = coarse.tilt(self.delta);
        let mut ln_outside = LN_OUTSIDE;
        let window = |theta, ln_outside, epsilon| self.window(&coarse, theta, ln_outside, epsilon);
        let mut range = window(TILT_FACTOR * theta, ln_outside, epsilon);
        let mut best: Option<(f64, TiltedSum, NodeLosses)> = None;
        let mut best_lower: Option<(f64, TiltedSum)> = None;
        for _ in 0..MAX_WINDOWS {
            let losses = self.losses_in_window(range, epsilon, direction)?;
            let composed = losses.upper(self.case)?;
            if let Some(lower) = losses.lower(self.case)
                && let Crossing::At(found) = lower.epsilon(self.delta, BoundKind::Lower)
                && best_lower.as_ref().is_none_or(|(most, _)| found > *most)
            {
                best_lower = Some((found, lower));
            }
            match composed.epsilon(self.delta, BoundKind::Upper) {
                // No bound can be smaller.
                Crossing::At(0.0) => {
                    best = Some((0.0, composed, losses));
                    break;
                }
                Crossing::At(found) => {
                    let (outside, rounding) = composed.error_fractions(found, self.delta);
                    let imprecise_guess = found < 0.3 * epsilon;
                    // Values far above the lower end of the window are precise.
                    let inside = found > range.low + 0.2 * (range.mean - range.low);
                    let good = inside && outside + rounding < MAX_ERROR_FRACTION;
                    // All windows give valid bounds. Stop when another one gains little.
                    let gained = best.as_ref().is_none_or(|(least, ..)| found < 0.99 * least);
                    if best.as_ref().is_none_or(|(least, ..)| found <= *least) {
                        best = Some((found, composed, losses));
                    }
                    if (good && !imprecise_guess) || !gained {
                        break;
                    }
                    epsilon = found.max(1e-3 * epsilon);
                    if !good {
                        ln_outside -= (outside / MAX_ERROR_FRACTION).ln().max(0.0) + 3.0;
                        // A wider window, or a larger tilt.
                        let theta = if inside && rounding < 0.5 * MAX_ERROR_FRACTION {
                            range.theta
                        } else {
                            coarse.tilt_towards(epsilon)
                        };
                        range = window(theta, ln_outside, epsilon);
                    }
                }
                Crossing::BelowWindow => {
                    epsilon = range.low.max(1e-3 * epsilon);
                    let theta = coarse.tilt_towards(epsilon).min(0.7 * range.theta);
                    range = window(theta, ln_outside, epsilon);
                }
                // The upper end of the window is not precise enough.
                Crossing::AboveWindow => {
                    ln_outside -= 20.0;
                    range = window(coarse.tilt_towards(epsilon), ln_outside, epsilon);
                }
            };
        }
        let (_, upper, losses) = best?;
        Some(DirectionBounds { upper, lower: best_lower.map(|(_, lower)| lower), losses })
    }

    /// Returns the window with this tilt. At rare sampling rates one with a smaller tilt, if the
    /// grid of this one would be too coarse: few large losses make the tilted sum wide, and a
    /// smaller tilt makes it narrower. It also makes errors larger in proportion to delta, which
    /// limits it.
    fn window(
        &self,
        coarse: &CoarseLosses,
        theta: f64,
        ln_outside: f64,
        epsilon: f64,
    ) -> TiltedRange {
        if !self.is_rare() {
            return coarse.tilted_range(theta, ln_outside, 0.0);
        }
        let with = |theta: f64, ln_outside: f64| {
            // The step follows from the range, and widens it a little.
            let range = coarse.tilted_range(theta, ln_outside, 0.0);
            coarse.tilted_range(theta, ln_outside, self.step(range, epsilon))
        };
        let mut best = with(theta, ln_outside);
        for part in SMALLER_TILTS {
            let theta = part * theta;
            let ln_scale = coarse.ln_moment(theta) - theta * epsilon - self.delta.ln();
            let is_fine = self.step(best, epsilon) < 1.1 * self.grid_step(epsilon, best.theta);
            if is_fine || ln_scale > MAX_LN_SCALE {
                break;
            }
            let range = with(theta, ln_outside.min(MAX_ERROR_FRACTION.ln() - 3.0 - ln_scale));
            if range.high - range.low < 0.9 * (best.high - best.low) {
                best = range;
            }
        }
        best
    }

    /// Computes the upper bound on epsilon by the losses in a window for another composition of
    /// the same nodes; `None` if it is not precise enough.
    pub fn epsilon_from_losses(&self, losses: &NodeLosses) -> Option<f64> {
        let sum = losses.upper(self.case)?;
        let Crossing::At(found) = sum.epsilon(self.delta, BoundKind::Upper) else { return None };
        let (outside, rounding) = sum.error_fractions(found, self.delta);
        let is_precise = outside + rounding < MAX_ERROR_FRACTION
            && losses.step < 1.5 * self.grid_step(found, losses.range.theta);
        (is_precise || found == 0.0).then_some(found)
    }

    /// Returns the losses of the nodes in a window, on a grid for the expected `epsilon`.
    fn losses_in_window(
        &self,
        range: TiltedRange,
        epsilon: f64,
        direction: Direction,
    ) -> Option<NodeLosses> {
        let step = self.step(range, epsilon);
        if !(step > 0.0 && step.is_finite()) {
            return None;
        }
        Some(NodeLosses::new(self.case, range, step, self.tail, direction))
    }

    /// Returns whether all sampling rates are rare: nearly nothing happens in most steps.
    fn is_rare(&self) -> bool {
        self.case.pairs().all(|pair| pair.q < RARE)
    }

    /// Computes the grid for a window and an expected `epsilon`, with as many points as fit.
    fn step(&self, range: TiltedRange, epsilon: f64) -> f64 {
        let used = self.case.used_nodes();
        let nodes = used.iter().filter(|used| **used).count();
        let widest = self
            .case
            .pairs()
            .map(|pair| pair.range(self.tail))
            .fold(range.high - range.low, f64::max);
        let step = self.grid_step(epsilon, range.theta) / self.refinement;
        let most = if self.is_rare() { MAX_RARE_POINTS } else { MAX_POINTS };
        step.max(widest / most.min(MAX_TOTAL_POINTS / nodes as f64))
    }

    /// Computes the grid for an expected `epsilon`. Connecting the dots adds step^2 / 6 to the
    /// variance of each loss, and so about (theta + 1) step^2 / 12 to its contribution to epsilon.
    fn grid_step(&self, epsilon: f64, theta: f64) -> f64 {
        // Where steps are replaced by others, a fine grid is wasted.
        let aim = match self.case.nodes.len() as f64 {
            nodes if nodes > 256.0 => (nodes / 20.0).min(60.0),
            _ if self.case.is_approximated => 2.0,
            nodes => (nodes / 64.0).max(1.0),
        };
        (12.0 * TARGET_ERROR * aim * epsilon / (self.releases * (theta + 1.0))).sqrt()
    }

    /// Returns a Chernoff bound on direction `add`, which often shows that it need not be
    /// composed.
    pub fn chernoff_bound_add(&self) -> Option<ChernoffBound> {
        Some(ChernoffBound::new(&self.add_direction_moments()?, &self.case.components))
    }

    /// Returns the moments of the nodes in direction `add`. A coarse grid suffices, because they
    /// are upper bounds on any grid.
    pub fn add_direction_moments(&self) -> Option<LossMoments> {
        let used = self.case.used_nodes();
        if used.iter().filter(|used| **used).count() > MAX_BOUNDED_NODES {
            return None;
        }
        let coarse = |(mixture, used): (&Mixture, bool)| {
            if used {
                let range = pairs(mixture).map(|pair| pair.range(self.tail)).fold(0.0, f64::max);
                discretise(mixture, range / 2000.0, self.tail, Direction::Add).0
            } else {
                LossDistribution::default()
            }
        };
        let nodes: Vec<_> = self.case.nodes.par_iter().zip(used).map(coarse).collect();
        Some(LossMoments::new(&nodes))
    }
}
