//! A coarse approximation of a composition, which selects tilt, window and grid.
//!
//! Correctness does not depend on it: a poor approximation only makes the bounds wide.

use super::components::{Mixture, NeighbourCase};
use super::dominating_pair::DominatingPair;

/// Spacing of the points, in units of the noise.
const COARSE_STEP: f64 = 0.2;

/// Exponent from which on e^x may be too large for a float.
const LARGE: f64 = 600.0;

/// The losses of all nodes in one direction: (count, points), each point (mass, loss).
pub(super) struct CoarseLosses {
    components: Vec<(f64, Vec<(f64, f64)>)>,
}

/// Order of the neighbours: which of the two is observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Direction {
    Remove,
    Add,
}

impl CoarseLosses {
    /// Creates the losses of a case, with a mixture of nodes as so many releases of each.
    pub fn new(case: &NeighbourCase, direction: Direction, mass: f64) -> Self {
        let mut counts = vec![0.0; case.nodes.len()];
        for component in &case.components {
            let (between, share) = component.mixture_count_and_mean_weight();
            counts[component.node] += component.exact + between * share;
            if between > 0.0 {
                counts[component.node + 1] += between * (1.0 - share);
            }
        }
        let used = case.nodes.iter().zip(counts).filter(|(_, count)| *count > 0.0);
        let points = |(mixture, count): (&Mixture, f64)| {
            let mut points = Vec::new();
            for (weight, pair) in mixture {
                match pair {
                    Some(pair) => push_points(pair, direction, mass, *weight, &mut points),
                    None => points.push((*weight, 0.0)),
                }
            }
            (count, points)
        };
        Self { components: used.map(points).collect() }
    }

    /// Computes ln E[e^(theta loss)] of the sum. At small sampling rates the moment of one release
    /// differs from 1 by less than rounding, so the difference is summed.
    pub fn ln_moment(&self, theta: f64) -> f64 {
        let of_component = |(count, points): &(f64, Vec<(f64, f64)>)| {
            let most = points.iter().map(|p| theta * p.1).fold(f64::NEG_INFINITY, f64::max);
            let ln = if most < LARGE {
                points.iter().map(|(m, l)| m * (theta * l).exp_m1()).sum::<f64>().ln_1p()
            } else {
                let sum: f64 = points.iter().map(|(m, l)| m * (theta * l - most).exp()).sum();
                most + sum.ln()
            };
            count * ln
        };
        self.components.iter().map(of_component).sum()
    }

    /// Computes the tilt that minimises the Chernoff bound on epsilon, and that bound.
    pub fn tilt(&self, delta: f64) -> (f64, f64) {
        let epsilon = |ln_theta: f64| {
            let theta = ln_theta.exp();
            (self.ln_moment(theta) - delta.ln()) / theta
        };
        // The bound has one minimum: golden-section search.
        let (mut low, mut high) = ((1e-9_f64).ln(), (1e12_f64).ln());
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
        let (mut at_a, mut at_b) = (epsilon(a), epsilon(b));
        while high - low > 0.05 {
            // NaN or infinite: the tilt is too large.
            if at_a <= at_b || !at_b.is_finite() {
                high = b;
                b = a;
                at_b = at_a;
                a = high - golden * (high - low);
                at_a = epsilon(a);
            } else {
                low = a;
                a = b;
                at_a = at_b;
                b = low + golden * (high - low);
                at_b = epsilon(b);
            }
        }
        let best = 0.5 * (low + high);
        (best.exp(), epsilon(best))
    }

    /// Computes the tilt that moves the mean of the sum to `epsilon`.
    pub fn tilt_towards(&self, epsilon: f64) -> f64 {
        let (mut low, mut high) = ((1e-9_f64).ln(), (1e12_f64).ln());
        while high - low > 0.05 {
            let middle = 0.5 * (low + high);
            let (theta, h) = (middle.exp(), 1e-3 * middle.exp());
            let mean = (self.ln_moment(theta + h) - self.ln_moment(theta - h)) / (2.0 * h);
            if mean <= epsilon { low = middle } else { high = middle }
        }
        low.exp()
    }

    /// Estimates the variance that connecting the dots on a grid of this step adds to the sum: that
    /// of two points with the same mean, step^2 / 6 for a loss anywhere in a cell.
    fn variance_added(&self, step: f64) -> f64 {
        let of_loss = |loss: f64| match loss.abs() {
            small if small < step => small * (step - small),
            _ => step * step / 6.0,
        };
        let of_component = |(count, points): &(f64, Vec<(f64, f64)>)| {
            count * points.iter().map(|(m, l)| m * of_loss(*l)).sum::<f64>()
        };
        self.components.iter().map(of_component).sum()
    }

    /// Returns the range of the sum tilted by theta on a grid of this step, with a mass of at most
    /// e^ln_outside beyond either end, and the tilts that prove it.
    pub fn tilted_range(&self, theta: f64, ln_outside: f64, step: f64) -> TiltedRange {
        // Connecting the dots keeps the moments at 0 and -1.
        let variance = self.variance_added(step);
        let ln_moment = |t: f64| self.ln_moment(t) + 0.5 * variance * t * (t + 1.0);
        let at = ln_moment(theta);
        let h = 1e-3 * theta;
        let (up, down) = (ln_moment(theta + h), ln_moment(theta - h));
        let mean = (up - down) / (2.0 * h);
        let std = ((up - 2.0 * at + down) / (h * h)).max(1e-300).sqrt();
        let mut range = TiltedRange {
            theta,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            theta_down: theta,
            theta_up: theta,
            mean,
        };
        // Small additional tilts suit a few large losses, tilts near 1 / std many small ones.
        let least = (0.5 / std).min(0.05 * (theta + 1.0));
        let most = (70.0 / std).max(10.0 * (theta + 1.0));
        for i in 0..=36 {
            let s = least * (most / least).powf(f64::from(i) / 36.0);
            let high = (ln_moment(theta + s) - at - ln_outside) / s;
            if high < range.high {
                range.high = high;
                range.theta_up = theta + s;
            }
            let low = -(ln_moment(theta - s) - at - ln_outside) / s;
            if low > range.low {
                range.low = low;
                range.theta_down = theta - s;
            }
        }
        range
    }
}

/// A tilt, and the range of losses that holds the tilted sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct TiltedRange {
    pub theta: f64,
    pub low: f64,
    pub high: f64,
    pub theta_down: f64,
    pub theta_up: f64,
    pub mean: f64,
}

fn push_points(
    pair: &DominatingPair,
    direction: Direction,
    mass: f64,
    weight: f64,
    points: &mut Vec<(f64, f64)>,
) {
    let (low, high) = pair.support(mass);
    let count = ((high - low) / COARSE_STEP).ceil().min(20_000.0);
    let width = (high - low) / count;
    let ln_weight = (weight * width).ln();
    for i in 0..count as usize {
        let t = low + (i as f64 + 0.5) * width;
        let (p, loss) = (pair.density(t), pair.loss(t));
        match direction {
            Direction::Remove => points.push((weight * width * p, loss)),
            Direction::Add => points.push(((ln_weight + p.ln() - loss).exp(), -loss)),
        }
    }
}
